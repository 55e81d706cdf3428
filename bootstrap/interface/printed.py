"""What methods return of tasks that print."""

from __future__ import annotations

from collections.abc import Callable

from railhead.documents.codec import encode

from ..console.output import note_output, noted_output, printing_with
from ..errors import RailheadError
from ..untrusted.decode import JsonObject


def printed_by(call: Callable[[], object]) -> str:
    """The lines that a call prints, as text."""
    lines: list[str] = []
    with printing_with(lines.append):
        call()
    return "\n".join(lines)


def document_of(call: Callable[[], object]) -> JsonObject:
    """The document of a task, as with --json; also where the task ends with an error after it."""
    note_output(None)
    try:
        printed_by(call)
    except RailheadError:
        if noted_output() is None:
            raise
    return dict(encode(noted_output()))
