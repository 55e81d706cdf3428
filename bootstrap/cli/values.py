"""Values of the Python interface as the texts of options.

From here on they are checked as those of a command line. What a command line cannot have, such as
a NUL character or a text where several are meant, is refused here.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bootstrap.errors import UsageError
from bootstrap.inventory.hosts import shortened
from bootstrap.runs.request import TrainArgs

Arguments = str | Sequence[Any] | Mapping[str, Any] | None


def text_of(value: object) -> str | None:
    """A value as the text of an option; None for None.

    Raises:
        UsageError: it has a NUL character, or it is a number of thousands of digits.
    """
    if value is None:
        return None
    try:
        text = str(value)
    except ValueError:  # of an integer
        raise UsageError(f"{shortened(value)}: no option takes it") from None
    if "\0" in text:
        raise UsageError(f"{shortened(text)}: a text without a NUL character")
    return text


def texts_of(values: Iterable[Any]) -> tuple[str, ...]:
    """Several values; UsageError for one text, of which each character would be a value."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise UsageError(f"{shortened(values)}: write a list, such as ['A', 'B']")
    return tuple(text_of(value) or "" for value in values)


def assignments_of(values: Mapping[str, Any] | None) -> tuple[str, ...]:
    """A mapping as the options NAME=VALUE."""
    if values is not None and not isinstance(values, Mapping):
        raise UsageError(f"{shortened(values)}: write a mapping, such as {{'name': 1}}")
    return tuple(f"{text_of(name)}={text_of(value)}" for name, value in (values or {}).items())


def arguments_of(args: Arguments) -> str | None:
    """The arguments of a script as one text, as --args takes it."""
    if args is None or isinstance(args, str):
        return text_of(args)
    if isinstance(args, Mapping):
        args = [item for name, value in args.items() for item in (f"--{name}", value)]
    return shlex.join(texts_of(args))


def hosts_of(hosts: str | Sequence[str] | None) -> str | None:
    """Hosts as --hosts takes them."""
    return text_of(hosts) if hosts is None or isinstance(hosts, str) else ",".join(texts_of(hosts))


def lists_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """{name: values} as the options NAME=A,B of a sweep; a text is several values already."""
    if not isinstance(values, Mapping):
        raise UsageError(f"{shortened(values)}: write a mapping, such as {{'name': [1, 2]}}")
    return tuple(
        f"{text_of(name)}={listed if isinstance(listed, str) else ','.join(texts_of(listed))}"
        for name, listed in values.items()
    )


# The options of a training that are not one text each.
_READERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("settings", "env", "data", "metrics", "mins", "maxs"), assignments_of),
    **dict.fromkeys(("secrets", "outputs"), texts_of),
    "args": arguments_of,
    "sagemaker": bool,
}


def train_args(**values: Any) -> TrainArgs:
    """The options of a training, by the names of `TrainArgs`, from values of the interface."""
    return TrainArgs(**{name: _READERS.get(name, text_of)(v) for name, v in values.items()})
