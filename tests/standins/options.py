"""Options as they are typed, read as `fab` reads them."""

from __future__ import annotations

from typing import Any, TypeVar

from bootstrap.errors import UsageError
from railhead.documents.options.option import from_texts
from railhead.documents.options.runs import ProgramOptions

T = TypeVar("T")


def typed(group: type[T], **texts: Any) -> T:
    """A group of options from what was typed, by the names of the options."""
    return from_texts(group, texts, UsageError)


def program(**texts: Any) -> ProgramOptions:
    """The options of a program."""
    return typed(ProgramOptions, **texts)
