"""Several tasks at the same time, which Ctrl-C does not end by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import copy_context
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")


def side_by_side(work: Callable[[T], None], items: Sequence[T]) -> Callable[[], None]:
    """Start `work` for each item, each in a thread with the output of the caller.

    Returns a function that waits for all of them and raises the first error. Ctrl-C ends the wait,
    not the work: call it again, or leave; then the threads end with the process.
    """
    errors: list[BaseException] = []
    # In Python 3.11, after Ctrl-C has ended a `join`, the next one returns at once.
    ended = [Event() for _ in items]

    def one(item: T, end: Event) -> None:
        try:
            work(item)
        except BaseException as error:
            errors.append(error)
        finally:
            end.set()

    for item, end in zip(items, ended, strict=True):
        Thread(target=copy_context().run, args=(one, item, end), daemon=True).start()

    def wait() -> None:
        for end in ended:
            # A wait without a limit can miss a Ctrl-C that comes just before it.
            while not end.wait(0.5):
                pass
        if errors:
            raise errors[0]

    return wait
