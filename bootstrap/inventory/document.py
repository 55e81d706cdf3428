"""The cluster document as an inventory: read from a stack or an earlier command, and written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railhead.documents.cluster import SCHEMA, ClusterDocument, DocumentHost, Ssh
from railhead.documents.codec import decode, encode
from railhead.installation import UPGRADE

from ..errors import UsageError
from .hosts import Host, Inventory


def from_document(document: Any) -> Inventory:
    """Read a cluster document (schema 1; docs/architecture.md lists every key).

    Raises:
        UsageError: a key is missing, unknown or of another type, or the schema is not 1.
    """
    _check_schema(document)
    read = decode(
        ClusterDocument, document, what="the cluster document", error=UsageError, unknown_keys=False
    )
    return Inventory(
        name=read.name,
        cloud=read.cloud,
        region=read.region,
        bucket=read.bucket,
        key_file=read.ssh.key_file,
        deadlines=read.deadlines,
        price=read.price,
        budget=read.budget,
        cluster_id=read.id,
        hosts=tuple(_host(entry, read.ssh) for entry in read.hosts),
    )


def _check_schema(document: Any) -> None:
    """Refuse a document of another schema; for a newer one, the hint is the upgrade."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema is None or schema == SCHEMA:
        return
    newer = isinstance(schema, int) and schema > SCHEMA
    raise UsageError(
        f"the cluster document has schema {schema!r}; this Railhead reads {SCHEMA}",
        hint=UPGRADE if newer else "",
    )


def _host(entry: DocumentHost, ssh: Ssh) -> Host:
    """The host. One without an address gets its name as its address: a stack was changed while its
    machines were stopped."""
    user = ssh.user if entry.user is None else entry.user
    port = ssh.port if entry.port is None else entry.port
    address = entry.address or entry.name
    return Host(**{**vars(entry), "user": user, "port": port, "address": address})


def to_document(inventory: Inventory) -> Any:
    """The cluster document of an inventory: `from_document` reads it back unchanged."""
    users = {h.user for h in inventory.hosts}
    ports = {h.port for h in inventory.hosts}
    user = users.pop() if len(users) == 1 else None
    port = ports.pop() if len(ports) == 1 else None
    document = ClusterDocument(
        schema=SCHEMA,
        id=inventory.cluster_id,
        name=inventory.name,
        cloud=inventory.cloud,
        region=inventory.region,
        bucket=inventory.bucket,
        ssh=Ssh(user, port, inventory.key_file),
        deadlines=inventory.deadlines,
        price=inventory.price,
        budget=inventory.budget,
        hosts=tuple(
            replace(
                host,
                user=None if host.user == user else host.user,
                port=None if host.port == port else host.port,
            )
            for host in inventory.hosts
        ),
    )
    return encode(document)
