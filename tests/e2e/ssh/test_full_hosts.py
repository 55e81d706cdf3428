"""The full hosts themselves: each fault that other tests rely on really happens."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from file_lock import locked
from hosts import cleanup
from hosts.bastion import Bastion
from hosts.full_host import FullHost
from hosts.network import Network
from standins.waiting import wait_until

pytestmark = pytest.mark.root

Start = Callable[..., list[FullHost]]


def ssh(
    host: FullHost, command: str, *, user: str = "root", connect_seconds: int = 2
) -> subprocess.CompletedProcess[str]:
    """Run a command by OpenSSH with only the host's key pinned."""
    pins = host.network.folder / "pins"
    pins.write_text(host.known_hosts_line())
    options = [f"UserKnownHostsFile={pins}", "StrictHostKeyChecking=yes", "BatchMode=yes"]
    options += [
        f"ConnectTimeout={connect_seconds}",
        "IdentitiesOnly=yes",
        f"IdentityFile={host.key}",
    ]
    args = [word for option in options for word in ("-o", option)]
    argv = ["ssh", "-F", "none", *args, f"{user}@{host.address}", command]
    return subprocess.run(argv, text=True, capture_output=True, timeout=60)


def connects(host: FullHost, other: FullHost, seconds: float = 4) -> bool:
    """Whether a process on one host can connect to another's sshd in time."""
    code = f"import socket; socket.create_connection(({other.address!r}, 22), timeout={seconds})"
    return host.exec("python3", "-c", code).returncode == 0


def cut_off(host: FullHost, other: FullHost) -> bool:
    """Whether it cannot; a second is enough, because a connection takes milliseconds."""
    return not connects(host, other, seconds=1)


def test_four_hosts_answer_with_their_own_pinned_keys(full_hosts: Start) -> None:
    hosts = full_hosts("h1", "h2", "h3", "h4")
    assert [ssh(host, "hostname").stdout for host in hosts] == ["h1\n", "h2\n", "h3\n", "h4\n"]
    assert len({host.host_key for host in hosts}) == 4


def test_the_ordinary_user_has_a_home_and_no_sudo(full_hosts: Start) -> None:
    (h1,) = full_hosts("h1")
    login = ssh(h1, "id -un; pwd; command -v sudo", user="rail")
    assert (login.stdout, login.returncode) == ("rail\n/home/rail\n", 1)


def test_a_swapped_key_is_another_key(full_hosts: Start) -> None:
    (h1,) = full_hosts("h1")
    old = h1.known_hosts_line()
    h1.swap_host_key()
    assert h1.known_hosts_line() != old
    assert ssh(h1, "true").returncode == 0


@pytest.mark.parametrize("silent", [False, True])
def test_a_stopped_host_is_gone_and_comes_back_with_its_disk(
    full_hosts: Start, silent: bool
) -> None:
    h1, h2 = full_hosts("h1", "h2")
    ssh(h1, "echo kept >kept; nohup sleep 1234 >/dev/null 2>&1 & sleep 0.1")
    address = h1.address
    wait_until(lambda: [process.argv for process in h1.busy()] == [("sleep", "1234")])
    h1.stop(silent=silent)
    assert cut_off(h2, h1)
    h1.start()
    assert (h1.address, h1.read("/root/kept"), h1.busy(60)) == (address, "kept\n", [])
    assert connects(h2, h1)


def test_ended_orphans_do_not_stay_as_zombies(full_hosts: Start) -> None:
    (h1,) = full_hosts("h1")
    ssh(h1, "for i in 1 2 3 4 5; do setsid sleep 0.05 >/dev/null 2>&1 & done")
    assert h1.busy(seconds=60) == []


def test_a_partition_cuts_both_ways_until_healed(full_hosts: Start) -> None:
    h1, h2 = full_hosts("h1", "h2")
    h1.partition()
    assert cut_off(h1, h2) and cut_off(h2, h1)
    h1.restart()
    assert cut_off(h2, h1)
    h1.heal()
    assert connects(h1, h2) and connects(h2, h1)


def test_one_blocked_pair_leaves_the_others_alone(full_hosts: Start) -> None:
    h1, h2, h3 = full_hosts("h1", "h2", "h3")
    h1.block(h2)
    assert cut_off(h1, h2) and cut_off(h2, h1)
    assert connects(h3, h1) and connects(h1, h3)
    assert ssh(h1, "true").returncode == 0


