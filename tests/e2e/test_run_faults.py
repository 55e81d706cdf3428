"""Faults during a run: what ends, what continues, what is reported and what stays.

Full hosts, whose networks and processes can be broken for real. The ranks only tick.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest
from e2e.adhoc_hosts import (
    END_OF_TICKS,
    TICKS,
    introduce,
    marked_on,
    our_keys,
    ranks_on,
    supervisor_on,
    wait_for_ticks,
)
from e2e.local_hosts import Operator, wait_until
from hosts.full_host import FullHost

from bootstrap.remote.rank.rank_link import LIMIT

pytestmark = [pytest.mark.root, pytest.mark.slow]

Start = Callable[..., list[FullHost]]
Two = tuple[FullHost, FullHost, str]


@pytest.fixture
def two(laptop: Operator, ready_hosts: Start) -> Two:
    """Two ready hosts, and their names for --hosts; the person has a script that ticks."""
    h1, h2 = ready_hosts("h1", "h2")
    hosts = introduce(laptop, h1, h2)
    laptop.write("ticks.py", TICKS)
    return h1, h2, hosts


def ticking(hosts: str, seconds: float, *options: str) -> tuple[str, ...]:
    """The arguments that start a run of so many seconds."""
    return ("train", "--hosts", hosts, "--script", "ticks.py", "--args", str(seconds), *options)


def orted_on(host: FullHost) -> int:
    """The machine's pid of Open MPI's daemon there."""
    (pid,) = [p.pid for p in host.processes() if p.argv[0].endswith("orted")]
    return pid


def test_a_power_cut_ends_the_run(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 300))
    wait_for_ticks(h1, h2)
    begun = time.monotonic()
    h2.stop(silent=True)
    out, _ = process.communicate(timeout=150)
    assert process.returncode == 1 and "lost on lap-h2" in out, out
    assert time.monotonic() - begun < 120
    assert laptop.result()["culprit"]["host"] == "lap-h2"
    assert h1.busy(seconds=20) == []


def test_hosts_that_the_network_lost_end_the_run_everywhere(
    laptop: Operator, ready_hosts: Start
) -> None:
    """mpirun's connections notice it on the chief, the ranks' helpers on the other hosts."""
    chief, mute, cut = machines = ready_hosts("h1", "mute", "cut")
    hosts = introduce(laptop, *machines)
    laptop.write("ticks.py", TICKS)
    process = laptop.start(*ticking(hosts, 600))
    wait_for_ticks(*machines)
    begun = time.monotonic()
    mute.partition()  # what it sends does not leave the host
    chief.block(cut)  # what it sends is lost on the way
    out, _ = process.communicate(timeout=150)
    print(out, time.monotonic() - begun)
    assert process.returncode == 1, out
    assert time.monotonic() - begun < 120
    culprit = laptop.result()["culprit"]["host"]
    assert culprit in {"lap-mute", "lap-cut"} and f"lost on {culprit}" in out
    assert chief.busy(seconds=20) == []
    # The network stays cut: what remains there must end by itself.
    wait_until(lambda: not (marked_on(mute) and marked_on(cut)), LIMIT + 60, "one of them ends it")
    assert time.monotonic() - begun >= LIMIT - 10
    wait_until(lambda: not marked_on(mute) + marked_on(cut), LIMIT + 60, "both have ended it")
    assert time.monotonic() - begun <= LIMIT + 60


def test_a_frozen_daemon_of_mpi_ends_the_run_but_a_rank_in_a_debugger_does_not(
    laptop: Operator, two: Two
) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 600))
    wait_for_ticks(h1, h2)
    os.kill(ranks_on(h1)[0], signal.SIGSTOP)
    begun = time.monotonic()
    os.kill(orted_on(h2), signal.SIGSTOP)
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 1 and "lost on lap-h2" in out, out
    assert "no heartbeat of its ranks for 60 s" in out
    assert time.monotonic() - begun >= 50  # a host that is only slow has this time
    assert h1.busy(seconds=20) == [] and h2.busy(seconds=20) == []


def test_a_killed_rank_ends_all_ranks(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 300))
    wait_for_ticks(h1, h2)
    os.kill(ranks_on(h2)[0], signal.SIGKILL)
    wait_until(lambda: not ranks_on(h1) + ranks_on(h2), 20, "all ranks have ended")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out
    assert "rank 1 on lap-h2 was killed by signal 9" in out and "| tick" in out
    assert h1.busy(seconds=20) == [] and h2.busy(seconds=20) == []


def test_a_killed_supervisor_ends_the_ranks_and_is_reported(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 300))
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
    process = laptop.start(*ticking(hosts, 300))
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
    process.communicate(timeout=20)
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
    process = laptop.start(*ticking(hosts, 300))
    wait_for_ticks(h1, h2)
    process.kill()
    process.communicate(timeout=20)
    (run,) = laptop.recorded()
    h1.stop(silent=True)
    assert ranks_on(h2)
    command = laptop.fab("teardown").ended(1)
    assert "lap-h1  NOT VERIFIED  not reached" in command.out
    assert h2.busy(seconds=20) == [] and our_keys(h2) == []
    h1.start()
    laptop.fab("teardown").ended(0, f"keeps the results of {run}")
    assert h1.busy(seconds=20) == [] and our_keys(h1) == []
    laptop.fab("fetch", "--hosts", hosts).ended(0, "logs/rank-0.log")
