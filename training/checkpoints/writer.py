"""Writes one checkpoint at a time in a thread, while the training continues.

Python's lock is free while the thread hashes and writes: both work on pieces of megabytes, in C.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..results import ticker

# Seconds for which the training waits for a checkpoint that is being written: before the next one,
# and at its end. A disk that writes 20 MB a second writes 12 GB meanwhile.
WAIT = 600.0
# Seconds for which a process continues after SIGTERM, if it is writing a checkpoint. mpirun and the
# supervisor send SIGKILL earlier.
LINGER = 10.0
TICK = 1.0  # seconds between two reports that the training waits for a checkpoint


@dataclass(frozen=True)
class Written:
    """The outcome of a checkpoint: the seconds for which the training stood still for it (on this
    process), and those until it was complete; `error` if it was not written."""

    step: int
    pause: float
    seconds: float
    error: Exception | None = None


class Writer:
    """The thread, its outcome, and SIGTERM: a checkpoint that is being written is finished first.

    All methods are called by one thread, that of the training.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._outcome: list[Written] = []
        self._handler: Any = None  # of SIGTERM, before the checkpoint
        self._tick = ticker()

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, step: int, began: float, write: Callable[[], object]) -> None:
        """Write the checkpoint of a step, whose copy began at this time (monotonic).

        The previous one must have been collected.
        """
        assert self._thread is None and not self._outcome, "one checkpoint at a time"
        # A daemon: a write to a disk that does not answer must not keep the process alive.
        self._thread = threading.Thread(
            target=self._run,
            args=(step, began, time.monotonic() - began, write),
            name="checkpoint",
            daemon=True,
        )
        self._catch_sigterm()
        self._thread.start()

    def write_now(self, step: int, began: float, write: Callable[[], object]) -> None:
        """Write it in this thread, while the training waits."""
        assert self._thread is None and not self._outcome, "one checkpoint at a time"
        self._run(step, began, None, write)

    def _run(
        self, step: int, began: float, pause: float | None, write: Callable[[], object]
    ) -> None:
        error: Exception | None = None
        try:
            write()
        except Exception as failure:
            error = failure
        seconds = time.monotonic() - began
        self._outcome.append(Written(step, seconds if pause is None else pause, seconds, error))

    def wait(self, seconds: float = WAIT) -> bool:
        """Wait until nothing is being written; False if that takes more than `seconds`.

        This wait has an end, so it counts as progress: all ranks wait for a slow disk, and none of
        them hangs.
        """
        until = time.monotonic() + seconds
        while (
            self._thread is not None and (remaining := until - time.monotonic()) > 0 and self.busy
        ):
            self._thread.join(min(remaining, TICK))
            self._tick()
        return not self.busy

    def collect(self) -> Written | None:
        """The outcome of the checkpoint that is complete, once; None if there is none."""
        if self.busy or not self._outcome:
            return None
        self._thread = None
        self._release_sigterm()
        return self._outcome.pop()

    def _catch_sigterm(self) -> None:
        """Only in the main thread, which alone may do so; and not if the present handler is not
        Python's, because that could not be restored."""
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) is not None:
            self._handler = signal.signal(signal.SIGTERM, self._terminate)

    def _release_sigterm(self) -> None:
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
            self._handler = None

    def _terminate(self, *_: object) -> None:
        """Finish the checkpoint, then do what SIGTERM would have done."""
        self.wait(LINGER)
        self._release_sigterm()
        os.kill(os.getpid(), signal.SIGTERM)
