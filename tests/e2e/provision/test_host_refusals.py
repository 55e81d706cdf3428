"""Hosts that lack something: what the plan reports, and that it touches nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from e2e.adhoc_hosts import introduce, without_mpirun, written
from e2e.local_hosts import Operator
from hosts.full_host import FullHost
from hosts.network import Network

pytestmark = [pytest.mark.root, pytest.mark.slow]

Start = Callable[..., list[FullHost]]


@pytest.fixture(scope="module")
def hosts(network: Network) -> Iterator[dict[str, FullHost]]:
    """Hosts that nobody has made ready, by name; no test of this module writes to them."""
    made = {
        "h1": FullHost(network, "h1"),
        "bare": FullHost(network, "bare", python=""),
        "old": FullHost(network, "old", python="3.8"),
        "small": FullHost(network, "small", disk_mb=300),
        "nompi": FullHost(network, "nompi"),
        "shared": FullHost(network, "shared"),
    }
    for host in made.values():
        host.start(wait=False)
    for host in made.values():
        host.wait()
    for name in ("nompi", "shared"):
        without_mpirun(made[name])
    before = {name: written(host) for name, host in made.items()}
    yield made
    after = {name: written(host) for name, host in made.items()}
    for host in made.values():
        host.remove()
    assert after == before


def test_missing_packages_are_planned_for_each_host(
    laptop: Operator, hosts: dict[str, FullHost]
) -> None:
    """Also where the user may not install them, and where no Python can say what is there."""
    before = {name: written(host) for name, host in hosts.items()}
    names = introduce(laptop, *(hosts[name] for name in ("h1", "nompi", "old", "bare")))
    names += "," + introduce(laptop, hosts["shared"], user="rail")
    for task in ("train", "bootstrap", "plan"):
        command = laptop.fab(task, "--hosts", names)
        command.ended(2, "these are ad-hoc hosts", "add --system")
        lines = [line.strip() for line in command.out.splitlines() if " missing: apt " in line]
        assert lines == [
            "[lap-nompi] mpirun missing: apt openmpi-bin",
            "[lap-old] python3 missing: apt python3",
            "[lap-bare] python3 missing: apt python3",
            "[lap-shared] mpirun missing: apt openmpi-bin",
        ]
    assert {name: written(host) for name, host in hosts.items()} == before


def test_system_changes_need_root_or_sudo(laptop: Operator, hosts: dict[str, FullHost]) -> None:
    names = introduce(laptop, hosts["shared"], user="rail")
    command = laptop.fab("train", "--hosts", names, "--system")
    command.ended(2, "lap-shared has no sudo without a password", "apt-get install", "openmpi-bin")


def test_no_wheel_and_no_host_that_can_build_one(
    laptop: Operator, hosts: dict[str, FullHost], tmp_path: Path
) -> None:
    """The tools to build it are needed on the chief alone."""
    names = introduce(laptop, hosts["h1"], hosts["nompi"])
    command = replace(laptop, caches=tmp_path / "caches").fab("train", "--hosts", names)
    command.ended(2, "[lap-h1] g++, mpi.h missing: apt g++ libopenmpi-dev")
    assert "[lap-nompi] mpirun missing: apt openmpi-bin" in command.out


def test_a_disk_too_small_for_the_runtime(laptop: Operator, hosts: dict[str, FullHost]) -> None:
    names = introduce(laptop, hosts["h1"], hosts["small"])
    command = laptop.fab("train", "--hosts", names, "--system")
    command.ended(2, "disk full", "[lap-small] runtime needs", " MB are free")
    assert "[lap-h1] runtime needs" not in command.out


def test_system_as_root_installs_what_is_missing(laptop: Operator, ready_hosts: Start) -> None:
    (h1,) = ready_hosts("h1")
    names = introduce(laptop, without_mpirun(h1))
    laptop.fab("bootstrap", "--hosts", names, "--system").ended(0, "system: mpirun missing")
    assert h1.exec("mpirun", "--version").returncode == 0
    laptop.fab("bootstrap", "--hosts", names).ended(0, "nothing was changed")
