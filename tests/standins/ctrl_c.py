"""Ctrl-C, from a thread of a test to the main thread, which waits in the product's code."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from standins.waiting import wait_until

MAIN = threading.main_thread().ident or 0
MOST = 15.0  # seconds, of which the product's code uses one


def press() -> None:
    """Send it."""
    signal.pthread_kill(MAIN, signal.SIGINT)


@contextmanager
def pressed_before_the_wait_in(module: ModuleType) -> Iterator[None]:
    """Press it as if just before the wait in the block, in a function of `module`: unlike a signal
    during the wait, it does not end the wait. The block must notice it soon."""
    looks = deque[tuple[int, int] | None](maxlen=5)
    pressed: list[float] = []

    def waits() -> bool:
        looks.append(_place_in(module))
        return looks[0] is not None and [*looks] == [looks[0]] * 5

    def press_then() -> None:
        wait_until(waits)
        pressed.append(time.monotonic())
        _thread.interrupt_main()

    thread = threading.Thread(target=press_then)
    thread.start()
    try:
        yield
    finally:
        noticed = time.monotonic()
        thread.join()
        assert noticed - pressed[0] < MOST, "it was noticed when the wait ended"


def _place_in(module: ModuleType) -> tuple[int, int] | None:
    """Where the main thread is in a function of a module, or in one of `threading` that it called;
    None while it is elsewhere."""
    frame = sys._current_frames()[MAIN]
    while frame.f_back and frame.f_code.co_filename == threading.__file__:
        frame = frame.f_back
    inside = frame.f_code.co_filename == module.__file__
    return (id(frame.f_code), frame.f_lasti) if inside else None


def is_anywhere_in(name: str) -> bool:
    """Whether a thread is in a function of this name."""
    frames = [*sys._current_frames().values()]
    return any(frame.f_code.co_name == name for frame in frames)
