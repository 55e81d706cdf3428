"""`fab tensorboard`: TensorBoard on this computer, for a run in progress or one that has ended."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ..clouds.bucket import bucket_of
from ..console import log
from ..console.output import print_lines
from ..console.wait import wait_until
from ..errors import Command, Hint, RailheadError, UsageError
from ..host.base.programs import TENSORBOARD
from ..inventory.host_programs import archive
from ..lifecycle import power
from ..provision.local_environment import python_of
from ..runs import event_files
from ..runs.event_files import HostEvents, bring_from_bucket
from ..runs.follow import RunConnection
from ..runs.run import Run, read_state
from .attach import connected, find

EVERY = 5.0  # seconds between two checks for new events
STARTING = 60.0  # seconds until TensorBoard must answer


def show(status: power.ClusterStatus, run_id: str | None) -> None:
    """Start TensorBoard, print its address, and fetch new events until Ctrl-C.

    Raises:
        UsageError: the run has written no events and no metrics.
    """
    run = find(status, run_id)
    with _source(status, run) as source:
        source.bring()
        if not _has_events(run) and source.is_running():
            print_lines("the run has no events yet; waiting for the first ones")
        while not _has_events(run) and source.is_running():
            time.sleep(EVERY)
            source.bring()
        if not _has_events(run):
            raise UsageError(
                f"run {run.run_id} has no TensorBoard events and no metrics yet",
                hint=Hint(
                    Command("logs", run=run.run_id),
                    "   # the built-in training writes them from its first steps",
                ),
            )
        with _tensorboard(run.results) as address, contextlib.suppress(KeyboardInterrupt):
            print_lines(f"TensorBoard of run {run.run_id}: {address}", "Ctrl-C ends it")
            while True:
                time.sleep(EVERY)
                source.bring()
    print_lines("TensorBoard has ended")


def _has_events(run: Run) -> bool:
    return any(run.results.rglob("*tfevents*"))


class _Here:
    """All data is on this computer."""

    def bring(self) -> None:
        """Nothing to fetch."""

    def is_running(self) -> bool:
        """No more data will come."""
        return False


@contextlib.contextmanager
def _source(status: power.ClusterStatus, run: Run) -> Iterator[_Here | _Following]:
    """The source of the events: the results, the bucket or the chief."""
    inventory = run.part_of(status.inventory)
    if (run.results / "result.json").exists():
        yield _Here()
    elif inventory.chief.name not in status.not_running:
        with connected(inventory, run) as connection:
            yield _Following(connection)
    elif inventory.bucket:
        bring_from_bucket(bucket_of(inventory), run)
        yield _Here()
    else:
        print_lines(f"{inventory.chief.name} does not run: only what was fetched is shown")
        yield _Here()


class _Following:
    """Fetches events from the chief; reconnects after a broken connection."""

    def __init__(self, connection: RunConnection) -> None:
        self.connection, self.events = connection, HostEvents(connection.run)
        self.lost = False

    def bring(self) -> None:
        """Fetch new events; an error is reported once."""
        try:
            self.connection.ensure_open()
            self.events.bring(self.connection.chief)
            self.lost = False
        except RailheadError as error:
            if not self.lost:
                print_lines(f"no new events: {error.message}")
            self.lost = True

    def is_running(self) -> bool:
        """Whether the run is in progress."""
        if self.lost:
            return False
        state = read_state(self.connection.chief, self.connection.run)
        return state is not None and not state.has_ended


def _python(results: Path) -> Path:
    """The Python of the environment that can show this folder.

    The environment with the profiler is larger: it is created only for a run with a profile.
    """
    if any(results.rglob(event_files.PROFILES)):
        try:
            return python_of("profiler")
        except RailheadError as error:
            print_lines(f"the profile is not shown: {error.message}")
    return python_of("tensorboard")


@contextlib.contextmanager
def _tensorboard(folder: Path) -> Iterator[str]:
    """TensorBoard on a free port of the loopback interface; yields its address."""
    python, port = _python(folder), _free_port()
    options = ["--logdir", str(folder), "--host", "127.0.0.1", "--port", str(port)]
    options += ["--load_fast", "false", "--reload_interval", "5"]
    address = f"http://127.0.0.1:{port}/"
    with (
        tempfile.TemporaryFile() as output,
        _archive_file() as programs,
        log.started(
            [str(python), "-I", programs, TENSORBOARD, *options],
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTHON")},
            start_new_session=True,  # Ctrl-C ends `fab`, not TensorBoard
        ) as process,
    ):
        try:
            _wait_for_answer(process, address, output)
            yield address
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _archive_file() -> Iterator[str]:
    """A file with Railhead's archive: TensorBoard's environment does not have its packages."""
    with tempfile.NamedTemporaryFile(suffix=".pyz") as file:
        file.write(archive())
        file.flush()
        yield file.name


def _wait_for_answer(process: subprocess.Popen[bytes], address: str, output: IO[bytes]) -> None:
    """RailheadError with the last lines if TensorBoard ends, or if it does not answer in time."""
    if not wait_until(lambda: _ended_or_answers(process, address), seconds=STARTING, every=0.2):
        raise RailheadError(f"TensorBoard does not answer within {STARTING:.0f} s")
    if process.poll() is not None:
        output.seek(0)
        tail = output.read().decode(errors="replace").strip().splitlines()[-3:]
        raise RailheadError("TensorBoard did not start: " + "\n".join(tail))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _ended_or_answers(process: subprocess.Popen[bytes], address: str) -> bool:
    if process.poll() is not None:
        return True
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with contextlib.suppress(OSError), direct.open(address, timeout=5):
        return True
    return False
