"""The hosts that a command applies to: parses `--hosts` into an Inventory.

Pure: opens no file and no connection. Names are checked here, once, and trusted afterwards.
The cluster document, another source of an Inventory, is in bootstrap/inventory/document.py.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from railhead.documents.cluster import ClusterPrice, DocumentDeadline, DocumentHost
from railhead.documents.lazy import dataclass
from railhead.documents.names import NAME_FORM, NAME_LENGTH, is_name
from railhead.documents.rule import Rule, Unfit

from ..errors import Command, UsageError, typed_options
from .clouds import AD_HOC, CLOUDS, CloudKind

SHAPE = "[user@]host[:port][*slots], with an IPv6 address in brackets: [2001:db8::7]:22"

_HOST = re.compile(
    r"(?:(?P<user>[^@]+)@)?(?:\[(?P<v6>[^\]]+)\]|(?P<address>[^:*\[\]]+))"
    r"(?::(?P<port>[^*]+))?(?:\*(?P<slots>.+))?"
)
_ZONE = re.compile(r"[A-Za-z0-9._-]+")  # of an IPv6 address: fe80::1%eth0


@dataclass(frozen=True)
class Host(DocumentHost):
    """One machine. This machine connects to `address` (or a name of ssh_config), the other hosts
    to `peer_address` (None: taken from the facts). `slots` None: one per GPU, else one."""

    def __post_init__(self) -> None:
        check_name(self.name, "a host's name")
        if not (NAME_FORM.fullmatch(self.address) or _is_v6(self.address)):
            raise UsageError(f"{self.address!r} is not a host: write {SHAPE}")
        if self.user is not None:
            check_name(self.user, "a user")
        if self.port is not None:
            whole_number(str(self.port), f"port of {self.name}", 1, 65535)
        if self.peer_address is not None:
            check_peer_address(self.peer_address)
        if self.slots is not None and self.slots < 1:
            raise UsageError(
                f"slots of {self.name}: {self.slots}. A host takes part with 1 slot or more; "
                "leave the host out to use none of it."
            )
        if self.host_key_source == "injected" and self.host_key is None:
            raise UsageError(f"{self.name}: host_key_source 'injected' needs a host_key")
        if self.stop == ():
            raise UsageError(f"stop of {self.name} must be a command: a list of strings, not []")

    def __str__(self) -> str:
        user = f"{self.user}@" if self.user else ""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{user}{address}" + (f":{self.port}" if self.port else "")


@dataclass(frozen=True)
class Inventory:
    """The hosts of one run, in order; the first is the chief. Never empty, no duplicates.

    `stack` is the Pulumi stack that created them; None for other hosts. `cluster_id` is its id,
    which its resources have as a tag; None for other hosts. `is_part`: the cluster has more hosts.
    """

    name: str
    hosts: tuple[Host, ...]
    cloud: str = AD_HOC
    region: str | None = None
    bucket: str | None = None
    key_file: str | None = None
    deadlines: tuple[DocumentDeadline, ...] = ()
    price: ClusterPrice | None = None
    budget: float | None = None
    stack: str | None = None
    cluster_id: str | None = None
    is_part: bool = False

    def __post_init__(self) -> None:
        check_name(self.name, "a cluster's name")
        if not self.hosts:
            raise UsageError("no hosts", hint=Command("train", hosts="user@first,user@second"))
        if self.cloud not in CLOUDS:
            raise UsageError(f"cloud {self.cloud!r}: one of {', '.join(CLOUDS)}")
        _refuse_twice(self.hosts, lambda host: (host.address, host.port or 22))
        _refuse_twice(self.hosts, lambda host: host.name)

    @property
    def chief(self) -> Host:
        """The host whose supervisor and mpirun lead the run."""
        return self.hosts[0]

    @property
    def project(self) -> str | None:
        """The project of Google Cloud, from the id of the chief; None elsewhere."""
        parts = str(self.chief.id).split("/")
        return parts[1] if parts[0] == "projects" else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the hosts, in order."""
        return tuple(host.name for host in self.hosts)

    def only(self, names: Collection[str]) -> Inventory:
        """The same inventory with these hosts alone, in its own order."""
        hosts = tuple(host for host in self.hosts if host.name in names)
        return replace(self, hosts=hosts, is_part=self.is_part or len(hosts) < len(self.hosts))

    @property
    def kind(self) -> CloudKind:
        """The properties that all hosts of this cloud share."""
        return CLOUDS[self.cloud]

    @property
    def target(self) -> dict[str, str]:
        """The option that names these hosts, for a command that is printed: {"stack": "gpu"}. Empty
        for recorded local hosts, which are those of the last command."""
        if self.stack:
            return {"stack": self.stack}
        return {"hosts": self.host_list} if self.is_ad_hoc else {}

    @property
    def option(self) -> str:
        """`target` as text for a command of another program: ` --stack gpu`."""
        return typed_options(self.target)

    @property
    def host_list(self) -> str:
        """The hosts as `--hosts` reads them: `a,root@b:22*2`."""
        return ",".join(f"{h}*{h.slots}" if h.slots else str(h) for h in self.hosts)

    @property
    def is_ad_hoc(self) -> bool:
        """Whether the hosts are ad hoc: given by --hosts, not created by a stack."""
        return self.cloud == AD_HOC

    @property
    def is_adopted(self) -> bool:
        """Whether `fab adopt` recorded it: Pulumi has no state of it, and its id names it."""
        return self.stack is not None and self.stack == self.cluster_id

    @property
    def is_managed(self) -> bool:
        """Whether Railhead may stop the machines when a run has ended: those of a stack."""
        return self.stack is not None or self.kind.in_cloud


