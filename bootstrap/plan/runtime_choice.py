"""Which runtime serves these hosts and this launcher, from their facts, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from bootstrap.errors import UsageError
from bootstrap.facts.gpu import TOO_OLD
from bootstrap.facts.host import HostFacts, common_python
from bootstrap.plan.runtimes import ROWS, Environment, Row, Runtime, row_named


def choose(facts: Mapping[str, HostFacts], launcher: str | None, name: str | None) -> Environment:
    """The environment that serves all hosts and the launcher, and why; `name` is of a row.

    Raises:
        UsageError: a host has an architecture that no runtime is locked for, only some of the
            hosts have GPUs, or no Python of the row is on all of them.
    """
    gpu, hosts_are = _kind(facts)
    row, why = _row(facts, launcher, name)
    python = common_python(facts, row.pythons)
    return Environment(Runtime(row, gpu), python, f"{hosts_are}; {why}")


def _row(facts: Mapping[str, HostFacts], launcher: str | None, name: str | None) -> tuple[Row, str]:
    if name is not None:
        return row_named(name, launcher), f"--runtime {name}"
    able = [row for row in ROWS.values() if row.serves(launcher)]
    there = [r for r in able if any(all(p in f.pythons for f in facts.values()) for p in r.pythons)]
    if there and there[0] != able[0]:
        return there[0], f"{able[0].name} has no Python that all hosts have"
    return able[0], "serves both launchers"


def _kind(facts: Mapping[str, HostFacts]) -> tuple[bool, str]:
    """Whether these are hosts with GPUs, in words."""
    for name, host in facts.items():
        if host.arch != "x86_64":
            raise UsageError(f"{name} is {host.arch}: the runtimes are locked for x86_64 alone")
    with_gpu = [name for name, host in facts.items() if gpus_of(host)]
    if with_gpu and len(with_gpu) < len(facts):
        without = ", ".join(name for name in facts if name not in with_gpu)
        raise UsageError(f"GPUs on {', '.join(with_gpu)} but none on {without}: name one kind only")
    if with_gpu:
        return True, f"GPUs: {gpus_of(facts[with_gpu[0]])[0]}"
    return False, "no GPU on any host"


def gpus_of(host: HostFacts) -> tuple[str, ...]:
    """The GPUs that a host trains on: those that its driver knows; where none works yet, the cards
    that a driver will make work. TensorFlow uses none that is older."""
    return host.gpus or tuple(str(card) for card in host.gpu.cards if card.arch not in TOO_OLD)
