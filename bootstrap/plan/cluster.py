"""What a plan is made from: the options of a command, and the hosts with their facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Inventory
from bootstrap.plan.hostfile import Peer
from bootstrap.plan.runtimes import BucketClient, Environment


@dataclass(frozen=True)
class CachedWheel:
    """What the bucket was found to keep for the hosts, at `url`. `holds` is None where that could
    not be found out; `taken` whether the wheel that is here came from there just now; `note` says
    what a person should know of it."""

    url: str
    holds: bool | None
    taken: bool = False
    note: str = ""


@dataclass(frozen=True)
class Options:
    """What a person may choose about making hosts ready. `archive` is the address of one of
    Debian's, for what hosts of another system take from there."""

    system: bool = False
    requirements: Path | None = None
    peer_addresses: tuple[str, ...] = ()
    launcher: str | None = None
    runtime: str | None = None
    allow_mixed: bool = False
    archive: str = ""


@dataclass(frozen=True)
class Cluster:
    """Hosts whose facts are known: what to make of them, and how they see each other. `wheel` is
    the Horovod wheel that this computer has for them, `kept` what the stack's bucket has, `archive`
    the archive of Debian that a person named."""

    inventory: Inventory
    facts: Mapping[str, HostFacts]
    environment: Environment
    peers: tuple[Peer, ...]
    wheel: Path | None
    kept: CachedWheel | None = None
    archive: str = ""

    @property
    def chief(self) -> str:
        """The chief's name."""
        return self.inventory.chief.name

    @property
    def bucket_client(self) -> BucketClient | None:
        """What writes to the stack's bucket on the chief; None where there is no bucket."""
        return BucketClient(self.environment.python) if self.inventory.bucket else None

    @property
    def builder(self) -> str:
        """The host that builds the Horovod wheel if it has to be built: one that needs it, and
        can build it, else one whose apt may bring what it lacks."""

        def lacks(name: str) -> tuple[bool, bool, bool, bool]:
            host, chief = self.facts[name], name == self.chief
            done = name not in self.incomplete
            return done, not host.builds_wheels, host.egress.apt.open is False, not chief

        return min(self.facts, key=lacks)

    @property
    def incomplete(self) -> tuple[str, ...]:
        """The hosts on which the environment is missing, or not whole."""
        digest = self.environment.digest
        return tuple(name for name, host in self.facts.items() if digest not in host.envs)
