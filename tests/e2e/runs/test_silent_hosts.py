"""Hosts that fall silent during a run: the run ends everywhere, with the host that was lost.

Full hosts, whose networks and processes can be broken for real. The ranks only tick.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from e2e.adhoc_hosts import (
    END_OF_TICKS,
    introduce,
    marked_on,
    ranks_on,
    ready,
    somebody,
    ticking,
    wait_for_ticks,
)
from e2e.local_hosts import Operator, wait_until
from hosts.full_host import FullHost
from hosts.network import Network

from bootstrap.host.rank.rank_link import LIMIT

pytestmark = [pytest.mark.root, pytest.mark.slow]


def orted_on(host: FullHost) -> int:
    """The machine's pid of Open MPI's daemon there."""
    (pid,) = [p.pid for p in host.processes() if p.argv[0].endswith("orted")]
    return pid


def power_cut(laptop: Operator, h1: FullHost, h2: FullHost) -> None:
    """No connection is closed: the other host only stops answering. An elastic run continues
    without it."""
    elastic = ("--retries", "1", "--elastic", "1:2")
    words = ticking(laptop, introduce(laptop, h1, h2), 600, *elastic)
    process = laptop.start(*words)
    wait_for_ticks(h1, h2)
    h2.stop(silent=True)
    states = h1.disk.root / "root/.railhead/runs"

    def is_another_attempt() -> bool:
        return any('"attempts"' in path.read_text() for path in states.glob("*/state.json"))

    wait_until(is_another_attempt, 150, "the next attempt begins")
    wait_for_ticks(h1)
    h1.write(END_OF_TICKS, "")
    out, _ = process.communicate(timeout=150)
    assert process.returncode == 0 and "started again from step 0" in out, out
    (attempt,) = laptop.result()["attempts"]
    assert (attempt["cause"]["class"], attempt["culprit"]["host"]) == ("host", "lap-h2")
    assert attempt["hosts"] == ["lap-h1"] and laptop.result()["size"] == 1
    assert h1.busy(seconds=60) == []


def frozen_daemon(laptop: Operator, h1: FullHost, h2: FullHost) -> None:
    """Open MPI's daemon ends the run when it is frozen; a rank in a debugger does not."""
    process = laptop.start(*ticking(laptop, introduce(laptop, h1, h2), 600))
    wait_for_ticks(h1, h2)
    os.kill(ranks_on(h1)[0], signal.SIGSTOP)
    begun = time.monotonic()
    os.kill(orted_on(h2), signal.SIGSTOP)
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 1 and "lost on lap-h2" in out, out
    assert "no heartbeat of its ranks for 60 s" in out
    assert time.monotonic() - begun >= 50  # a host that is only slow has this time
    assert h1.busy(seconds=60) == [] and h2.busy(seconds=60) == []


def broken_network(laptop: Operator, chief: FullHost, mute: FullHost, cut: FullHost) -> None:
    """mpirun's connections notice it on the chief, the ranks' helpers on the other hosts."""
    machines = (chief, mute, cut)
    process = laptop.start(*ticking(laptop, introduce(laptop, *machines), 600))
    wait_for_ticks(*machines)
    begun = time.monotonic()
    mute.partition()  # what it sends does not leave the host
    chief.block(cut)  # what it sends is lost on the way
    out, _ = process.communicate(timeout=150)
    assert process.returncode == 1, out
    assert time.monotonic() - begun < 120
    culprit = laptop.result()["culprit"]["host"]
    assert culprit in {"lap-mute", "lap-cut"} and f"lost on {culprit}" in out
    assert chief.busy(seconds=60) == []
    # The network stays cut: what remains there must end by itself.
    wait_until(lambda: not (marked_on(mute) and marked_on(cut)), LIMIT + 60, "one of them ends it")
    assert time.monotonic() - begun >= LIMIT - 10
    wait_until(lambda: not marked_on(mute) + marked_on(cut), LIMIT + 60, "both have ended it")
    assert time.monotonic() - begun <= LIMIT + 60


def lost_chief(laptop: Operator, h1: FullHost, h2: FullHost) -> None:
    """The run ends on the other host, and the command that continues it is printed."""
    process = laptop.start(*ticking(laptop, introduce(laptop, h1, h2), 600))
    wait_for_ticks(h1, h2)
    begun = time.monotonic()
    h1.stop(silent=True)
    process.terminate()
    process.communicate(timeout=60)
    wait_until(lambda: not marked_on(h2), LIMIT + 60, "its ranks have ended there")
    assert time.monotonic() - begun <= LIMIT + 60
    laptop.fab("attach").ended(4, "fab train --resume")
    laptop.fab("status").ended(4, "its chief, lap-h1, is not reached", "fab train --resume")


# Each is noticed after one to two minutes of silence: all of them wait at the same time.
SILENT: dict[Callable[..., None], tuple[str, ...]] = {
    power_cut: ("h1", "h2"),
    frozen_daemon: ("h1", "h2"),
    lost_chief: ("h1", "h2"),
    broken_network: ("h1", "mute", "cut"),
}


@pytest.fixture(scope="module")
def silent(
    network: Network,
    ready_disk: Path,
    shared_caches: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, Future[None]]]:
    """The faults of SILENT, each by a person and on hosts of its own."""
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor())
        started = {}
        for fault, names in SILENT.items():
            hosts = stack.enter_context(ready(network, ready_disk, *names))
            laptop = somebody(tmp_path_factory.mktemp(fault.__name__), shared_caches)
            started[fault.__name__] = threads.submit(fault, laptop, *hosts)
        yield started


@pytest.mark.parametrize("fault", [fault.__name__ for fault in SILENT])
def test_a_silent_host_ends_the_run_everywhere(silent: dict[str, Future[None]], fault: str) -> None:
    silent[fault].result()
