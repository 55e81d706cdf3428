"""The cluster document, schema 1: how a stack describes its hosts to `fab`. Pure.

docs/architecture.md lists every key; the tests compare it with a golden document per cloud.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stacks.config.settings import ClusterConfig

SCHEMA = 1
POWER_OFF = ("sudo", "-n", "systemctl", "poweroff")  # of a machine that the stack made


@dataclass(frozen=True)
class HostFacts:
    """One host as its cloud made it. `peer_address` is its address from the other hosts."""

    name: str
    id: str
    zone: str | None
    address: str
    peer_address: str | None
    stop: tuple[str, ...]
    host_key: str | None = None
    host_key_source: str | None = None


def cluster_document(
    config: ClusterConfig,
    hosts: Sequence[HostFacts],
    *,
    cluster_id: str | None = None,
    bucket: str | None,
    deadlines: Sequence[Mapping[str, Any]],
    price: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The document that `pulumi stack output cluster` prints."""
    return {
        "schema": SCHEMA,
        **({"id": cluster_id} if cluster_id else {}),
        "name": config.name,
        "cloud": config.cloud,
        "region": config.region,
        "bucket": bucket,
        "ssh": {"user": config.ssh_user, "port": 22, "key_file": config.key_file},
        "deadlines": [dict(deadline) for deadline in deadlines],
        "price": dict(price) if price else None,
        "hosts": [_host(config, host) for host in hosts],
    }


def _host(config: ClusterConfig, host: HostFacts) -> dict[str, Any]:
    machine = config.machine
    entry: dict[str, Any] = {
        "name": host.name,
        "id": host.id,
        "zone": host.zone,
        "address": host.address,
        "peer_address": host.peer_address,
        "slots": machine.slots if machine else 1,
        "gpu": {"type": machine.gpu, "count": machine.gpus} if machine and machine.gpu else None,
    }
    if host.host_key is not None:
        entry["host_key"] = host.host_key
    if host.host_key_source is not None:
        entry["host_key_source"] = host.host_key_source
    return {**entry, "stop": list(host.stop)}
