"""Which hosts a command is about: `--hosts` text and the cluster document become one Inventory.

Pure. Nothing here opens a file or a connection; names are checked here, once, and trusted after.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from bootstrap.errors import UsageError

SCHEMA = 1
CLOUDS = ("aws", "gcp", "local", "hosts")
KEY_SOURCES = ("guest-attributes", "console")
SHAPE = "[user@]host[:port][*slots], with an IPv6 address in brackets: [2001:db8::7]:22"

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?")
_HOST = re.compile(
    r"(?:(?P<user>[^@]+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<address>[^:*\[\]]+))"
    r"(?::(?P<port>[^*]+))?(?:\*(?P<slots>.+))?"
)
_V6 = re.compile(r"[0-9A-Fa-f:.]+(?:%[A-Za-z0-9._-]+)?")


@dataclass(frozen=True)
class Gpu:
    """The GPUs of one host, as the stack asked for them."""

    type: str
    count: int


@dataclass(frozen=True)
class Host:
    """One machine. `address` is from here (a name of ssh_config counts), `peer_address` from the
    other hosts; None means: found out at facts time. `slots` None means: one per GPU, else one."""

    name: str
    address: str
    user: str | None = None
    port: int | None = None
    peer_address: str | None = None
    slots: int | None = None
    id: str | None = None
    zone: str | None = None
    gpu: Gpu | None = None
    host_key: str | None = None
    host_key_source: str | None = None
    stop: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_name(self.name, "a host's name")
        if not (_NAME.fullmatch(self.address) or _V6.fullmatch(self.address)):
            raise UsageError(f"{self.address!r} is not a host: write {SHAPE}")
        if self.user is not None:
            check_name(self.user, "a user")
        if self.slots is not None and self.slots < 1:
            raise UsageError(
                f"slots of {self.name}: {self.slots}. A host takes part with 1 slot or more; "
                "leave the host out to use none of it."
            )

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{user}{address}" + (f":{self.port}" if self.port else "")


@dataclass(frozen=True)
class Inventory:
    """The hosts of one run, in order; the first is the chief. Never empty, never one host twice."""

    name: str
    hosts: tuple[Host, ...]
    cloud: str = "hosts"
    region: str | None = None
    bucket: str | None = None
    key_file: str | None = None
    deadlines: tuple[Mapping[str, Any], ...] = ()
    price: Mapping[str, Any] | None = field(default=None)

    def __post_init__(self) -> None:
        check_name(self.name, "a cluster's name")
        if not self.hosts:
            raise UsageError("no hosts", hint="fab train --hosts user@first,user@second")
        if self.cloud not in CLOUDS:
            raise UsageError(f"cloud {self.cloud!r}: one of {', '.join(CLOUDS)}")
        _refuse_twice([(h.address, h.port) for h in self.hosts], [str(h) for h in self.hosts])
        _refuse_twice([h.name for h in self.hosts], [h.name for h in self.hosts])

    @property
    def chief(self) -> Host:
        """The host whose supervisor and mpirun lead the run."""
        return self.hosts[0]

    @property
    def named_only(self) -> bool:
        """True for machines that were only named by --hosts: they are other people's."""
        return self.cloud == "hosts"


def check_name(text: str, what: str) -> str:
    """Return `text` if it can be part of a path, a host list and an argv; UsageError otherwise."""
    if not _NAME.fullmatch(text) or ".." in text:
        raise UsageError(
            f"{text!r} is not {what}: letters, digits, '.', '_' and '-', "
            "beginning and ending with a letter or digit"
        )
    return text


