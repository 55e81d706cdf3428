"""System changes on hosts with a real systemd, apt and dpkg: what is installed.

Only the drivers are stand-ins, packages with their names: there is no GPU here.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from e2e.apt_packages import REAL, known_keyring
from e2e.gpu_standin import put_card
from e2e.local_hosts import wait_until
from e2e.systemd_hosts import Start, SystemdHosts, runs, timers, who_ran
from hosts.packages import Repository

from bootstrap.errors import RailheadError
from bootstrap.facts.host import HostFacts
from bootstrap.lifecycle import teardown
from bootstrap.plan import runtimes
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.drivers import DriverRow
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.system_changes import Changes, changes
from bootstrap.provision.system_script import KEYRINGS, Keyring
from bootstrap.ssh import connect

pytestmark = [pytest.mark.root, pytest.mark.slow]


def test_bare_hosts_each_get_their_packages_at_the_same_time(
    team: Start, repository: Repository
) -> None:
    """Without a Python, by sudo; apt's timers are off meanwhile."""
    both = team("a", "b", user="rail")
    a, b = both.hosts
    a.write("/etc/apt/sources.list", a.read(REAL))
    seen: list[set[str]] = []

    def look() -> None:
        wait_until(lambda: runs(a, "apt-get"), 30, "apt-get runs")
        seen.append(timers(a))

    meanwhile = threading.Thread(target=look)
    meanwhile.start()
    wanted = {"a": ("python3",), "b": ("quick",)}
    with both.sessions() as opened:
        facts = both.work_on(opened, {n: Changes(packages=p) for n, p in wanted.items()})
    meanwhile.join()
    assert "[a] system: Setting up python3 " in both.messages.getvalue()
    assert facts["a"].python and who_ran(b) == ["quick"]
    for host in both.hosts:
        assert timers(host) == {"active"} and not host.systemctl("--failed", "--quiet")
    assert seen == [{"inactive"}]
    row = DriverRow(580, "open", (), "", repository=True, installer="true", reboot=True)
    both.run_system_script(driver=row, keyrings=known_keyring(repository), reboot=True)
    assert a.read("/etc/apt/sources.list").count(" main contrib") == 1
    assert who_ran(a) == ["cuda-keyring"]


def test_a_driver_comes_pinned_held_and_persistent(team: Start, repository: Repository) -> None:
    one = team("a")
    (host,) = one.hosts
    rings = known_keyring(repository)
    row = DriverRow(
        580, "proprietary", ("cuda-drivers",), "", repository=True, reboot=False,
        pin="nvidia-driver-pinning-580", hold=("*nvidia*", "cuda-drivers*"),
    )  # fmt: skip
    wrong = {"debian-12": Keyring(rings["debian-12"].url, "0" * 64)}
    with pytest.raises(RailheadError, match="key of NVIDIA's repository"):
        one.run_system_script(driver=row, keyrings=wrong)
    assert who_ran(host) == []
    one.run_system_script(driver=row, keyrings=rings)
    want = ["cuda-keyring", "nvidia-driver-pinning-580", "cuda-drivers", "nvidia"]
    assert who_ran(host) == want
    installed = host.exec("dpkg-query", "-W", "-f", "${Version}", "cuda-drivers").stdout
    assert installed == "580.1"
    held = set(host.exec("apt-mark", "showhold").stdout.split())
    assert held == {"cuda-drivers", "nvidia-driver-pinning-580"}
    assert host.systemctl("is-active", "nvidia-persistenced") == "active"
    settings = host.exec("apt-config", "dump", "Unattended-Upgrade::Package-Blacklist").stdout
    assert '"cuda-drivers.*$"' in settings and '"libnvidia-"' in settings
    one.run_system_script(driver=row, keyrings=rings)
    assert who_ran(host) == [*want, "nvidia"], "the second time only the module is requested"
    with one.sessions() as opened:
        session = opened["a"]
        (line,) = teardown._restore_system(session)
        assert line.verified and line.text.startswith("52railhead, cuda-drivers, nvidia-driver-pin")
        assert not teardown._restore_system(session)
    assert host.exec("apt-mark", "showhold").stdout == ""


def lacks(team: SystemdHosts, facts: Mapping[str, HostFacts]) -> dict[str, Changes]:
    """What these hosts lack for their GPUs according to the plan, without other packages."""
    runtime = runtimes.RUNTIMES["tf2.18-gpu"]
    environment = runtimes.Environment(runtime, "3.11", "")
    peers = tuple(Peer(h.name, h.address, 22, "root", 1, "") for h in team.hosts)
    cluster = SurveyedCluster(team.inventory, facts, environment, peers, Path("a.whl"))
    return {name: replace(changes(cluster, name), packages=()) for name in facts}


def test_cards_without_a_driver_get_theirs_and_are_seen_after_the_reboot(
    team: Start, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From facts to packages, holds and a reboot, then nothing to do: V100 and T4."""
    monkeypatch.setitem(KEYRINGS, "debian-12", known_keyring(repository)["debian-12"])
    both = team("a", "b")
    put_card(both.hosts[0], "0x1db1")
    put_card(both.hosts[1], "0x1eb8")
    with both.sessions() as opened:
        wanted = lacks(both, connect.all_facts(opened))
        assert [todo.names for todo in wanted.values()] == [("driver", "reboot")] * 2
        facts = both.work_on(opened, wanted)
        assert not any(lacks(both, facts).values())
    drivers = {name: host.gpu.driver for name, host in facts.items()}
    assert [d and (d.branch, d.flavour) for d in drivers.values()] == [
        (580, "proprietary"),
        (580, "open"),
    ]
    assert who_ran(both.hosts[0])[1:] == ["nvidia-driver-pinning-580", "cuda-drivers-580"]
    assert who_ran(both.hosts[1])[1:] == ["nvidia-driver-pinning-580", "nvidia-open-580"]
    for host in both.hosts:
        host.wait()
        assert host.systemctl("is-active", "nvidia-persistenced") == "active"
