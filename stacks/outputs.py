"""The cluster document: how a stack describes its hosts to `fab`. Pure.

docs/architecture.md lists every key; the tests compare it with a golden document per cloud.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from railhead.documents.clouds import POWER_OFF as POWER_OFF
from railhead.documents.cluster import (
    SCHEMA,
    ClusterDocument,
    ClusterPrice,
    DocumentDeadline,
    DocumentHost,
    Gpu,
    Ssh,
)

from .config.settings import ClusterConfig


def cluster_document(
    config: ClusterConfig,
    hosts: Sequence[DocumentHost],
    *,
    cluster_id: str | None = None,
    bucket: str | None = None,
    ssh: Ssh | None = None,
    deadlines: Sequence[DocumentDeadline] = (),
    price: ClusterPrice | None = None,
) -> ClusterDocument:
    """The document in the output `cluster`; slots and GPUs are the config's."""
    machine = config.machine
    gpu = Gpu(machine.gpu, machine.gpus) if machine and machine.gpu else None
    slots = machine.slots if machine else 1
    return ClusterDocument(
        schema=SCHEMA,
        id=cluster_id,
        name=config.name,
        cloud=config.cloud,
        region=config.region,
        bucket=bucket,
        ssh=ssh or Ssh(config.ssh_user, 22, config.key_file),
        deadlines=tuple(deadlines),
        price=price,
        budget=config.budget,
        hosts=tuple(replace(host, slots=slots, gpu=gpu) for host in hosts),
    )
