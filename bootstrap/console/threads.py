"""Several tasks at the same time; a thread that hangs never keeps the process from its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import wraps
from threading import Event, Lock, Semaphore, Thread, get_ident
from typing import ParamSpec, TypeVar

from .interrupts import NOTICE_SECONDS
from .wait import wait_until

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")
LOCKS = 61  # of a function: results for other arguments seldom share one
END_SECONDS = 10.0  # in which threads end after Ctrl-C


def in_one_thread(cached: Callable[P, R]) -> Callable[P, R]:
    """A function of `functools.cache`, which alone would compute a result in each thread that asks
    before the first has it: here one computes it, and the others wait. Results for other arguments
    are computed meanwhile."""
    locks = [Lock() for _ in range(LOCKS)]

    @wraps(cached)
    def once(*args: P.args, **kwargs: P.kwargs) -> R:
        with locks[hash(args) % LOCKS]:
            return cached(*args, **kwargs)

    return once


def side_by_side(work: Callable[[T], None], items: Sequence[T]) -> Callable[[], None]:
    """Start `work` for each item, each in a thread with the output of the caller.

    Returns a function that waits for all of them and raises the first error. Ctrl-C ends the wait,
    not the work: call it again, or leave; then the threads end with the process.
    """
    errors: list[BaseException] = []
    # In Python 3.11, after Ctrl-C has ended a `join`, the next one returns at once.
    ended = [Event() for _ in items]

    def work_on(item: T, end: Event) -> None:
        try:
            work(item)
        except BaseException as error:
            errors.append(error)
        finally:
            end.set()

    for item, end in zip(items, ended, strict=True):
        Thread(target=copy_context().run, args=(work_on, item, end), daemon=True).start()

    def wait() -> None:
        for end in ended:
            while not end.wait(NOTICE_SECONDS):
                pass
        if errors:
            raise errors[0]

    return wait


def in_threads(work: Callable[[T], R], items: Sequence[T], at_once: int) -> list[R]:
    """The results of `work` for each item, in order; `at_once` threads do it, with the output of
    the caller. After an error no other item is started.

    Ctrl-C is raised in the threads too: it ends the hash of a large file, or its upload, which then
    leaves no parts in the bucket. A thread that does not notice it ends with the process.
    """
    results: dict[int, R] = {}
    entries, over, running = iter([*enumerate(items)]), Event(), set[int]()

    def run(_: int) -> None:
        running.add(get_ident())
        try:
            while not over.is_set() and (entry := next(entries, None)):
                results[entry[0]] = work(entry[1])
        finally:
            over.set()
            running.discard(get_ident())

    try:
        side_by_side(run, range(min(at_once, len(items))))()
    except KeyboardInterrupt:
        over.set()
        _interrupt(tuple(running))
        wait_until(lambda: not running, seconds=END_SECONDS, every=0.05)
        raise
    return [results[number] for number in range(len(items))]


def _interrupt(threads: Iterable[int]) -> None:
    """Raise KeyboardInterrupt in threads, when they next execute Python code."""
    from ctypes import c_ulong, py_object, pythonapi  # 10 ms, and only after Ctrl-C

    for ident in threads:
        pythonapi.PyThreadState_SetAsyncExc(c_ulong(ident), py_object(KeyboardInterrupt))


def all_within(
    work: Callable[[T], None], items: Sequence[T], *, seconds: float, at_once: int = 32
) -> list[Exception | None]:
    """Do `work` for each item, each in a thread with the output of the caller, `at_once` at a time.

    Returns how each ended: None for success, its error, or TimeoutError where it had not ended
    after `seconds`; that one ends with the process.
    """
    outcomes: list[Exception | None] = [TimeoutError() for _ in items]
    places, end = Semaphore(at_once), time.monotonic() + seconds

    def work_on(number: int) -> None:
        with places:
            try:
                if time.monotonic() < end:
                    work(items[number])
                    outcomes[number] = None
            except Exception as error:
                outcomes[number] = error

    threads = [
        Thread(target=copy_context().run, args=(work_on, number), daemon=True)
        for number in range(len(items))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and (remaining := end - time.monotonic()) > 0:
            thread.join(min(NOTICE_SECONDS, remaining))
    return list(outcomes)
