"""What is said while a command works: lines for people, and a document for programs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO

Reporter = Callable[[str], None]


def say(*lines: str) -> None:
    """Print lines at once, also into a pipe."""
    for line in lines:
        print(line, flush=True)


@contextmanager
def json_output(wanted: bool) -> Iterator[TextIO | None]:
    """With --json, stdout for the document alone: what people read goes to stderr meanwhile."""
    out = sys.stdout
    if not wanted:
        yield None
        return
    with redirect_stdout(sys.stderr):
        yield out