def parse_hosts(text: str, *, slots: int | None = None) -> Inventory:
    """Read `--hosts`: a comma-separated list of [user@]host[:port][*slots].

    Args:
        text: what was typed.
        slots: for every host that does not say its own.

    Raises:
        UsageError: the list is empty, an entry has another shape, or a host stands in it twice.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    hosts = [_parse_host(entry, slots) for entry in entries]
    repeated = Counter(h.address for h in hosts)
    named = tuple(replace(h, name=_host_name(h, i, repeated)) for i, h in enumerate(hosts, 1))
    digest = hashlib.sha256("\n".join(str(h) for h in named).encode()).hexdigest()[:8]
    return Inventory(name=f"hosts-{digest}", hosts=named)


def _parse_host(entry: str, slots: int | None) -> Host:
    match = _HOST.fullmatch(entry)
    if not match:
        raise UsageError(f"{entry!r} is not a host: write {SHAPE}")
    address = match["v6"] or match["address"]
    if match["v6"] and not _V6.fullmatch(address):
        raise UsageError(f"{address!r} is not an IPv6 address: write {SHAPE}")
    return Host(
        name="unnamed",
        address=address,
        user=match["user"],
        port=whole_number(match["port"], f"port of {entry!r}", 1, 65535),
        slots=whole_number(match["slots"], f"slots of {entry!r}", 1, 1024) or slots,
    )


def _host_name(host: Host, index: int, repeated: Mapping[str, int]) -> str:
    """The word for this host in messages: what was typed, made unique by its port."""
    if ":" in host.address:
        return f"host-{index}"
    return f"{host.address}-{host.port or 22}" if repeated[host.address] > 1 else host.address


def whole_number(text: str | None, what: str, low: int, high: int) -> int | None:
    """The number in `text`, None for None; UsageError with the range when it is no such number."""
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise UsageError(f"{what}: {text!r} is not a number from {low} to {high}")
    return int(text)


def _refuse_twice(keys: Sequence[object], shown: Sequence[str]) -> None:
    for key, count in Counter(keys).items():
        if count > 1:
            twice = shown[keys.index(key)]
            raise UsageError(f"{twice} is in the list {count} times; write each host once")


def from_document(document: Mapping[str, Any]) -> Inventory:
    """Read a cluster document (schema 1; docs/how-it-works.md lists every key).

    Raises:
        UsageError: a key is missing or unknown, or the document's schema is newer than this code.
    """
    schema = document.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise UsageError(
            f"the cluster document has schema {schema}; this Railhead reads {SCHEMA}",
            hint="git pull && make setup   # in the clone that holds this Railhead",
        )
    _check_keys(document, "the cluster document", required=CLUSTER_KEYS)
    ssh = document["ssh"]
    _check_keys(ssh, "ssh in the cluster document", required=SSH_KEYS)
    return Inventory(
        name=document["name"],
        cloud=document["cloud"],
        region=document["region"],
        bucket=document["bucket"],
        key_file=ssh["key_file"],
        deadlines=tuple(document["deadlines"]),
        price=document["price"],
        hosts=tuple(_host_from(entry, ssh) for entry in document["hosts"]),
    )


CLUSTER_KEYS = tuple(
    ["schema", "name", "cloud", "region", "bucket", "ssh", "deadlines", "price", "hosts"]
)
SSH_KEYS = ("user", "port", "key_file")
HOST_KEYS = tuple(["name", "id", "zone", "address", "peer_address", "slots", "gpu"])
HOST_OPTIONAL = ("host_key", "host_key_source", "stop", "user", "port")


def _host_from(entry: Mapping[str, Any], ssh: Mapping[str, Any]) -> Host:
    what = f"host {entry.get('name')!r} in the cluster document"
    _check_keys(entry, what, required=HOST_KEYS, optional=HOST_OPTIONAL)
    source = entry.get("host_key_source")
    if source is not None and source not in KEY_SOURCES:
        raise UsageError(f"{what}: host_key_source {source!r}: one of {', '.join(KEY_SOURCES)}")
    values: dict[str, Any] = {f.name: entry.get(f.name) for f in fields(Host)}
    values["user"] = entry.get("user", ssh["user"])
    values["port"] = entry.get("port", ssh["port"])
    values["gpu"] = Gpu(**entry["gpu"]) if entry["gpu"] else None
    values["stop"] = tuple(entry["stop"]) if entry.get("stop") else None
    return Host(**values)


def to_document(inventory: Inventory) -> dict[str, Any]:
    """The cluster document of an inventory: what `from_document` reads back unchanged."""
    users = {h.user for h in inventory.hosts}
    ports = {h.port for h in inventory.hosts}
    user = users.pop() if len(users) == 1 else None
    port = ports.pop() if len(ports) == 1 else None
    return {
        "schema": SCHEMA,
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
    entry: dict[str, Any] = {key: getattr(host, key) for key in HOST_KEYS if key != "gpu"}
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


def _check_keys(
    value: Mapping[str, Any], what: str, *, required: Sequence[str], optional: Sequence[str] = ()
) -> None:
    missing = [key for key in required if key not in value]
    unknown = sorted(set(value) - set(required) - set(optional))
    if missing or unknown:
        wrong = [f"missing: {', '.join(missing)}"] if missing else []
        wrong += [f"unknown: {', '.join(unknown)}"] if unknown else []
        raise UsageError(
            f"{what}: {'; '.join(wrong)}. It has the keys {', '.join([*required, *optional])}"
        )
