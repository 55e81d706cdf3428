"""Hosts that lack something, and hosts that fail: what is reported, how soon, and what is left.

Full hosts, whose disks, networks and processes can be broken for real.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from e2e.adhoc_hosts import (
    TICKS,
    introduce,
    marked_on,
    our_keys,
    ranks_on,
    supervisor_on,
    wait_for_ticks,
    written,
)
from e2e.local_hosts import Operator, wait_until
from hosts.full_host import FullHost
from hosts.network import Network
from standins.agent_process import source_with

from bootstrap.plan.runtimes import uv_digest
from bootstrap.remote.rank.rank_link import LIMIT
from bootstrap.ssh.session import START_AGENT

pytestmark = [pytest.mark.root, pytest.mark.slow]

Start = Callable[..., list[FullHost]]
Make = Callable[..., FullHost]


@pytest.fixture
def odd_host(network: Network, request: pytest.FixtureRequest) -> Make:
    """Start one host that is not as it should be; removed after the test."""

    def start(name: str, **options: object) -> FullHost:
        host = FullHost(network, name, **options)  # type: ignore[arg-type]
        request.addfinalizer(host.remove)
        host.start()
        return host

    return start


def without_mpirun(host: FullHost) -> FullHost:
    """Take OpenMPI's programs off the host's disk, as if nobody had ever installed them."""
    done = host.exec("dpkg", "--remove", "--force-depends", "openmpi-bin")
    assert done.returncode == 0, done.stderr
    return host


@pytest.mark.parametrize("user", ["root", "rail"])
def test_a_missing_package_is_planned_and_nothing_is_touched(
    laptop: Operator, full_hosts: Start, user: str
) -> None:
    h1, h2 = full_hosts("h1", "h2")
    hosts = introduce(laptop, h1, without_mpirun(h2), user=user)
    before = written(h1), written(h2)
    for task in ("train", "bootstrap", "plan"):
        done = laptop.fab(task, "--hosts", hosts).ended(2, "these are ad-hoc hosts", "add --system")
        assert "[lap-h2] mpirun missing: apt openmpi-bin" in done.out
    assert (written(h1), written(h2)) == before


def test_system_changes_need_root_or_sudo(laptop: Operator, full_hosts: Start) -> None:
    (h1,) = full_hosts("h1")
    hosts = introduce(laptop, without_mpirun(h1), user="rail")
    before = written(h1)
    done = laptop.fab("train", "--hosts", hosts, "--system")
    done.ended(2, "lap-h1 has no sudo without a password", "apt-get install", "openmpi-bin")
    assert written(h1) == before


def test_system_as_root_installs_what_is_missing(laptop: Operator, ready_hosts: Start) -> None:
    (h1,) = ready_hosts("h1")
    hosts = introduce(laptop, without_mpirun(h1))
    laptop.fab("bootstrap", "--hosts", hosts, "--system").ended(0, "system: mpirun missing")
    assert h1.exec("mpirun", "--version").returncode == 0
    laptop.fab("bootstrap", "--hosts", hosts).ended(0, "nothing was changed")


def without_installer(host: FullHost) -> Path:
    """Take away the installer, contents and the mark of the complete runtime; our folder there."""
    ours = "/root/.railhead"
    done = host.exec("sh", "-c", f"rm -r {ours}/envs/*/.ok {ours}/uv {ours}/blobs")
    assert done.returncode == 0, done.stderr
    return host.disk.root / ours[1:]


def test_a_bootstrap_killed_while_it_sends_the_installer_stops_no_later_one(
    laptop: Operator, ready_hosts: Start
) -> None:
    (h1,) = ready_hosts("h1")
    hosts = introduce(laptop, h1)
    ours = without_installer(h1)
    h1.far(rtt_ms=100)  # so that the transfer takes a while
    process = laptop.start("bootstrap", "--hosts", hosts)
    wait_until(lambda: (ours / "blobs").is_dir(), 60, "the transfer begins")
    process.kill()
    process.communicate(timeout=10)
    assert not (ours / "uv" / uv_digest()).exists()
    laptop.fab("bootstrap", "--hosts", hosts).ended(0, "uv: the installer is not there", "ready")
    assert [path.name for path in (ours / "uv").iterdir()] == [uv_digest()]


def test_an_empty_folder_of_the_installer_is_filled(laptop: Operator, ready_hosts: Start) -> None:
    """An earlier version left such a folder when it was killed."""
    (h1,) = ready_hosts("h1")
    hosts = introduce(laptop, h1)
    ours = without_installer(h1)
    (ours / "uv" / uv_digest()).mkdir(parents=True)
    laptop.fab("bootstrap", "--hosts", hosts).ended(0, "uv: the installer is not there", "ready")
    assert (ours / "uv" / uv_digest() / "uv").stat().st_size > 10_000_000


def test_no_wheel_and_no_host_that_can_build_one(
    laptop: Operator, full_hosts: Start, tmp_path: Path
) -> None:
    h1, h2 = full_hosts("h1", "h2")
    hosts = introduce(laptop, h1, h2)
    done = replace(laptop, caches=tmp_path / "caches").fab("train", "--hosts", hosts)
    done.ended(2, "[lap-h1] g++, cmake, make, mpi.h missing: apt cmake g++ libopenmpi-dev make")
    assert "[lap-h2]" not in done.out


@pytest.mark.parametrize("python", ["3.8", ""])
def test_a_python_that_does_not_serve(
    laptop: Operator, full_hosts: Start, odd_host: Make, python: str
) -> None:
    (h1,) = full_hosts("h1")
    h2 = odd_host("h2", python=python)
    before = written(h2)
    done = laptop.fab("train", "--hosts", introduce(laptop, h1, h2))
    done.ended(2, "these are ad-hoc hosts", "[lap-h2] python3 missing: apt python3", "add --system")
    assert written(h2) == before


def test_a_disk_too_small_for_the_runtime(
    laptop: Operator, full_hosts: Start, odd_host: Make
) -> None:
    (h1,) = full_hosts("h1")
    h2 = odd_host("h2", disk_mb=300)
    hosts = introduce(laptop, h1, h2)
    before = written(h1), written(h2)
    done = laptop.fab("train", "--hosts", hosts, "--system")
    done.ended(2, "disk full", "[lap-h2] runtime needs")
    assert " MB are free" in done.out and "[lap-h1] runtime needs" not in done.out
    assert (written(h1), written(h2)) == before


def test_a_disk_that_fills_while_the_program_is_shipped(
    laptop: Operator, ready_hosts: Start
) -> None:
    (h1,) = ready_hosts("h1")
    (h2,) = ready_hosts("h2", disk_mb=64)
    hosts = introduce(laptop, h1, h2)
    laptop.fab("bootstrap", "--hosts", hosts).ended(0)
    laptop.write("ticks.py", TICKS)
    (laptop.folder / "data.bin").write_bytes(os.urandom(8_000_000))
    train = ("train", "--hosts", hosts, "--script", "ticks.py", "--args", "0.2")
    h2.disk.leave(4)
    done = laptop.fab(*train)
    assert done.code in (1, 2) and "started" not in done.out, done.out
    values = {line.split()[0]: line for line in done.out.splitlines() if line.startswith("  lap-")}
    assert "the disk is full" in values["lap-h2"] and values["lap-h1"].split()[1] == "ok"
    assert h1.busy(seconds=2) == [] and h2.busy(seconds=2) == []
    assert not any("railhead/runs/" in path for path in [*written(h1), *written(h2)])
    laptop.fab("fetch", "--hosts", hosts).ended(2, "no run is recorded")
    h2.disk.leave(32)
    laptop.fab(*train).ended(0, "succeeded")


def test_every_dead_host_is_reported_with_its_own_reason(
    laptop: Operator, full_hosts: Start
) -> None:
    alive, stopped, frozen, refusing, cut = full_hosts(
        "alive", "stopped", "frozen", "refusing", "cut"
    )
    hosts = introduce(laptop, alive, stopped, frozen, refusing, cut)
    stopped.stop()
    frozen.freeze()
    refusing.block(port=22, refuse=True)
    cut.partition()
    begun = time.monotonic()
    done = laptop.fab("train", "--hosts", hosts).ended(2, "4 of 5 hosts cannot be reached")
    assert time.monotonic() - begun < 40
    values = {line.split()[0]: line for line in done.out.splitlines() if line.startswith("  lap-")}
    assert values["lap-alive"].split()[1] == "ok"
    assert "No route to host" in values["lap-stopped"] or "no answer" in values["lap-stopped"]
    assert "no sshd speaks there" in values["lap-frozen"] and "no answer" in values["lap-cut"]
    assert "refused" in values["lap-refusing"]


@pytest.fixture
def two(laptop: Operator, ready_hosts: Start) -> tuple[FullHost, FullHost, str]:
    """Two hosts with keys exchanged, a script that ticks, and the hosts' names for --hosts."""
    h1, h2 = ready_hosts("h1", "h2")
    hosts = introduce(laptop, h1, h2)
    laptop.write("ticks.py", TICKS)
    return h1, h2, hosts


