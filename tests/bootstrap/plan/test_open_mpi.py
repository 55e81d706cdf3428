"""Which Open MPI starts runs: decided from facts, before anything is prepared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bootstrap.errors import HostsNotReady, UsageError
from bootstrap.facts.host import Address, HostFacts, common_python
from bootstrap.plan import open_mpi
from bootstrap.plan.runtimes import ROWS

LOOPBACK = Address("lo", "127.0.0.1", "127.0.0.0/8")
NETWORK = Address("eth0", "10.0.1.5", "10.0.1.0/24")


def host(debian: HostFacts, version: str | None, **changes: Any) -> HostFacts:
    return replace(debian, openmpi=version, **changes)


@pytest.mark.parametrize("version", ["4.1.2", "4.1.8", "5.0.7", "5.0.11"])
def test_each_tested_series_starts_runs(debian: HostFacts, version: str) -> None:
    open_mpi.refuse({"a": host(debian, version), "b": host(debian, version)})
    assert open_mpi.series(host(debian, version)) == version[:3]


@pytest.mark.parametrize("version", ["3.1.6", "4.0.3", "5.1.0", "6.0.0rc2", "10.0.1"])
def test_another_series_is_refused_by_name(debian: HostFacts, version: str) -> None:
    with pytest.raises(HostsNotReady) as refused:
        open_mpi.refuse({"a": host(debian, "4.1.4"), "b": host(debian, version)})
    outcomes = refused.value.outcomes
    assert outcomes == {"a": "Open MPI 4.1.4", "b": f"Open MPI {version}"}


def test_an_mpirun_of_another_program_is_refused(debian: HostFacts) -> None:
    """MPICH and Intel MPI have one too; a host without any gets that of its system."""
    tools = {**debian.tools, "mpirun": "/opt/mpich/bin/mpirun"}
    without = {name: path for name, path in tools.items() if name != "mpirun"}
    open_mpi.refuse({"a": host(debian, None, tools=without)})
    with pytest.raises(HostsNotReady) as refused:
        open_mpi.refuse({"a": host(debian, "4.1.4"), "b": host(debian, None, tools=tools)})
    assert refused.value.outcomes["b"].startswith("/opt/mpich/bin/mpirun ")


@pytest.mark.parametrize("second", ["debian-13", "ubuntu-26.04"])
def test_two_series_are_refused_also_where_apt_would_bring_one(
    debian: HostFacts, second: str
) -> None:
    with pytest.raises(HostsNotReady, match="two series"):
        open_mpi.refuse({"a": host(debian, "4.1.4"), "b": host(debian, "5.0.7")})
    bare = host(debian, None, os=second, tools={})
    with pytest.raises(HostsNotReady) as refused:
        open_mpi.refuse({"a": host(debian, "4.1.4"), "b": bare})
    assert refused.value.outcomes == {"a": "Open MPI 4.1.4", "b": "Open MPI 5.0"}
    open_mpi.refuse({"a": bare, "b": bare})


def test_open_mpi_5_needs_a_network_besides_loopback(debian: HostFacts) -> None:
    for version, addresses in (
        ("4.1.4", (LOOPBACK,)),
        ("5.0.7", (LOOPBACK, NETWORK)),
        ("5.0.7", ()),
    ):
        open_mpi.refuse({"a": host(debian, version, addresses=addresses)})
    with pytest.raises(HostsNotReady):
        open_mpi.refuse({"a": host(debian, "5.0.7", addresses=(LOOPBACK,))})


def test_debian_13_gets_its_python_and_ubuntu_26_04_has_none(debian: HostFacts) -> None:
    """Ubuntu 26.04 has Python 3.14, which no runtime is locked for."""
    trixie = replace(debian, os="debian-13", pythons={})
    assert common_python({"a": trixie}, ROWS["tf2.21"].pythons) == "3.13"
    with pytest.raises(UsageError):
        common_python({"a": replace(trixie, os="ubuntu-26.04")}, ROWS["tf2.21"].pythons)
