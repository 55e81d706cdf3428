"""The settings of a training: one frozen dataclass that states and checks its own rules.

Standard library only: the control side asks `python -S -m training --check` before it ships a run.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, get_type_hints

from training.data import DATASETS
from training.models import MODELS

STRATEGIES = ("horovod", "multiworker", "mirrored", "one-device")
OPTIMIZERS = ("adam", "sgd")
DECAYS = ("cosine", "none")


class ConfigError(ValueError):
    """A setting breaks its rule; the message gives the rule, the value and the choices."""


def setting(default: Any, doc: str, **rules: Any) -> Any:
    """A field with its one-line doc and its rules: choices=, least=, above=, most=."""
    return field(default=default, metadata={"doc": doc, **rules})


@dataclass(frozen=True)
class TrainConfig:
    """What is trained on what, and for how long. Batches and rates are per replica."""

    data: str = setting("digits", "data set", choices=tuple(DATASETS))
    model: str = setting("cnn", "network", choices=tuple(MODELS))
    shift: int = setting(1, "pixels by which training images move at random", least=0, most=8)
    epochs: int = setting(20, "passes over the training set", least=1)
    steps_per_epoch: int = setting(0, "end each epoch after so many steps; 0 = never", least=0)
    batch_size: int = setting(32, "samples per replica and step, at most", least=1)
    optimizer: str = setting("adam", "update rule", choices=OPTIMIZERS)
    learning_rate: float = setting(0.001, "for one replica; multiplied by their number", above=0)
    warmup_epochs: float = setting(1.0, "epochs until the multiplied rate is reached", least=0)
    decay: str = setting("cosine", "how the rate falls after the warm-up", choices=DECAYS)
    seed: int = setting(0, "of weights and shuffles", least=0)
    synthetic_samples: int = setting(2048, "size of the synthetic training set", least=1)
    min_accuracy: float | None = setting(
        None, "held-out accuracy below which the run has not passed", least=0, most=1
    )
    threads: int = setting(0, "CPU threads per rank; 0 = this machine's, shared evenly", least=0)

    def __post_init__(self) -> None:
        hints = get_type_hints(TrainConfig)
        for item in fields(self):
            value = _typed(item.name, hints[item.name], getattr(self, item.name))
            _check_rules(item.name, value, item.metadata)
            object.__setattr__(self, item.name, value)


def resolve(changes: Mapping[str, Any]) -> TrainConfig:
    """The default settings with `changes`; ConfigError for a name or a value that is wrong."""
    for name in changes:
        require_choice("setting", name, [item.name for item in fields(TrainConfig)])
    return TrainConfig(**changes)


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Turn `name=value` words into values of each field's type; the last word for a name wins."""
    hints = get_type_hints(TrainConfig)
    values = {}
    for word in assignments:
        name, equals, text = word.partition("=")
        if not equals:
            raise ConfigError(f"a setting is written name=value, not {word!r}")
        require_choice("setting", name, hints)
        values[name] = _parse(name, hints[name], text.strip())
    return values


def require_choice(what: str, value: Any, choices: Iterable[str]) -> None:
    """Refuse a value that is none of the choices, and suggest the nearest."""
    known = list(choices)
    if value in known:
        return
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.6)
    guess = f" Did you mean {near[0]}?" if near else ""
    raise ConfigError(f"unknown {what} {value!r}.{guess} Choices: {', '.join(known)}")


def describe_fields() -> dict[str, dict[str, Any]]:
    """Per setting its type, default, doc and rules, as JSON carries them."""
    hints = get_type_hints(TrainConfig)
    return {
        item.name: {"type": _type_name(hints[item.name]), "default": item.default, **item.metadata}
        for item in fields(TrainConfig)
    }


def _type_name(kind: Any) -> str:
    return {int: "int", float: "float", str: "str"}.get(kind, "float or none")


def _parse(name: str, kind: Any, text: str) -> Any:
    if kind is str:
        return text
    if kind not in (int, float) and text.lower() == "none":
        return None
    number: Callable[[str], float] = int if kind is int else float
    try:
        return number(text)
    except ValueError:
        raise ConfigError(f"{name} must be {_wanted(kind)}, not {text!r}") from None


def _typed(name: str, kind: Any, value: Any) -> Any:
    """Check a value's type; whole numbers are accepted where a float is wanted (JSON drops .0)."""
    if kind not in (int, float, str) and value is None:
        return None
    allowed: Any = {int: (int,), str: (str,)}.get(kind, (int, float))
    if isinstance(value, bool) or not isinstance(value, allowed):
        raise ConfigError(f"{name} must be {_wanted(kind)}, not {value!r}")
    if kind in (int, str):
        return value
    if not math.isfinite(value):
        raise ConfigError(f"{name} must be {_wanted(kind)}, not {value!r}")
    return float(value)


def _wanted(kind: Any) -> str:
    names = {int: "a whole number", float: "a finite number", str: "text"}
    return names.get(kind, "a finite number or none")


def _check_rules(name: str, value: Any, rules: Mapping[str, Any]) -> None:
    if value is None:
        return
    if "choices" in rules:
        require_choice(name, value, rules["choices"])
    if "above" in rules and value <= rules["above"]:
        raise ConfigError(f"{name} must be more than {rules['above']}, not {value}")
    if "least" in rules and value < rules["least"]:
        raise ConfigError(f"{name} must be at least {rules['least']}, not {value}")
    if "most" in rules and value > rules["most"]:
        raise ConfigError(f"{name} must be at most {rules['most']}, not {value}")