Two = tuple[FullHost, FullHost, str]


def ticking(hosts: str, seconds: float, *more: str) -> tuple[str, ...]:
    """The words that start a run of so many seconds."""
    return ("train", "--hosts", hosts, "--script", "ticks.py", "--args", str(seconds), *more)


@pytest.mark.parametrize("fault", ["power cut", "partition", "cut off from the chief"])
def test_a_host_that_vanishes_ends_the_run_everywhere(
    laptop: Operator, two: Two, fault: str
) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 300))
    wait_for_ticks(h1, h2)
    if fault == "power cut":
        h2.stop(silent=True)
    elif fault == "partition":
        h2.partition()  # what it sends does not leave the host
    else:
        h1.block(h2)  # what it sends is lost on the way
    begun = time.monotonic()
    out, _ = process.communicate(timeout=100)
    print(out, time.monotonic() - begun)
    assert process.returncode == 1 and "lost on lap-h2" in out, out
    assert time.monotonic() - begun < 60
    assert h1.busy(seconds=2) == []
    assert laptop.result()["culprit"]["host"] == "lap-h2"
    if fault != "power cut":
        # The network stays cut: what is left there must end by itself.
        wait_until(lambda: not marked_on(h2), LIMIT + 60, "nothing of the run is left there")
        print("ended after", time.monotonic() - begun)
        assert LIMIT - 10 <= time.monotonic() - begun <= LIMIT + 60