@pytest.mark.parametrize("refuse", [False, True])
def test_one_blocked_port_is_blocked_in_one_direction(full_hosts: Start, refuse: bool) -> None:
    h1, h2 = full_hosts("h1", "h2")
    h1.block(h2, 22, refuse=refuse)
    assert cut_off(h2, h1) and connects(h1, h2)
    h1.heal()
    assert connects(h2, h1)


def test_lost_calls_close_one_direction_for_every_port(full_hosts: Start) -> None:
    h1, h2 = full_hosts("h1", "h2")
    h1.block(h2, calls=True)
    assert cut_off(h2, h1) and connects(h1, h2)


RECEIVE = """import socket
server = socket.create_server(("", 5000))
caller, _ = server.accept()
while caller.recv(1 << 16): pass"""
SEND = """import socket, sys, time
end = time.monotonic() + 5
while True:
    try: peer = socket.create_connection((sys.argv[1], 5000)); break
    except OSError: assert time.monotonic() < end
start = time.monotonic()
peer.sendall(bytes(1_000_000)); peer.shutdown(socket.SHUT_WR); peer.recv(1)
print(time.monotonic() - start)"""


def seconds(source: FullHost, target: FullHost) -> float:
    """How long a million bytes take from one host to another."""
    with ThreadPoolExecutor() as pool:
        pool.submit(target.exec, "python3", "-c", RECEIVE)
        return float(source.exec("python3", "-c", SEND, target.address).stdout)


def test_a_slow_connection_is_slow_to_that_peer_only(full_hosts: Start) -> None:
    h1, h2, h3 = full_hosts("h1", "h2", "h3")
    h1.slow(h2, mbit=8)
    slow = seconds(h1, h2)  # 1 s; a busy machine only adds to it
    assert slow > 0.8
    assert min(seconds(h2, h1), seconds(h2, h1)) < slow / 2
    assert min(seconds(h1, h3), seconds(h1, h3)) < slow / 2


def test_a_frozen_host_takes_the_connection_and_reports_nothing(full_hosts: Start) -> None:
    (h1,) = full_hosts("h1")
    h1.freeze()
    with socket.create_connection((h1.address, 22), timeout=1) as connection:
        connection.settimeout(0.3)
        with pytest.raises(TimeoutError):
            connection.recv(1)
    h1.thaw()
    assert ssh(h1, "true").returncode == 0


def test_a_full_disk_gives_enospc_and_can_be_widened(network: Network) -> None:
    host = FullHost(network, "small", disk_mb=64)
    host.start()
    host.disk.leave(1)
    write = "head -c 5000000 /dev/zero >/root/big"
    assert "No space left on device" in ssh(host, write).stderr
    host.exec("rm", "-f", "/root/big")
    host.disk.leave(16)
    assert ssh(host, write).returncode == 0
    host.remove()


@pytest.mark.parametrize(
    ("python", "answer"), [("3.11", "3.11 3.11"), ("3.8", "3.8 3.8"), ("", "")]
)
def test_a_host_has_the_python_it_was_made_with(network: Network, python: str, answer: str) -> None:
    host = FullHost(network, "snake", python=python)
    host.start()
    code = "import sys; v = sys.version_info; print(v[0], v.minor, sep=chr(46), end=chr(32))"
    output = ssh(host, f"python3 -I -S -c '{code}' && python3 --version | cut -d. -f1,2 | cut -c8-")
    assert (output.stdout.strip(), output.returncode) == (answer, 0 if python else 127)
    host.remove()


def test_a_host_starts_from_the_disk_of_a_retired_one(network: Network, full_hosts: Start) -> None:
    (first,) = full_hosts("first")
    ssh(first, "mkdir -p .railhead/envs && echo made >.railhead/envs/made")
    second = FullHost(network, "second", layers=[first.retire()])
    second.start()
    assert ssh(second, "hostname; cat .railhead/envs/made").stdout == "second\nmade\n"
    second.remove()


def test_a_bound_folder_of_the_machine_appears_on_the_host(
    network: Network, tmp_path: Path
) -> None:
    (tmp_path / "wheel").write_text("cached\n")
    host = FullHost(network, "bound", binds={tmp_path: "/root/.cache/uv"})
    host.start()
    assert ssh(host, "cat .cache/uv/wheel").stdout == "cached\n"
    host.remove()
    assert (tmp_path / "wheel").exists()


def connecting(host: FullHost) -> float:
    """Seconds until its kernel accepts a connection; the least of five, because of other load."""
    times = []
    for _ in range(5):
        begun = time.monotonic()
        socket.create_connection((host.address, 22), timeout=4).close()
        times.append(time.monotonic() - begun)
    return min(times)


