"""Faults during a run: what ends, what continues, what is reported and what stays.

Full hosts, whose networks and processes can be broken for real. The ranks only tick.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest
from e2e.adhoc_hosts import (
    END_OF_TICKS,
    introduce,
    marked_on,
    our_keys,
    ranks_on,
    supervisor_on,
    ticking,
    wait_for_ticks,
)
from e2e.local_hosts import Operator, wait_until
from hosts.full_host import FullHost

pytestmark = [pytest.mark.root, pytest.mark.slow]

Start = Callable[..., list[FullHost]]
Two = tuple[FullHost, FullHost, str]


@pytest.fixture
def two(laptop: Operator, ready_hosts: Start) -> Two:
    """Two ready hosts, and their names for --hosts."""
    h1, h2 = ready_hosts("h1", "h2")
    return h1, h2, introduce(laptop, h1, h2)


def test_a_killed_rank_ends_all_ranks(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(laptop, hosts, 300))
    wait_for_ticks(h1, h2)
    os.kill(ranks_on(h2)[0], signal.SIGKILL)
    wait_until(lambda: not ranks_on(h1) + ranks_on(h2), 20, "all ranks have ended")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out
    assert "rank 1 on lap-h2 was killed by signal 9" in out and "| tick" in out
    assert h1.busy(seconds=60) == [] and h2.busy(seconds=60) == []


def test_a_killed_supervisor_ends_the_ranks_and_is_reported(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(laptop, hosts, 300))
    wait_for_ticks(h1, h2)
    os.kill(supervisor_on(h1), signal.SIGKILL)
    wait_until(lambda: not ranks_on(h1) + ranks_on(h2), 20, "all ranks have ended")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "its supervisor died" in out, out
    laptop.fab("status", "--hosts", hosts).ended(0, "LOST: its supervisor died")
    laptop.fab("teardown", "--hosts", hosts).ended(0, "keys removed")
    assert marked_on(h1) + marked_on(h2) + our_keys(h1) + our_keys(h2) == []


def test_a_run_outlives_its_connections_and_its_controller(laptop: Operator, two: Two) -> None:
    """sshd's sessions end, the network to the chief breaks, and at last `fab` is killed."""
    h1, h2, hosts = two
    process = laptop.start(*ticking(laptop, hosts, 300))
    wait_for_ticks(h1, h2)
    for session in h1.processes():
        if " ".join(session.argv).startswith("sshd: root"):
            os.kill(session.pid, signal.SIGKILL)
    assert process.stdout
    assert any("the run continues, reconnecting" in line for line in process.stdout)
    h1.legs.block(h1.network.gateway, None)
    wait_for_ticks(h1, h2, more=50)
    h1.heal()
    assert process.poll() is None
    process.kill()
    process.communicate(timeout=60)
    wait_for_ticks(h1, h2, more=5)
    laptop.fab("train", "--hosts", hosts, "--preset", "smoke").ended(2, "is busy with run")
    for host in (h1, h2):
        host.write(END_OF_TICKS, "")
    laptop.fab("attach", "--hosts", hosts).ended(0, "succeeded")
    assert (laptop.last / "outputs" / "finished.txt").read_text() == "lap-h1"


def test_what_a_crash_left_is_found_without_naming_it(laptop: Operator, two: Two) -> None:
    """`fab` is killed and the chief loses its power: the other host is freed first, the chief and
    its results when it is back."""
    h1, h2, hosts = two
    process = laptop.start(*ticking(laptop, hosts, 300))
    wait_for_ticks(h1, h2)
    process.kill()
    process.communicate(timeout=60)
    (run,) = laptop.recorded()
    h1.stop(silent=True)
    assert ranks_on(h2)
    command = laptop.fab("teardown").ended(1)
    assert "lap-h1  NOT VERIFIED  not reached" in command.out
    assert h2.busy(seconds=60) == [] and our_keys(h2) == []
    h1.start()
    laptop.fab("teardown").ended(0, f"keeps the results of {run}")
    assert h1.busy(seconds=60) == [] and our_keys(h1) == []
    laptop.fab("fetch", "--hosts", hosts).ended(0, "logs/rank-0.log")