def orted_on(host: FullHost) -> int:
    """The machine's pid of OpenMPI's daemon there."""
    (pid,) = [p.pid for p in host.processes() if p.argv[0].endswith("orted")]
    return pid


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
    assert h1.busy(seconds=2) == [] and h2.busy(seconds=2) == []


def test_a_killed_rank_ends_all_ranks_within_5_seconds(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 300))
    wait_for_ticks(h1, h2)
    os.kill(ranks_on(h2)[0], signal.SIGKILL)
    wait_until(lambda: not ranks_on(h1) + ranks_on(h2), 5, "no rank is left")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1, out
    assert "rank 1 on lap-h2 was killed by signal 9" in out and "| tick" in out
    assert h1.busy(seconds=2) == [] and h2.busy(seconds=2) == []


def test_a_killed_supervisor_ends_the_ranks_and_is_reported(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 300))
    wait_for_ticks(h1, h2)
    os.kill(supervisor_on(h1), signal.SIGKILL)
    wait_until(lambda: not ranks_on(h1) + ranks_on(h2), 10, "no rank is left")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "its supervisor died" in out, out
    laptop.fab("status", "--hosts", hosts).ended(0, "LOST: its supervisor died")
    laptop.fab("teardown", "--hosts", hosts).ended(0, "keys removed")
    assert marked_on(h1) + marked_on(h2) + our_keys(h1) + our_keys(h2) == []


