"""Hosts that cannot be reached, and a disk that fills: what is reported, how soon, what stays.

Full hosts, whose disks, networks and processes can be broken for real.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable

import pytest
from e2e.adhoc_hosts import introduce, ticking, written
from e2e.local_hosts import Operator, wait_until
from hosts.full_host import FullHost
from standins.agent_process import source_with

from bootstrap.inventory.host_programs import head
from bootstrap.ssh.session import START_AGENT

pytestmark = [pytest.mark.root, pytest.mark.slow]

Start = Callable[..., list[FullHost]]


def outcomes(out: str) -> dict[str, str]:
    """The line of each host in the list of outcomes, by name."""
    lines = [line for line in out.splitlines() if line.startswith("  lap-")]
    return {line.split()[0]: line for line in lines}


def test_a_disk_that_fills_while_the_program_is_uploaded(
    laptop: Operator, ready_hosts: Start
) -> None:
    (h1,) = ready_hosts("h1")
    (h2,) = ready_hosts("h2", disk_mb=64)
    hosts = introduce(laptop, h1, h2)
    laptop.fab("bootstrap", "--hosts", hosts).ended(0)
    (laptop.folder / "data.bin").write_bytes(os.urandom(8_000_000))
    train = ticking(laptop, hosts, 0.2)
    h2.disk.leave(4)
    command = laptop.fab(*train)
    assert command.code in (1, 2) and "started" not in command.out, command.out
    reasons = outcomes(command.out)
    assert "the disk is full" in reasons["lap-h2"] and reasons["lap-h1"].split()[1] == "ok"
    assert h1.busy(seconds=60) == [] and h2.busy(seconds=60) == []
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
    command = laptop.fab("train", "--hosts", hosts).ended(4, "4 of 5 hosts cannot be reached")
    assert time.monotonic() - begun < 40
    reasons = outcomes(command.out)
    assert reasons["lap-alive"].split()[1] == "ok"
    assert "No route to host" in reasons["lap-stopped"] or "no answer" in reasons["lap-stopped"]
    assert "no sshd answers there" in reasons["lap-frozen"] and "no answer" in reasons["lap-cut"]
    assert "refused" in reasons["lap-refusing"]


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
        process.stdin.write(f"{head(source)}\n".encode() + source)
        process.stdin.flush()
        assert b"needed" in process.stdout.readline()
        assert b"agent" in process.stdout.readline()
        wait_until(lambda: "unacked" not in host.exec("ss", "-tin").stdout, 30, "greeting arrived")
        wait_until(lambda: [p.argv[0] for p in host.busy()] == ["python3"], 30, "only the agent")
        host.partition()
        remaining = host.busy(60)
        process.kill()
    assert not remaining
