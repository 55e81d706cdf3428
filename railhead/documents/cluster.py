"""The cluster document, schema 1: a stack's output, or a record on this computer, about the hosts.

tests/cases/documents/cluster-*.json are examples of every form.
"""

from __future__ import annotations

from typing import Literal

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

SCHEMA = 1
DECIMAL = r"\d{1,9}(\.\d{1,12})?"


@dataclass(frozen=True)
class Gpu:
    """The GPUs of one host, as the stack requests them."""

    type: str
    count: int


@dataclass(frozen=True)
class DocumentHost:
    """One host; the other hosts connect to `peer_address`. `user` and `port`: if they are not those
    of `ssh`. `stop` is the command that stops it, and is run on the host."""

    name: str = key(doc="the host's name in messages")
    address: str = key(
        doc="its address from this computer; may be an alias of ssh_config; empty: it has none,"
        " because it is stopped"
    )
    user: str | None = key(None, omit=True, doc="optional: overrides `user` in `ssh`")
    port: int | None = key(None, omit=True, doc="optional: overrides `port` in `ssh`")
    peer_address: str | None = key(
        None,
        since=1,
        doc="its address from the other hosts; null: its address on the route to them",
    )
    slots: int | None = key(
        None,
        since=1,
        doc="the number of ranks with Horovod; null: one rank per GPU; one rank in total on a"
        " host without GPUs",
    )
    id: str | None = key(None, since=1, doc="the cloud's id of the machine, or null")
    zone: str | None = key(None, since=1, doc="its zone, or null")
    gpu: Gpu | None = key(None, since=1, doc="`type` and `count`, or null")
    host_key: str | None = key(None, omit=True, doc="optional: the host's public host key")
    host_key_source: Literal["guest-attributes", "console", "injected"] | None = key(
        None,
        omit=True,
        doc="optional: `guest-attributes` or `console`, where the key can be read after boot;"
        " `injected`: it is replaced at the first login",
    )
    stop: tuple[str, ...] | None = key(
        None,
        omit=True,
        doc="optional: the command that stops this host, as an argv (a list of strings)",
    )


@dataclass(frozen=True)
class DocumentDeadline:
    """When the cloud stops one host automatically: at the time `at` (UTC), or `seconds` after each
    start."""

    kind: str
    id: str | None
    host: str
    seconds: int
    at: str | None = key(None, omit=True)


@dataclass(frozen=True)
class PricePart:
    """What each host is billed for: `quantity` units of `what`. `usd` and, of a range, `high` are
    texts, for exact sums; None if the price is unknown, and `source` says why."""

    what: str
    name: str
    quantity: float
    unit: str = key(choices=("h", "GB-month", "MiBps-month", "IOPS-month"))
    usd: str | None = key(None, pattern=DECIMAL)
    high: str | None = key(None, pattern=DECIMAL, omit=True)
    day: str = ""
    source: str = ""


@dataclass(frozen=True)
class ClusterPrice:
    """The price of all hosts together; `date` is empty for a price of the stack's config."""

    per_hour: float | None
    currency: str
    source: str
    date: str
    parts: tuple[PricePart, ...] = key((), omit=True)


@dataclass(frozen=True)
class Ssh:
    """How this computer logs in to all hosts; None: as ssh_config says, or each host itself."""

    user: str | None
    port: int | None
    key_file: str | None


@dataclass(frozen=True, kw_only=True)
class ClusterDocument:
    """A cluster. `id` is in the tags of all resources of its stack; `bucket` is a URI."""

    schema: int = key(choices=(SCHEMA,), doc="1")
    id: str | None = key(
        None,
        omit=True,
        doc="optional: the cluster's id, unique per stack; its resources have it as the tag "
        "`railhead:id` (label `railhead-id` on Google Cloud)",
    )
    name: str = key(doc="the cluster's name; `hosts-<digest>` for a cluster given by `--hosts`")
    cloud: str = key(doc="`aws`, `gcp`, `local`, or `hosts` for ad-hoc hosts (given by `--hosts`)")
    region: str | None = key(doc="the cloud's region, or null")
    bucket: str | None = key(doc="the bucket for results, or null")
    ssh: Ssh = key(
        doc="an object: `user`, `port`, `key_file`, the defaults of all hosts; a null value "
        "is left to your ssh"
    )
    deadlines: tuple[DocumentDeadline, ...] = key(
        doc="the cloud's resources that stop the machines, for each host: `kind`, `id`, `host`,"
        " `seconds` (from each start), optional: `at` (a time)"
    )
    price: ClusterPrice | None = key(
        doc="of all hosts, or null: `per_hour`, `currency`, `source`, `date`; `parts`: the machine,"
        " disk and address of each"
    )
    budget: float | None = key(
        None, omit=True, doc="optional: US dollars for the machines, over all their starts"
    )
    hosts: tuple[DocumentHost, ...] = key(
        doc="a list, the chief first; each entry has the following keys"
    )
