"""Ad-hoc hosts, reached by the ssh settings that a person already has.

Full hosts have their own networks, so a name may mean another machine on each of them.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.adhoc_hosts import (
    introduce,
    marked_on,
    our_keys,
    run_id,
    ticking,
    trust,
    wait_for_ticks,
    write_ssh,
)
from e2e.local_hosts import Operator
from hosts.bastion import Bastion
from hosts.full_host import FullHost
from hosts.network import Network

pytestmark = [pytest.mark.root, pytest.mark.slow]

Start = Callable[..., list[FullHost]]


def fingerprint(host: FullHost) -> str:
    """SHA256:..., as ssh-keygen prints it."""
    argv = ["ssh-keygen", "-lf", str(host.disk.root / "etc/ssh/ssh_host_ed25519_key.pub")]
    return subprocess.run(argv, text=True, capture_output=True, check=True).stdout.split()[1]


def test_user_port_and_key_come_from_the_persons_ssh_config(
    laptop: Operator, full_hosts: Start
) -> None:
    (h1,) = full_hosts("h1")
    h1.exec("/usr/sbin/sshd", "-p", "2222")
    h1.block(port=22, refuse=True)
    write_ssh(laptop, h1.ssh_config("mine", user="rail") + "  Port 2222\n")
    trust(laptop, h1.known_hosts_line(f"[{h1.address}]:2222"))
    laptop.fab("exec", "--hosts", "mine", "--cmd", "id -un").ended(0, "[mine] rail")
    laptop.fab("plan", "--hosts", "mine").ended(0, "[mine] runtime:", "nothing was changed")
    laptop.fab("plan", "--hosts", "root@mine:22").ended(4, "refused")


def test_horovod_trains_over_two_named_hosts(laptop: Operator, ready_hosts: Start) -> None:
    """The second one's sshd listens on another port, also for mpirun on the chief."""
    h1, h2 = ready_hosts("h1", "h2")
    h2.exec("/usr/sbin/sshd", "-p", "2222")
    h2.block(port=22, refuse=True)
    write_ssh(laptop, h2.ssh_config("lap-h2") + "  Port 2222\n")
    trust(laptop, h2.known_hosts_line(f"[{h2.address}]:2222"))
    hosts = introduce(laptop, h1) + ",lap-h2"
    command = laptop.fab("train", "--hosts", hosts, "--preset", "smoke")
    command.ended(0, "key: let the chief log in here", "epoch 2/2", "succeeded")
    run = json.loads((laptop.last / "run.json").read_text())
    assert [h["peer_address"] for h in run["hosts"]] == [h1.address, h2.address]
    assert {"model.keras", "curves.svg", "metrics.jsonl"} <= {p.name for p in laptop.last.iterdir()}
    assert h1.busy(seconds=60) == [] and h2.busy(seconds=60) == []


def test_one_named_host_is_a_run_too(laptop: Operator, ready_hosts: Start) -> None:
    hosts = introduce(laptop, *ready_hosts("h1"))
    train = ticking(laptop, hosts, 0.2)
    laptop.fab(*train).ended(0, "1 rank on 1 host", "succeeded")
    assert laptop.result()["size"] == 1


def test_a_bastion_and_the_host_after_it_are_trusted_in_order_and_train_together(
    laptop: Operator, network: Network, ready_disk: Path
) -> None:
    """The jump host has another address for the inner host than for the laptop."""
    with Bastion(network, layers=[ready_disk]) as bastion:
        write_ssh(laptop, bastion.jump.ssh_config("door") + bastion.inner.ssh_config(jump="door"))
        plan = ("plan", "--hosts", "inner")
        for host in (bastion.jump, bastion.inner):
            laptop.fab(*plan).ended(2, fingerprint(host), "next: fab trust --hosts inner")
            laptop.fab("trust", "--hosts", "inner", "--yes").ended(0, fingerprint(host))
        train = ticking(laptop, "door,inner", 0.2)
        command = laptop.fab(*train).ended(0, "succeeded")
        assert f"door = {bastion.jump_inside}, inner = {bastion.inner.address}" in command.out
        assert (laptop.last / "outputs" / "finished.txt").read_text() == "door"


def test_an_unknown_key_is_shown_and_pinned_only_when_agreed(
    laptop: Operator, full_hosts: Start
) -> None:
    hosts = introduce(laptop, *(machines := full_hosts("h1", "h2")), pinned=False)
    command = laptop.fab("train", "--hosts", hosts).ended(
        2, "unknown host key", "fab trust --hosts"
    )
    assert all(fingerprint(host) in command.out for host in machines)
    laptop.fab("trust", "--hosts", hosts).ended(2, "stdin is not a terminal")
    laptop.fab("plan", "--hosts", hosts).ended(2, "unknown host key")
    laptop.fab("trust", "--hosts", hosts, "--yes").ended(
        0, *(f"pinned {host.address} ssh-ed25519 {fingerprint(host)}" for host in machines)
    )
    laptop.fab("plan", "--hosts", hosts).ended(0)
    laptop.fab("trust", "--hosts", hosts, "--yes").ended(0, "nothing was pinned")


