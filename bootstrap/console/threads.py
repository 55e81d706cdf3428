"""Several tasks at the same time; a thread that hangs never keeps the process from its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from threading import Event, Semaphore, Thread
from typing import TypeVar

from .interrupts import NOTICE_SECONDS

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
            while not end.wait(NOTICE_SECONDS):
                pass
        if errors:
            raise errors[0]

    return wait


def all_within(
    work: Callable[[T], None], items: Sequence[T], *, seconds: float, at_once: int = 32
) -> list[Exception | None]:
    """Do `work` for each item, each in a thread with the output of the caller, `at_once` at a time.

    Returns how each ended: None for success, its error, or TimeoutError where it had not ended
    after `seconds`; that one ends with the process.
    """
    outcomes: list[Exception | None] = [TimeoutError() for _ in items]
    places, end = Semaphore(at_once), time.monotonic() + seconds

    def one(number: int) -> None:
        with places:
            try:
                if time.monotonic() < end:
                    work(items[number])
                    outcomes[number] = None
            except Exception as error:
                outcomes[number] = error

    threads = [
        Thread(target=copy_context().run, args=(one, number), daemon=True)
        for number in range(len(items))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and (remaining := end - time.monotonic()) > 0:
            thread.join(min(NOTICE_SECONDS, remaining))
    return list(outcomes)