def test_a_killed_controller_does_not_end_the_run(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 8))
    wait_for_ticks(h1, h2)
    process.kill()
    process.communicate(timeout=10)
    wait_for_ticks(h1, h2, more=5)
    laptop.fab("train", "--hosts", hosts, "--preset", "smoke").ended(2, "is busy with run")
    laptop.fab("attach", "--hosts", hosts).ended(0, "succeeded")
    assert (laptop.last / "outputs" / "finished.txt").read_text() == "lap-h1"


def test_a_cut_between_here_and_the_chief_does_not_end_the_run(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 14))
    wait_for_ticks(h1, h2)
    h1.legs.block(h1.network.gateway, None)
    wait_for_ticks(h1, h2, more=50)
    h1.heal()
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert (laptop.last / "outputs" / "finished.txt").exists()


def test_an_agent_that_waits_ends_after_its_network_broke(full_hosts: Start) -> None:
    """Its sshd gives up what it cannot send: here after 3 attempts instead of 15."""
    (host,) = full_hosts("h1")
    assert host.exec("sh", "-c", "echo 3 > /proc/sys/net/ipv4/tcp_retries2").returncode == 0
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
    ssh = ["ssh", "-F", "/dev/null", "-i", str(host.key), *(f"-o{option}" for option in options)]
    command = shlex.join(["python3", "-I", "-S", "-c", START_AGENT])
    with subprocess.Popen(
        [*ssh, f"root@{host.address}", command], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stdout
        source = source_with(alive=0.2)
        process.stdin.write(b"%d\n%s" % (len(source), source))
        process.stdin.flush()
        assert b"agent" in process.stdout.readline()
        wait_until(lambda: "unacked" not in host.exec("ss", "-tin").stdout, 30, "greeting arrived")
        assert [process.argv[0] for process in host.busy()] == ["python3"]
        host.partition()
        left = host.busy(60)
        process.kill()
    assert not left


def test_a_connection_that_is_ended_is_opened_anew(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 8))
    wait_for_ticks(h1, h2)
    for session in h1.processes():
        if " ".join(session.argv).startswith("sshd: root"):
            os.kill(session.pid, signal.SIGKILL)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "the run continues, connecting again" in out, out
    assert (laptop.last / "outputs" / "finished.txt").exists()


def test_what_a_crash_left_is_found_without_naming_it(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    process = laptop.start(*ticking(hosts, 300))
    wait_for_ticks(h1, h2)
    process.kill()
    process.communicate(timeout=10)
    run = max((laptop.home / ".railhead" / "clusters").glob("*/runs/*.json")).stem
    laptop.fab("teardown").ended(0, f"keeps the results of {run}")
    assert h1.busy(seconds=2) == [] and h2.busy(seconds=2) == []


def test_teardown_ends_what_outlived_its_chief(laptop: Operator, two: Two) -> None:
    h1, h2, hosts = two
    laptop.fab(*ticking(hosts, 300, "--detach")).ended(0)
    wait_for_ticks(h1, h2)
    h1.stop(silent=True)
    assert ranks_on(h2)
    done = laptop.fab("teardown", "--hosts", hosts).ended(1, "none is left")
    assert "lap-h1  NOT VERIFIED  not reached" in done.out
    assert h2.busy(seconds=2) == [] and our_keys(h2) == []
    h1.start()
    laptop.fab("fetch", "--hosts", hosts).ended(0, "logs/rank-0.log")
    laptop.fab("teardown", "--hosts", hosts).ended(0)
    assert our_keys(h1) == []