def check_name(name: str, kind: str) -> str:
    """Return `name` if it can be part of a path, a host list and an argv; UsageError otherwise."""
    if not is_name(name):
        raise UsageError(
            f"{name!r} is not {kind}: letters, digits, '.', '_' and '-', "
            "beginning and ending with a letter, a digit or '_', without '..', "
            f"no longer than {NAME_LENGTH}"
        )
    return name


def check_peer_address(text: str) -> str:
    """Return `text` if it is an IP address (mpirun's networks derive from it); else UsageError."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise UsageError(f"peer address {text!r}: write an IP address, as in 10.0.0.1") from None
    if address.is_multicast or address.is_unspecified or text == "255.255.255.255":
        raise UsageError(f"peer address {text!r}: the address of one host, as in 10.0.0.1")
    return text


def _is_v6(text: str) -> bool:
    address, percent, zone = text.partition("%")
    try:
        ipaddress.IPv6Address(address)
    except ValueError:
        return False
    return not percent or _ZONE.fullmatch(zone) is not None


def parse_hosts(text: str, *, slots: int | None = None) -> Inventory:
    """Read `--hosts`: a comma-separated list of [user@]host[:port][*slots].

    Args:
        text: the value of `--hosts`.
        slots: the slots of every host that has none in `text`.

    Raises:
        UsageError: the list is empty, an entry has another shape, or a host occurs in it twice.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    hosts = [_parse_host(entry, slots) for entry in entries]
    _refuse_twice(hosts, lambda host: (host.address, host.port or 22))
    digest = hashlib.sha256("\n".join(str(h) for h in hosts).encode()).hexdigest()[:8]
    return Inventory(name=f"hosts-{digest}", hosts=_named(hosts))


def _parse_host(entry: str, slots: int | None) -> Host:
    match = _HOST.fullmatch(entry)
    if not match or _is_v6(entry.rpartition("@")[2]):
        raise UsageError(f"{entry!r} is not a host: write {SHAPE}")
    address = match["v6"] or match["address"]
    if match["v6"] and not _is_v6(address):
        raise UsageError(f"{address!r} is not an IPv6 address: write {SHAPE}")
    return Host(
        name="unnamed",
        address=address,
        user=match["user"],
        port=whole_number(match["port"], f"port of {entry!r}", 1, 65535),
        slots=whole_number(match["slots"], f"slots of {entry!r}", 1, 1024) or slots,
    )


def _named(hosts: Sequence[Host]) -> tuple[Host, ...]:
    """Name each host by its address; the port or a number makes a name unique."""
    addresses = [h.address for h in hosts]
    names: list[str] = []
    for number, host in enumerate(hosts, 1):
        name = host.address
        if ":" in name:
            name = f"host-{number}"
        elif addresses.count(name) > 1:
            name = f"{name}-{host.port or 22}"
        while name in names or (name != host.address and name in addresses):
            name += "_"
        names.append(name)
    return tuple(replace(host, name=name) for host, name in zip(hosts, names, strict=True))


def whole_number(text: str | None, subject: str, low: int, high: int) -> int | None:
    """The number in `text`, None for None; otherwise UsageError with the range."""
    try:
        return None if text is None else Rule(int, at_least=low, at_most=high).parsed(text)
    except Unfit as wrong:
        raise UsageError(wrong.of(subject)) from None


def _refuse_twice(hosts: Sequence[Host], key: Callable[[Host], object]) -> None:
    """Refuse two hosts with the same key, named as they were written."""
    first: dict[object, Host] = {}
    for host in hosts:
        if other := first.get(key(host)):
            both = str(host) if str(other) == str(host) else f"{other} and {host}"
            raise UsageError(f"{both}: the same host twice; write each host once")
        first[key(host)] = host
