"""The parts of EC2's responses that are read here. The fields have EC2's names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.documents.times import seconds

from ..base import SpotOffer
from .client import AwsClient, ask, items

STATES = {
    "pending": "starting",
    "running": "running",
    "shutting-down": "stopping",
    "stopping": "stopping",
    "stopped": "stopped",
    "terminated": "gone",
}
PAGE = 500
STOPPED_AT = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
# Any region lists all others: this one if the user has configured none.
REGION_OF_LISTS = COMMON_FACTS["aws"].default_region


@dataclass(frozen=True)
class Tag:
    """A tag of an instance."""

    Key: str
    Value: str


def seconds_of(time: object) -> float | None:
    """A time of EC2 as seconds since 1970; None if it has none."""
    return time.timestamp() if isinstance(time, datetime) else None


@dataclass(frozen=True)
class Instance:
    """An instance."""

    InstanceId: str
    InstanceType: str = ""
    InstanceLifecycle: str = ""
    LaunchTime: Any = None  # a datetime
    State: str = key("", path="Name")
    StateReason: str = key("", path="Message")
    StateTransitionReason: str = ""
    BlockDeviceMappings: tuple[Any, ...] = key((), path="Ebs.AttachTime")  # datetimes
    Placement: str = key("", path="AvailabilityZone")
    PublicIpAddress: str = ""
    PrivateIpAddress: str = ""
    SecurityGroups: tuple[str, ...] = key((), path="GroupId")
    Tags: tuple[Tag, ...] = ()

    @property
    def state(self) -> str:
        """One of base.STATES."""
        return STATES.get(self.State, "unknown")

    @property
    def created(self) -> float | None:
        """When its first disk was attached; seconds since 1970."""
        return min(filter(None, map(seconds_of, self.BlockDeviceMappings)), default=None)

    @property
    def stopped(self) -> float | None:
        """When it was stopped or terminated last, by EC2's text: `(2026-11-01 10:00:00 GMT)`."""
        match = STOPPED_AT.search(self.StateTransitionReason)
        return seconds(f"{match[1]}Z") if match else None

    @property
    def is_spot(self) -> bool:
        """Whether EC2 can only terminate it, not stop it."""
        return self.InstanceLifecycle == "spot"

    @property
    def offer(self) -> SpotOffer | None:
        """The type and the zone of a spot machine; None for others."""
        zone = self.Placement
        return SpotOffer(self.InstanceType, zone) if self.is_spot and zone else None

    @property
    def tags(self) -> dict[str, str]:
        """Its tags by name."""
        return {tag.Key: tag.Value for tag in self.Tags}


@dataclass(frozen=True)
class Reservation:
    """Instances that were started together, and the account that has them."""

    OwnerId: str = ""
    Instances: tuple[Instance, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A rule of a security group; without ports for all protocols (`-1`)."""

    IsEgress: bool
    IpProtocol: str
    FromPort: int = 0
    ToPort: int = 0
    CidrIpv4: str = ""
    CidrIpv6: str = ""

    def opens(self, port: int) -> bool:
        """Whether it lets others connect to a port."""
        covers = self.IpProtocol == "tcp" and self.FromPort <= port <= self.ToPort
        return not self.IsEgress and (covers or self.IpProtocol == "-1")


@dataclass(frozen=True)
class Volume:
    """A disk; `Size` in GB, `Throughput` in MiB/s."""

    VolumeId: str
    Size: int
    VolumeType: str = ""
    Iops: int = 0
    Throughput: int = 0
    Attachments: tuple[str, ...] = key((), path="InstanceId")


def account(client: AwsClient) -> str:
    """The account of the current credentials: `account 1234`."""
    return f"account {ask(str, client, 'sts', 'get_caller_identity', 'Account')}"


def enabled_regions(client: AwsClient) -> list[str]:
    """The regions that are enabled in the account."""
    named = ("ec2", "describe_regions", "Regions.RegionName")
    return [*ask(tuple[str, ...], client, *named)]


def reservations(client: AwsClient, **filters: Collection[str]) -> Iterator[Reservation]:
    """The reservations whose instances pass all filters; `_` stands for `-` in a filter's name."""
    listed = [{"Name": n.replace("_", "-"), "Values": list(v)} for n, v in filters.items()]
    named = ("ec2", "describe_instances", "Reservations")
    return items(Reservation, client, *named, Filters=listed, MaxResults=PAGE)
