"""The files by which the chief's mpirun finds and trusts the other hosts. Pure.

Inside a cluster every host goes by an alias (railhead-1 is the chief), because OpenMPI cuts
names at dots and reads numbers as addresses; ssh_config gives the alias its true address and key.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bootstrap.facts.host import HostFacts


@dataclass(frozen=True)
class Peer:
    """One host as the others see it: address and port from inside, its pinned public key."""

    name: str
    address: str
    port: int
    user: str
    slots: int
    host_key: str


def alias(index: int) -> str:
    """The name of the host at `index` (from 0) inside the cluster."""
    return f"railhead-{index + 1}"


def hostfile(slots: Sequence[int]) -> str:
    """OpenMPI's hostfile from the number of ranks per host, chief first."""
    return "".join(f"{alias(i)} slots={count}\n" for i, count in enumerate(slots))


def known_hosts(peers: Sequence[Peer]) -> str:
    """The pins for the aliases: the very keys that the control side verified."""
    return "".join(f"{alias(i)} {p.host_key}\n" for i, p in enumerate(peers))


def ssh_config(peers: Sequence[Peer], *, key: str, pins: str) -> str:
    """ssh_config for the chief: nothing but our key, our pins and the inside addresses."""
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
  IdentityAgent none
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
    """The line of authorized_keys that lets the chief, from its own address only, start ranks."""
    kind, data = public_key.split()[:2]
    return f'from="{chief_address}",restrict {kind} {data} railhead:{cluster}'


@dataclass(frozen=True)
class Link:
    """How a host goes to its peers: its interface, None where none has the address, and network."""

    device: str | None
    network: str


def links(peers: Sequence[Peer], facts: Mapping[str, HostFacts]) -> tuple[Link, ...]:
    """The link that carries each peer's address: the one choice for OpenMPI and NCCL alike.

    An address that no interface has (it is behind a NAT) stands alone, as a /32.
    """
    return tuple(_link(p.address, facts[p.name]) for p in peers)


def networks(peers: Sequence[Peer], facts: Mapping[str, HostFacts]) -> str:
    """The links' networks, as OpenMPI's *_if_include takes them."""
    return ",".join(dict.fromkeys(link.network for link in links(peers, facts)))


def _link(address: str, facts: HostFacts) -> Link:
    ip = ipaddress.ip_address(address)
    alone = f"{address}/{ip.max_prefixlen}"
    for own in facts.addresses:  # the address itself, before a network that it may lie in
        if own.address == address:
            return Link(own.device, own.network if ip.version == 4 else alone)
    for own in facts.addresses:
        if ip.version == 4 and ":" not in own.network and ip in ipaddress.ip_network(own.network):
            return Link(own.device, own.network)
    return Link(None, alone)