def test_a_far_host_answers_late_also_after_a_restart(full_hosts: Start) -> None:
    h1, h2 = full_hosts("h1", "h2")
    h1.far(rtt_ms=100)
    for _ in range(2):
        assert 0.1 <= connecting(h1) < 0.15
        h1.restart()
    assert connects(h1, h2) and connects(h2, h1) and connecting(h2) < 0.05
    h1.partition()
    assert cut_off(h2, h1)


ECHO = """
import socket
served = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
served.bind(("", 9000))
while True:
    served.sendto(*served.recvfrom(100))
"""


def test_a_lossy_host_loses_its_part_on_each_way(full_hosts: Start) -> None:
    (h1,) = full_hosts("h1")
    h1.far(lossy=5)
    h1.write("/echo.py", ECHO)
    h1.exec("sh", "-c", "python3 /echo.py >/dev/null 2>&1 &")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((h1.address, 9000))
        asking.settimeout(0.05)

        def answered() -> int:
            with contextlib.suppress(OSError):  # lost, or its Python still starts
                asking.send(b"?")
                return len(asking.recv(100))
            return 0

        wait_until(answered)
        back = sum(answered() for _ in range(400))
    assert 320 < back < 390  # expected: 361 of 400


def test_the_kernels_count_of_calls_is_that_of_sshd(full_hosts: Start) -> None:
    (h1,) = full_hosts("h1")
    h1.far(lossy=5)
    before = h1.calls()
    calls = [ssh(h1, "true", connect_seconds=45).returncode for _ in range(3)]
    assert calls == [0, 0, 0]
    assert h1.calls() - before == 3


def test_the_inner_host_is_reached_only_through_the_bastion(
    bastion: Bastion, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    bastion.write_ssh_config(config)
    jumped = ["ssh", "-F", str(config), "-o", "BatchMode=yes", "inner", "hostname"]
    assert subprocess.run(jumped, text=True, capture_output=True, timeout=60).stdout == "inner\n"
    with pytest.raises(OSError):
        socket.create_connection((bastion.inner.address, 22), timeout=1)


def test_an_alias_of_the_laptop_does_not_resolve_on_a_host(full_hosts: Start) -> None:
    h1, _ = full_hosts("h1", "h2")
    assert ssh(h1, "getent hosts h1").returncode == 0
    assert ssh(h1, "getent hosts h2").returncode == 2


def test_a_killed_run_is_swept_by_the_next_network(
    full_hosts_possible: None, shared_caches: Path
) -> None:
    with killed_run() as (tag, relay):
        assert (cleanup.ROOT / tag).exists() and not cleanup.is_zombie(relay)
    Network().close()
    assert remains_of(tag) == [] and cleanup.is_zombie(relay)


def test_mounts_whose_namespace_is_gone_are_swept_too(
    full_hosts_possible: None, shared_caches: Path
) -> None:
    with killed_run() as (tag, _):
        cleanup.end_processes(f"{tag}_0")
        subprocess.run(["ip", "netns", "del", f"{tag}_0"], check=True)
        assert any("overlay" in line for line in remains_of(tag))
    Network().close()
    assert remains_of(tag) == []


@contextlib.contextmanager
def killed_run() -> Iterator[tuple[str, int]]:
    """Start one far host in a process that is then killed: the tag of its network, and the pid of
    the process that delays its packets. Until the block ends, no other network of the machine
    sweeps what is left of it."""
    code = "import os, signal; from hosts.network import Network; from hosts.full_host import *\n"
    code += "n = Network(); h, = start_hosts(n, 'h1'); h.far(rtt_ms=100)\n"
    code += "print(n.tag, h.legs.relay.pid, flush=True)\n"
    code += "signal.pause()"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [sys.executable, "-c", code], text=True, stdout=subprocess.PIPE, env=env
    ) as process:
        assert process.stdout
        tag, relay = process.stdout.readline().split()
        with locked(cleanup.ROOT / "lock"):
            process.kill()
            process.wait()
            yield tag, int(relay)


def remains_of(tag: str) -> list[str]:
    """Everything on the machine with a network's tag."""
    shown = [["ip", "link"], ["ip", "netns"], ["nft", "list", "tables"], ["mount"]]
    text = [subprocess.run(argv, text=True, capture_output=True).stdout for argv in shown]
    lines = [line for part in text for line in part.splitlines() if tag in line]
    return lines + [str(path) for path in cleanup.ROOT.glob(f"{tag}*")]
