"""Large bodies are parsed, and large answers written, in a process beside the server.

json and NumPy hold Python's lock while they convert a list: in a thread they would block all other
requests meanwhile. The process starts with the first large request, and its memory has a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import pickle
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from .rest import Refused

LARGE = 200_000  # bytes; parsed in about 10 ms
MEMORY_PER_BYTE = 64  # of a body: "[]," takes 3 bytes as JSON and 64 as an object
START = """
import sys
memory, *sys.path = sys.argv[1:]
from training.serving import large
large.work_until_end(int(memory))
"""
T = TypeVar("T")


class LargeWork:
    """Runs functions on large values, one after another. `close` ends the process."""

    def __init__(self, largest: int) -> None:
        self.memory = MEMORY_PER_BYTE * largest
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="large")
        self._process: subprocess.Popen[bytes] | None = None

    async def run(self, size: int, work: Callable[..., T], *args: Any) -> T:
        """`work(*args)`; here if `size` (bytes) is small.

        Raises:
            Refused: 413 the values take too much memory, 503 the process was killed; and what
                `work` raises.
        """
        if size <= LARGE:
            return work(*args)
        loop = asyncio.get_running_loop()
        outcome = await loop.run_in_executor(self._thread, self._exchange, work, args)
        if isinstance(outcome, MemoryError):
            limit = self.memory // 1_000_000
            raise Refused(413, f"the values take more than {limit} MB: send them in parts")
        if isinstance(outcome, Exception):
            raise outcome
        result: T = outcome
        return result

    def close(self) -> None:
        """Kill the process; what waits for it ends."""
        self._thread.shutdown(wait=False, cancel_futures=True)
        if self._process:
            self._process.kill()
            self._process.wait()

    def _exchange(self, work: Callable[..., Any], args: Any) -> Any:
        """What `work` returns or raises in the process."""
        process = self._process
        if process is None or process.poll() is not None:
            argv = [sys.executable, "-I", "-c", START, str(self.memory), *sys.path]
            process = self._process = subprocess.Popen(
                argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        assert process.stdin and process.stdout
        try:
            pickle.dump((work, args), process.stdin, protocol=5)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            process.kill()
            process.wait()
            return Refused(503, "the process for large requests was killed; try again")


def work_until_end(memory: int) -> None:
    """In the process: do the work that comes through standard input, until that closes, as it does
    when the server is killed. It may allocate at most `memory` bytes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server
    gc.disable()  # it would look through millions of lists, which have no cycles
    limit_memory(memory)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _do_next()
            gc.collect()


def _do_next() -> None:
    work, args = pickle.load(sys.stdin.buffer)
    try:
        outcome = work(*args)
    except Exception as error:  # of the work, for the server
        outcome = error
    pickle.dump(outcome, sys.stdout.buffer, protocol=5)
    sys.stdout.buffer.flush()


def limit_memory(more: int) -> None:
    """Limit this process to this number of bytes `more` than it has now."""
    used = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    with contextlib.suppress(ValueError):  # the host's own limit is lower
        resource.setrlimit(resource.RLIMIT_DATA, (used + more, most))
