"""The trials of a sweep: their values and their hosts. Pure."""

from __future__ import annotations

import json
import math
import random
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace

from railhead.documents import sagemaker
from railhead.documents.lazy import dataclass
from railhead.documents.options.runs import ProgramOptions

from ...console.text import count
from ...errors import Command, UsageError
from ...inventory.hosts import Inventory
from ...runs.request import hyperparameters

MOST = 100  # trials


@dataclass(frozen=True)
class Trial:
    """One combination of values: {name: value}."""

    values: Mapping[str, str]

    @property
    def name(self) -> str:
        """Such as "learning_rate=0.1 batch_size=32"."""
        return " ".join(f"{name}={value}" for name, value in self.values.items())

    def args(self, base: ProgramOptions) -> ProgramOptions:
        """The options of the trial: settings of the built-in training, or arguments of a script."""
        if not base.is_own:
            return replace(base, settings={**base.settings, **self.values})
        if (whole := hyperparameters(base)) is not None:
            values = {name: sagemaker.loaded(value) for name, value in self.values.items()}
            return replace(base, args=json.dumps({**whole, **values}))
        options = [item for name, value in self.values.items() for item in (f"--{name}", value)]
        return replace(base, args=f"{base.args or ''} {shlex.join(options)}".strip())


def read_trials(
    values: Mapping[str, tuple[str, ...]], drawn: int | None = None
) -> tuple[Trial, ...]:
    """The combinations of the values; with `drawn`, that many of them, always the same ones.

    Raises:
        UsageError: there are none, or too many.
    """
    if not values:
        rule = "--set NAME=VALUE,VALUE,...: at least one"
        raise UsageError(rule, hint=Command("sweep", set="learning_rate=0.01,0.001"))
    total = math.prod(map(len, values.values()))  # which may be too many to list
    if total > sys.maxsize:
        raise UsageError(f"{total} combinations: --random draws from at most {sys.maxsize}")
    if (total if drawn is None else min(drawn, total)) > MOST:
        raise UsageError(
            f"{total} combinations: at most {MOST}", hint=f"--random {MOST}   # draws some"
        )
    some = drawn is not None and drawn < total
    numbers = random.Random(0).sample(range(total), drawn or 0) if some else range(total)
    return tuple(_combination(values, number) for number in numbers)


def _combination(values: Mapping[str, tuple[str, ...]], number: int) -> Trial:
    """The combination with this number, from 0, if the values of the last name change first."""
    chosen: dict[str, str] = {}
    for name in reversed([*values]):
        number, place = divmod(number, len(values[name]))
        chosen[name] = values[name][place]
    return Trial({name: chosen[name] for name in values})


def slices_of(inventory: Inventory, at_once: int, trials: int) -> tuple[Inventory, ...]:
    """Divide the hosts, in their order, into `at_once` equal slices, one per simultaneous trial.

    Raises:
        UsageError: the hosts cannot be divided equally, or there are fewer trials than slices.
    """
    hosts = len(inventory.hosts)
    choices = [n for n in range(1, min(hosts, trials) + 1) if hosts % n == 0]
    if at_once not in choices:
        raise UsageError(
            f"--at-once {at_once}: {at_once} must divide {count(hosts, 'host')} into equal slices, "
            f"and there must be a trial for each slice ({count(trials, 'trial')} in all); choices: "
            f"{', '.join(map(str, choices))}",
            hint=Command("sweep", at_once=max(n for n in choices if n < at_once)),
        )
    size = hosts // at_once
    starts = range(0, hosts, size)
    return tuple(inventory.only(inventory.names[n : n + size]) for n in starts)
