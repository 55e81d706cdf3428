"""Open MPI on the hosts: the supported series, and the series of each system's packages. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from ..errors import HostsNotReady
from ..facts.host import HostFacts

SERIES = ("4.1", "5.0")  # each was tested with all of mpirun's parameters and messages
OF_APT = {  # what apt installs
    "debian-12": "4.1",
    "debian-13": "5.0",
    "ubuntu-22.04": "4.1",
    "ubuntu-24.04": "4.1",
    "ubuntu-26.04": "5.0",
}


def series(facts: HostFacts) -> str:
    """The series that a host has ("4.1"); otherwise the one that its apt installs."""
    if facts.openmpi:
        return ".".join(facts.openmpi.split(".")[:2])
    return OF_APT.get(facts.os, SERIES[0])


def refuse(facts: Mapping[str, HostFacts]) -> None:
    """HostsNotReady if a host has an unsupported mpirun, or if the hosts have different series:
    their daemons do not understand each other."""
    wrong = {name: text for name, host in facts.items() if (text := _wrong(host))}
    versions = {name: f"Open MPI {host.openmpi or series(host)}" for name, host in facts.items()}
    if wrong:
        raise HostsNotReady(
            f"runs need Open MPI {' or '.join(SERIES)}",
            {name: wrong.get(name, versions[name]) for name in facts},
            hint="on hosts with another one: put the system's Open MPI before it on PATH",
        )
    if len({series(host) for host in facts.values()}) > 1:
        raise HostsNotReady(
            "the hosts have two series of Open MPI, which do not start ranks for each other",
            versions,
            hint="name hosts of one system, or install the same Open MPI on each",
        )


def _wrong(host: HostFacts) -> str:
    """Why runs cannot start with a host's mpirun; "" if they can, or if the host has no mpirun."""
    if host.openmpi is None:
        return f"{host.tools['mpirun']} is not that of Open MPI" if "mpirun" in host.tools else ""
    if series(host) not in SERIES:
        return f"Open MPI {host.openmpi}"
    addresses = [ipaddress.ip_address(interface.address) for interface in host.addresses]
    if series(host) == "5.0" and addresses and all(one.is_loopback for one in addresses):
        return f"Open MPI {host.openmpi} starts no daemon without a network besides loopback"
    return ""
