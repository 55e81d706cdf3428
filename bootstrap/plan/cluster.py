"""The input of a plan: the options of a command, and the hosts with their facts. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from railhead.documents.lazy import dataclass

from ..facts.host import HostFacts
from ..inventory.hosts import Inventory
from .hostfile import Peer
from .internet import Internet
from .runtimes import BucketClient, Environment

HERE = "here"  # the origin of wheels that were built on this computer


@dataclass(frozen=True)
class CachedWheel:
    """The wheel for the hosts at `url` in the stack's bucket. `in_bucket`: whether it is there,
    None if unknown; `downloaded`: whether this command downloaded it; `note` is for the user."""

    url: str
    in_bucket: bool | None
    downloaded: bool = False
    note: str = ""


@dataclass(frozen=True)
class Options:
    """The user's options for the preparation of hosts. `archive`: the URL of a Debian archive, from
    which hosts with another system download packages; `internet`: how hosts reach the package
    index. `takeover`: the second host is prepared to continue a run. `environment`: the digest of
    the environment of a run that continues."""

    system: bool = False
    requirements: Path | None = None
    peer_addresses: tuple[str, ...] = ()
    launcher: str | None = None
    runtime: str | None = None
    allow_mixed: bool = False
    archive: str = ""
    internet: Internet = Internet()
    takeover: bool = False
    environment: str | None = None


@dataclass(frozen=True)
class SurveyedCluster:
    """Hosts with their facts, their environment and their addresses for each other. `wheel` is the
    Horovod wheel for them in this computer's cache, `cached_wheel` the one in the stack's bucket,
    `archive` the URL of a Debian archive that the user gave, `internet` how they reach the package
    index. `takeover`: the second host is prepared to continue a run."""

    inventory: Inventory
    facts: Mapping[str, HostFacts]
    environment: Environment
    peers: tuple[Peer, ...]
    wheel: Path | None = None
    cached_wheel: CachedWheel | None = None
    archive: str = ""
    internet: Internet = Internet()
    takeover: bool = False

    @property
    def chief(self) -> str:
        """The chief's name."""
        return self.inventory.chief.name

    @property
    def leaders(self) -> tuple[Peer, ...]:
        """The hosts that start ranks and write to the bucket: the chief and, for a takeover, the
        second host."""
        return self.peers[: 2 if self.takeover else 1]

    @property
    def bucket_client(self) -> BucketClient | None:
        """The environment on leaders that writes to the stack's bucket; None without a bucket."""
        return BucketClient(self.environment.python) if self.inventory.bucket else None

    @property
    def builder(self) -> str:
        """The host that builds the Horovod wheel if there is none. In order of preference: a host
        that needs the wheel, has the build tools, has outbound access for apt, is the chief."""

        def preference(name: str) -> tuple[bool, bool, bool, bool]:
            host, chief = self.facts[name], name == self.chief
            complete = name not in self.incomplete
            return complete, not host.builds_wheels, host.egress.apt.open is False, not chief

        return min(self.facts, key=preference)

    def wheel_origin(self, builder: str) -> str:
        """Names the origin of a wheel that `builder` built: HERE for hosts on this computer,
        otherwise a digest of the stack's id, or of the builder's verified host key, which no other
        host can have. Only clusters of the same stack, or with this host, get the wheel."""
        if self.inventory.kind.this_machine:
            return HERE
        stack = self.inventory.cluster_id
        keys = {peer.name: peer.host_key for peer in self.peers}
        return hashlib.sha256((stack or keys[builder]).encode()).hexdigest()[:16]

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The hosts on which the environment is missing or incomplete."""
        digest = self.environment.digest
        return tuple(name for name, host in self.facts.items() if digest not in host.envs)
