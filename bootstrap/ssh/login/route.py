"""The route to a host: its jump hosts by ssh_config, and where the keys of each are pinned."""

from __future__ import annotations

import re
from pathlib import Path

from ...inventory.hosts import Host, Inventory
from ...inventory.local_state import known_hosts_files
from ..host_keys import Pins
from . import ssh_config
from .hop import Hop
from .ssh_config import HostConfig

_JUMP = re.compile(
    r"(?:ssh://)?(?:(?P<user>.+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<name>[^:]+))(?::(?P<port>\d+))?/?"
)


def way(host: Host, inventory: Inventory) -> list[Hop]:
    """The hops to a host: its jump hosts, and itself."""
    config = config_of(host)
    hops = [
        Hop(jump, Pins((*known_hosts_files(inventory.name), *jump.known_hosts), jump.alias or None))
        for jump in _jumps(config)
    ]
    return [*hops, Hop(config, pins_of(host, inventory), key_file_here(inventory))]


def config_of(host: Host) -> HostConfig:
    """What ssh_config says about a host."""
    return ssh_config.resolve(host.address, host.user, host.port)


def key_file_here(inventory: Inventory) -> str | None:
    """The private key of the cluster's creator, if this computer has it; colleagues use their own
    keys."""
    path = inventory.key_file
    return path if path and Path(path).exists() else None


def pins_of(host: Host, inventory: Inventory) -> Pins:
    """Where the keys of a host of this inventory are pinned.

    A cloud machine gets a new address at a restart, which another machine may have had before: so
    its keys are pinned by host name, and only in the cluster's own file.
    """
    files = known_hosts_files(inventory.name)
    if is_pinned_by_name(host, inventory):
        return Pins(files[:1], host.name)
    config = config_of(host)
    return Pins(tuple(dict.fromkeys((*files, *config.known_hosts))), config.alias or None)


def port_of(host: Host) -> int:
    """The port of a host's sshd, maybe from ssh_config."""
    return config_of(host).port


def _jumps(config: HostConfig, visited: frozenset[str] = frozenset()) -> list[HostConfig]:
    """The jump hosts on the way to a host. The settings of the first one decide how it is reached.

    `Host *` with a ProxyJump applies to the jump host, too: `visited` ends that recursion.
    """
    visited |= {config.name}
    hops: list[HostConfig] = []
    for text in config.jumps:
        hop = _jump(text)
        if hop.name in visited:
            return []
        hops = [*hops, hop] if hops else [*_jumps(hop, visited), hop]
    return hops


def _jump(text: str) -> HostConfig:
    """A jump host from [user@]host[:port], whose form ssh has checked."""
    parts = _JUMP.fullmatch(text)
    name = (parts["v6"] or parts["name"]) if parts else text
    port = int(parts["port"]) if parts and parts["port"] else None
    return ssh_config.resolve(name, parts["user"] if parts else None, port)


def is_pinned_by_name(host: Host, inventory: Inventory) -> bool:
    """Whether a host's keys are pinned under its name: its cloud provides them."""
    return inventory.kind.in_cloud and bool(host.host_key or host.host_key_source)
