"""The cluster document, schema 1: a stack's output, or a record on this computer, about the hosts.

tests/cases/documents/cluster-*.json are examples of every form.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from railhead.documents.codec import key

SCHEMA = 1


@dataclass(frozen=True)
class Gpu:
    """The GPUs of one host, as the stack requests them."""

    type: str
    count: int


@dataclass(frozen=True)
class DocumentHost:
    """One host; the other hosts connect to `peer_address`. `user` and `port`: where they are not
    those of `ssh`. `stop` is the command that stops it, and is run on the host."""

    name: str
    address: str
    user: str | None = key(None, omit=True)
    port: int | None = key(None, omit=True)
    peer_address: str | None = key(None, since=1)
    slots: int | None = key(None, since=1)
    id: str | None = key(None, since=1)
    zone: str | None = key(None, since=1)
    gpu: Gpu | None = key(None, since=1)
    host_key: str | None = key(None, omit=True)
    host_key_source: Literal["guest-attributes", "console", "injected"] | None = key(
        None, omit=True
    )
    stop: tuple[str, ...] | None = key(None, omit=True)


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
class Price:
    """The price of all hosts together; `date` is empty for a price of the stack's config."""

    per_hour: float
    currency: str
    source: str
    date: str


@dataclass(frozen=True)
class Ssh:
    """How this computer logs in to all hosts; None: as ssh_config says, or each host itself."""

    user: str | None
    port: int | None
    key_file: str | None


@dataclass(frozen=True, kw_only=True)
class ClusterDocument:
    """A cluster. `id` is in the tags of all resources of its stack; `bucket` is a URI."""

    schema: int = key(choices=(SCHEMA,))
    id: str | None = key(None, omit=True)
    name: str
    cloud: str
    region: str | None
    bucket: str | None
    ssh: Ssh
    deadlines: tuple[DocumentDeadline, ...]
    price: Price | None
    hosts: tuple[DocumentHost, ...]