def test_a_swapped_key_is_refused_and_never_pinned_over(
    laptop: Operator, full_hosts: Start
) -> None:
    h1, h2 = full_hosts("h1", "h2")
    hosts = introduce(laptop, h1, h2)
    h2.swap_host_key()
    command = laptop.fab("train", "--hosts", hosts).ended(
        2, "REFUSED", fingerprint(h2), "ssh-keygen"
    )
    assert "lap-h1  ok" in command.out
    laptop.fab("trust", "--hosts", hosts, "--yes").ended(2, "REFUSED")
    laptop.fab("plan", "--hosts", hosts).ended(2, "REFUSED")


def test_one_machine_under_two_names_is_refused(laptop: Operator, full_hosts: Start) -> None:
    (h1,) = full_hosts("h1")
    command = laptop.fab("plan", "--hosts", f"{introduce(laptop, h1)},root@{h1.address}")
    assert command.code == 2
    write_ssh(laptop, h1.ssh_config("again"))
    command = laptop.fab("plan", "--hosts", "lap-h1,again").ended(2, "are the same machine")


def test_closed_connections_between_hosts_are_named_before_the_run(
    laptop: Operator, ready_hosts: Start
) -> None:
    """Of a pair in both directions and in one, and of the port by which mpirun starts ranks: what
    Open MPI says without it helps nobody."""
    h1, h2, h3 = ready_hosts("h1", "h2", "h3")
    hosts = introduce(laptop, h1, h2, h3)
    train = ("train", "--hosts", hosts, "--preset", "smoke")
    for one_direction in (False, True):
        h2.block(h3, calls=one_direction)
        command = laptop.fab(*train).ended(2, "cannot reach each other")
        lines = [line for line in command.out.splitlines() if line.startswith("  lap-")]
        outcomes = {line.split()[0]: line for line in lines}
        assert f"cannot reach lap-h2 at {h2.address}" in outcomes["lap-h3"]
        assert outcomes["lap-h1"].split()[1] == "ok"
        assert ("ok" in outcomes["lap-h2"]) == one_direction
        assert "started" not in command.out and not (laptop.folder / "results").exists()
        h2.heal()
    h2.block(h1, 22, refuse=True)
    command = laptop.fab(*train)
    refused = f"{h2.address} port 22: Connection refused"
    command.ended(2, "lap-h1 cannot log in", refused)
    assert "lap-h3  ok" in command.out and "started" not in command.out
    laptop.fab("status", "--hosts", hosts).ended(0, "no run yet")


def test_peer_addresses_that_are_reported_are_used(
    laptop: Operator, network: Network, ready_hosts: Start
) -> None:
    h1, h2 = ready_hosts("h1", "h2")
    hosts = introduce(laptop, h1, h2)
    back = Network(reachable=False)
    inside = [h1.join(back), h2.join(back)]
    h1.block(h2)
    train = ticking(laptop, hosts, 0.2)
    laptop.fab(*train).ended(2, f"cannot reach lap-h2 at {h2.address}", "--peer-address a,b")
    laptop.fab(*train, "--peer-address", ",".join(inside)).ended(0, f"lap-h2 = {inside[1]}")
    laptop.fab(*train, "--peer-address", inside[0]).ended(2, "1 addresses for 2 hosts")
    laptop.fab(*train, "--peer-address", f"{inside[0]},10.255.0.9").ended(2, "10.255.0.9")
    back.close()


def test_teardown_ends_the_run_takes_the_keys_and_leaves_the_machine(
    laptop: Operator, ready_hosts: Start
) -> None:
    h1, h2 = ready_hosts("h1", "h2")
    hosts = introduce(laptop, h1, h2)
    run = run_id(laptop.fab(*ticking(laptop, hosts, 300, "--detach")).ended(0).out)
    wait_for_ticks(h1, h2)
    assert our_keys(h1) and our_keys(h2)
    torn = laptop.fab("teardown", "--hosts", hosts).ended(0, f"keeps the results of {run}")
    assert torn.out.count("no process left (checked in /proc)") == 2
    for host in (h1, h2):
        assert (host.busy(seconds=60), marked_on(host), our_keys(host)) == ([], [], [])
        assert "ssh-ed25519" in host.read("/root/.ssh/authorized_keys")
    assert not (h1.disk.root / "root/.railhead/cluster").exists()
    laptop.fab("teardown", "--hosts", hosts, "--purge").ended(2, "would lose them", "fab fetch")
    laptop.fab("fetch", "--hosts", hosts).ended(0, "logs/rank-0.log")
    laptop.fab("teardown", "--hosts", hosts).ended(0, "0 processes of runs ended")
    laptop.fab("exec", "--hosts", hosts, "--cmd", "ls ~/.railhead/envs").ended(0, "[lap-h2]")


def test_purge_removes_what_is_ours_and_again_is_fine(laptop: Operator, ready_hosts: Start) -> None:
    (h1,) = ready_hosts("h1", disk_mb=4000)  # in memory: 30,000 files are removed
    hosts = introduce(laptop, h1)
    laptop.fab("bootstrap", "--hosts", hosts).ended(0)
    laptop.fab("teardown", "--hosts", hosts, "--purge").ended(0, "~/.railhead removed")
    assert not (h1.disk.root / "root/.railhead").exists() and our_keys(h1) == []
    names = {path.name for path in (h1.disk.root / "root").iterdir()}
    assert not names & {".cache", ".keras"}  # caches of uv and pip, and what Keras writes
    laptop.fab("teardown", "--hosts", hosts, "--purge").ended(0, "~/.railhead removed")
    laptop.fab("plan", "--hosts", hosts).ended(0, "[lap-h1] uv:", "[lap-h1] runtime:")
