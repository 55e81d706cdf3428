"""The files with which the chief's mpirun finds and trusts the other hosts. Pure.

Inside a cluster every host has an alias (railhead-1 is the chief), because OpenMPI cuts names at
dots and reads numbers as addresses; ssh_config maps the alias to the host's address and key.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from railhead.documents.lazy import dataclass

from ..facts.host import HostFacts


@dataclass(frozen=True)
class Peer:
    """One host as the other hosts reach it: inside address and port, and its pinned host key."""

    name: str
    address: str
    port: int
    user: str
    slots: int
    host_key: str


AGENT = "$RAILHEAD_KEY_AGENT"  # a variable of the supervisor: the agent that has the key


def alias(index: int) -> str:
    """The name of the host at `index` (from 0) inside the cluster."""
    return f"railhead-{index + 1}"


def hostfile(slots: Sequence[int]) -> str:
    """OpenMPI's hostfile; `slots` is the number of ranks per host, chief first."""
    return "".join(f"{alias(i)} slots={count}\n" for i, count in enumerate(slots))


def known_hosts(peers: Sequence[Peer]) -> str:
    """known_hosts for the aliases, with the host keys that the control machine verified."""
    return "".join(f"{alias(i)} {p.host_key}\n" for i, p in enumerate(peers))


def ssh_config(peers: Sequence[Peer], *, key: str, pins: str) -> str:
    """ssh_config for the chief: only our key, our known_hosts and the inside addresses."""
    return "".join(_stanza(i, p, peers[0], key, pins) for i, p in enumerate(peers))


def _stanza(index: int, peer: Peer, chief: Peer, key: str, pins: str) -> str:
    return f"""Host {alias(index)}
  HostName {peer.address}
  Port {peer.port}
  User {peer.user}
  HostKeyAlias {alias(index)}
  BindAddress {chief.address}
  IdentityFile "{key}"
  IdentitiesOnly yes
  IdentityAgent {AGENT}
  UserKnownHostsFile "{pins}"
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  UpdateHostKeys no
  BatchMode yes
  ConnectTimeout 10
  ServerAliveInterval 10
  ForwardAgent no
"""


def authorized_line(public_key: str, chief_address: str, cluster: str) -> str:
    """The line of authorized_keys that lets the chief start ranks, from its own address only."""
    kind, data = public_key.split()[:2]
    return f'from="{chief_address}",restrict {kind} {data} railhead:{cluster}'


@dataclass(frozen=True)
class Link:
    """A host's link to its peers: the network, and the interface, None if none has the address."""

    device: str | None
    network: str


def links(peers: Sequence[Peer], facts: Mapping[str, HostFacts]) -> tuple[Link, ...]:
    """The link with each peer's address; OpenMPI and NCCL use the same links.

    The network of an address that no interface has (behind a NAT) is the address as a /32.
    """
    return tuple(_link(p.address, facts[p.name]) for p in peers)


def networks(peers: Sequence[Peer], facts: Mapping[str, HostFacts]) -> str:
    """The links' networks for Open MPI's *_if_include. This takes no IPv6 networks: for them, the
    interface if it has the same name on all hosts; otherwise "", and Open MPI chooses."""
    peer_links = links(peers, facts)
    if not any(":" in link.network for link in peer_links):
        return ",".join(dict.fromkeys(link.network for link in peer_links))
    devices = {link.device or "" for link in peer_links}
    return devices.pop() if len(devices) == 1 else ""


def is_loopback(networks: str) -> bool:
    """Whether these networks are loopback: all hosts share one machine."""
    addresses = [network.partition("/")[0] for network in networks.split(",")]
    return networks == "lo" or all(address.startswith("127.") for address in addresses)


def _link(address: str, facts: HostFacts) -> Link:
    ip = ipaddress.ip_address(address)
    single = f"{address}/{ip.max_prefixlen}"
    # An exact match is preferred to a network that contains the address.
    for interface in facts.addresses:
        if interface.address == address:
            return Link(interface.device, interface.network if ip.version == 4 else single)
    for interface in facts.addresses:
        if ip.version == 4 and ip in ipaddress.ip_network(interface.network):
            return Link(interface.device, interface.network)
    return Link(None, single)
