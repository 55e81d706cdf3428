"""The parts of Compute Engine's responses that are read here. The fields have Google's names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from datetime import datetime, timedelta

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.documents.times import moment

from .listed import path_of

STATES = {
    "PENDING": "starting",
    "PROVISIONING": "starting",
    "STAGING": "starting",
    "REPAIRING": "starting",
    "RUNNING": "running",
    "PENDING_STOP": "stopping",
    "STOPPING": "stopping",
    "SUSPENDING": "stopping",
    "DEPROVISIONING": "stopping",
    "STOPPED": "stopped",
    "TERMINATED": "stopped",
    "SUSPENDED": "stopped",
}


@dataclass(frozen=True)
class Interface:
    """A network interface."""

    network: str = ""
    networkIP: str = ""
    accessConfigs: tuple[str, ...] = key((), path="natIP")

    @property
    def public(self) -> str:
        """Its public address; empty if it has none."""
        return self.accessConfigs[0] if self.accessConfigs else ""


@dataclass(frozen=True)
class Scheduling:
    """How long an instance may run, and what happens to it then."""

    maxRunDuration: str = key("", path="seconds")
    instanceTerminationAction: str = ""
    onInstanceStopAction: bool = key(False, path="discardLocalSsd")


@dataclass(frozen=True)
class AttachedDisk:
    """A disk of an instance; `source` is its address. Local SSDs have the type SCRATCH."""

    source: str = ""
    type: str = ""
    diskSizeGb: str = "0"


@dataclass(frozen=True)
class Instance:
    """An instance."""

    id: str = ""
    name: str = ""
    selfLink: str = ""
    status: str = ""
    statusMessage: str = ""
    zone: str = ""
    machineType: str = ""
    creationTimestamp: str = ""
    lastStartTimestamp: str = ""
    lastStopTimestamp: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = key((), path="items")
    networkInterfaces: tuple[Interface, ...] = ()
    scheduling: Scheduling = Scheduling()
    resourceStatus: str = key("", path="scheduling.terminationTimestamp")
    disks: tuple[AttachedDisk, ...] = ()

    @property
    def path(self) -> str:
        """projects/PROJECT/zones/ZONE/instances/NAME."""
        return path_of(self.selfLink)

    @property
    def state(self) -> str:
        """One of base.STATES."""
        return STATES.get(self.status, "unknown")

    @property
    def interface(self) -> Interface:
        """Its first network interface."""
        return self.networkInterfaces[0] if self.networkInterfaces else Interface()

    @property
    def seconds(self) -> str:
        """maxRunDuration; empty if there is none."""
        return self.scheduling.maxRunDuration

    @property
    def stops(self) -> bool:
        """Whether it is stopped, or deleted, at the end of that time. Compute does not stop an
        instance with local SSDs without `discardLocalSsd`."""
        action = self.scheduling.instanceTerminationAction
        discards = self.scheduling.onInstanceStopAction
        return action == "DELETE" or (action == "STOP" and (discards or not self.has_local_ssd))

    @property
    def has_local_ssd(self) -> bool:
        """Whether it has local SSDs, whose content is lost when it stops."""
        return any(disk.type == "SCRATCH" for disk in self.disks)

    @property
    def ends(self) -> datetime | None:
        """When Compute stops it while it runs: its timestamp, or start time plus duration."""
        if self.resourceStatus:
            return moment(self.resourceStatus)
        began = moment(self.lastStartTimestamp)
        return began + timedelta(seconds=int(self.seconds)) if began else None


@dataclass(frozen=True)
class Disk:
    """A disk; `type` is the address of its type."""

    type: str = ""
    sizeGb: str = ""


@dataclass(frozen=True)
class GuestAttribute:
    """What the guest agent wrote under a key."""

    key: str
    value: str = ""


@dataclass(frozen=True)
class GuestAttributes:
    """The answer of getGuestAttributes."""

    queryValue: tuple[GuestAttribute, ...] = key((), path="items")


@dataclass(frozen=True)
class Allowed:
    """What a firewall rule lets in: `ports` as in 22 or 20-30; all without any."""

    IPProtocol: str
    ports: tuple[str, ...] = ()

    def covers(self, port: int) -> bool:
        """Whether a TCP port is among them."""
        if self.IPProtocol not in ("tcp", "all"):
            return False
        spans = [text.partition("-") for text in self.ports]
        return not spans or any(int(a) <= port <= int(b or a) for a, _, b in spans)


@dataclass(frozen=True)
class Firewall:
    """A firewall rule."""

    network: str = ""
    direction: str = ""
    disabled: bool = False
    allowed: tuple[Allowed, ...] = ()
    targetTags: tuple[str, ...] = ()
    sourceRanges: tuple[str, ...] = ()

    def opens(self, tags: Collection[str], port: int) -> bool:
        """Whether it lets others connect to a port of instances with these tags."""
        applies = not self.targetTags or not {*self.targetTags}.isdisjoint(tags)
        opens = any(protocol.covers(port) for protocol in self.allowed)
        return applies and opens and self.direction == "INGRESS" and not self.disabled
