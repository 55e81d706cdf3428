"""The cluster document: JSON from a stack, or an earlier command, that describes the hosts.

Pure. Schema 1; tests/cases/documents/cluster-*.json are examples of every form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from bootstrap.errors import UsageError
from bootstrap.inventory.hosts import Gpu, Host, Inventory

SCHEMA = 1
KEY_SOURCES = ("guest-attributes", "console", "injected")
TEXT, TEXT_OR_NULL, NUMBER, NUMBER_OR_NULL = (
    (str,),
    (str, type(None)),
    (int,),
    (int, type(None)),
)
LIST, OBJECT, OBJECT_OR_NULL = (list,), (dict,), (dict, type(None))
Kinds = Mapping[str, tuple[type, ...]]

CLUSTER: Kinds = {
    "schema": NUMBER, "name": TEXT, "cloud": TEXT, "region": TEXT_OR_NULL, "bucket": TEXT_OR_NULL,
    "ssh": OBJECT, "deadlines": LIST, "price": OBJECT_OR_NULL, "hosts": LIST,
}  # fmt: skip
CLUSTER_OPTIONAL: Kinds = {"id": TEXT}
SSH: Kinds = {"user": TEXT_OR_NULL, "port": NUMBER_OR_NULL, "key_file": TEXT_OR_NULL}
HOST: Kinds = {
    "name": TEXT, "id": TEXT_OR_NULL, "zone": TEXT_OR_NULL, "address": TEXT,
    "peer_address": TEXT_OR_NULL, "slots": NUMBER_OR_NULL, "gpu": OBJECT_OR_NULL,
}  # fmt: skip
HOST_OPTIONAL: Kinds = {
    "host_key": TEXT, "host_key_source": TEXT, "stop": LIST,
    "user": TEXT_OR_NULL, "port": NUMBER_OR_NULL,
}  # fmt: skip
GPU: Kinds = {"type": TEXT, "count": NUMBER}
DEADLINE: Kinds = {"kind": TEXT, "id": TEXT_OR_NULL}
# Older documents have one deadline for all hosts, without `host`.
WHEN: Kinds = {"host": TEXT, "at": TEXT, "seconds": NUMBER}
PRICE: Kinds = {"per_hour": (int, float), "currency": TEXT, "source": TEXT, "date": TEXT}


def from_document(document: Mapping[str, Any]) -> Inventory:
    """Read a cluster document (schema 1; docs/architecture.md lists every key).

    Raises:
        UsageError: a key is missing, unknown or of another type, or the schema is not 1.
    """
    _check_schema(document)
    _check(document, "the cluster document", CLUSTER, CLUSTER_OPTIONAL)
    ssh = document["ssh"]
    _check(ssh, "ssh in the cluster document", SSH)
    for deadline in document["deadlines"]:
        _check(deadline, "a deadline in the cluster document", DEADLINE, WHEN)
    if document["price"] is not None:
        _check(document["price"], "price in the cluster document", PRICE)
    return Inventory(
        name=document["name"],
        cloud=document["cloud"],
        region=document["region"],
        bucket=document["bucket"],
        key_file=ssh["key_file"],
        deadlines=tuple(document["deadlines"]),
        price=document["price"],
        cluster_id=document.get("id"),
        hosts=tuple(_host_from(entry, ssh) for entry in document["hosts"]),
    )


def _check_schema(document: Any) -> None:
    """Refuse a document of another schema; for a newer one, the hint is the upgrade."""
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema is None or schema == SCHEMA:
        return
    newer = isinstance(schema, int) and schema > SCHEMA
    raise UsageError(
        f"the cluster document has schema {schema!r}; this Railhead reads {SCHEMA}",
        hint="git pull && scripts/setup   # in the clone of this Railhead" if newer else "",
    )


def _host_from(entry: Any, ssh: Mapping[str, Any]) -> Host:
    name = entry.get("name") if isinstance(entry, dict) else None
    what = f"host {name!r} in the cluster document"
    _check(entry, what, HOST, HOST_OPTIONAL)
    source = entry.get("host_key_source")
    if source is not None and source not in KEY_SOURCES:
        raise UsageError(f"{what}: host_key_source {source!r}: one of {', '.join(KEY_SOURCES)}")
    if source == "injected" and "host_key" not in entry:
        raise UsageError(f"{what}: host_key_source 'injected' goes with a host_key")
    values: dict[str, Any] = {f.name: entry.get(f.name) for f in fields(Host)}
    values["user"] = entry.get("user", ssh["user"])
    values["port"] = entry.get("port", ssh["port"])
    if entry["gpu"] is not None:
        _check(entry["gpu"], f"gpu of {what}", GPU)
        values["gpu"] = Gpu(**entry["gpu"])
    if "stop" in entry:
        values["stop"] = _argv(entry["stop"], what)
    return Host(**values)


def _argv(stop: list[Any], what: str) -> tuple[str, ...]:
    if not stop or not all(isinstance(part, str) for part in stop):
        raise UsageError(f"{what}: stop {stop!r} is not an argv: a list of strings")
    return tuple(stop)


def to_document(inventory: Inventory) -> dict[str, Any]:
    """The cluster document of an inventory: `from_document` reads it back unchanged."""
    users = {h.user for h in inventory.hosts}
    ports = {h.port for h in inventory.hosts}
    user = users.pop() if len(users) == 1 else None
    port = ports.pop() if len(ports) == 1 else None
    return {
        "schema": SCHEMA,
        **({"id": inventory.cluster_id} if inventory.cluster_id else {}),
        "name": inventory.name,
        "cloud": inventory.cloud,
        "region": inventory.region,
        "bucket": inventory.bucket,
        "ssh": {"user": user, "port": port, "key_file": inventory.key_file},
        "deadlines": [dict(d) for d in inventory.deadlines],
        "price": dict(inventory.price) if inventory.price else None,
        "hosts": [_host_document(h, user, port) for h in inventory.hosts],
    }


def _host_document(host: Host, user: str | None, port: int | None) -> dict[str, Any]:
    entry: dict[str, Any] = {key: getattr(host, key) for key in HOST if key != "gpu"}
    entry["gpu"] = {"type": host.gpu.type, "count": host.gpu.count} if host.gpu else None
    for key in ("host_key", "host_key_source"):
        if getattr(host, key) is not None:
            entry[key] = getattr(host, key)
    if host.stop is not None:
        entry["stop"] = list(host.stop)
    if host.user != user:
        entry["user"] = host.user
    if host.port != port:
        entry["port"] = host.port
    return entry


def _check(value: Any, what: str, required: Kinds, optional: Kinds | None = None) -> None:
    """Refuse a value that is not an object of these keys and types; names every wrong key."""
    kinds = {**required, **(optional or {})}
    if not isinstance(value, dict):
        raise UsageError(f"{what}: {value!r} is not an object with the keys {', '.join(kinds)}")
    missing = [key for key in required if key not in value]
    unknown = sorted(set(value) - set(kinds))
    mistyped = [key for key in value if key in kinds and not _is(value[key], kinds[key])]
    lists = {"missing": missing, "unknown": unknown, "of another kind": mistyped}
    problems = [f"{how}: {', '.join(keys)}" for how, keys in lists.items() if keys]
    if problems:
        raise UsageError(f"{what}: {'; '.join(problems)}. It has the keys {', '.join(kinds)}")


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)
