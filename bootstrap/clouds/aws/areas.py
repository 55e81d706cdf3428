"""The areas of AWS: each enabled region, and the services of all regions (IAM and S3)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import Any

from railhead.documents import times
from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass
from railhead.money.host import DiskSpec
from railhead.money.table import ADDRESS as ADDRESS_PRICE
from railhead.money.table import shipped

from ...errors import RailheadError, UsageError
from ..areas import BUCKET, MACHINE, NO_DEADLINE, Area, Forbidden, Lists, Resource
from ..base import Refused, unless_refused
from ..bucket import Bucket
from ..costs import bucket_per_day, disk_per_day, per_day
from ..machines import Place
from ..storage import count_objects, describe_contents
from .client import UNAUTHORIZED, AwsClient, connect, default_region, items
from .ec2 import REGION_OF_LISTS, Instance, account, enabled_regions, reservations
from .kinds import (
    ADDRESS,
    CLUSTER,
    DISK,
    ID,
    NETWORK,
    OWNER,
    PREFIX,
    SNAPSHOT,
    STACK,
    Call,
    Described,
    Kind,
    described,
    role_calls,
    role_names,
    role_tags,
    tags_of,
    typed,
)
from .machines import ALIVE
from .s3 import S3
from .scheduler import Schedule

GLOBAL = "all regions"
WITHOUT_LOCATION = "us-east-1"  # S3's region of buckets whose LocationConstraint is empty
SCHEDULE, ROLE = "schedule", "role"
# For a shell: prints one line per version of an object, reads such a line, names its version.
QUERY = " --output text --query '[Versions,DeleteMarkers][][].[Key,VersionId]'"
READ = """IFS="$(printf '\\t')" read -r key version"""
VERSION = ' --key "$key" --version-id "$version"'
UNTAGGED = ("NoSuchTagSet", "NoSuchBucket")


def areas(known: Collection[Place]) -> list[Area]:
    """The regions that are enabled in the account, and IAM with S3. The other regions and accounts
    that `known` names are areas that cannot be listed."""
    region = default_region() or REGION_OF_LISTS
    client = connect(region)
    current = account(client)
    enabled = {*enabled_regions(client)}
    clients = {name: connect(name) for name in sorted(enabled)}
    used = {region, *(place.region for place in known)}
    regions = [Region(name, client, name in used) for name, client in clients.items()]
    return [*regions, Global(client, clients), *_unlisted(known, current, enabled)]


def _unlisted(known: Collection[Place], current: str, enabled: Collection[str]) -> list[Area]:
    """The accounts and regions of `known` that these credentials do not see."""
    others = {f"account {place.account}" for place in known if place.account} - {current}
    regions = {place.region for place in known if f"account {place.account}" not in others}
    missing = {region for region in regions if region} - {*enabled}
    why = f"a stack or a record is there, and these credentials are those of {current}"
    return [
        *(Unlisted(name, why) for name in sorted(others)),
        *(Unlisted(name, f"{current} has not enabled this region") for name in sorted(missing)),
    ]


@dataclass(frozen=True)
class Unlisted:
    """A region or an account that something here names, and that cannot be listed."""

    name: str
    why: str
    cloud: str = "aws"
    expected: bool = True

    def lists(self) -> Lists:
        """One list, which raises the error."""
        return {"regions": self._refuse}

    def _refuse(self) -> list[Resource]:
        raise UsageError(self.why)


@dataclass(frozen=True)
class Region:
    """One region: EC2 and EventBridge Scheduler. `is_used`: the user's configuration, a stack or a
    record names this region. Many organizations forbid most other regions."""

    name: str
    client: AwsClient
    is_used: bool
    cloud: str = "aws"
    expected: bool = True

    def lists(self) -> Lists:
        """What is listed in a region, machines first."""
        kinds = (DISK, SNAPSHOT, ADDRESS, *NETWORK)
        others = {kind.name: partial(self._listed, kind) for kind in kinds}
        return {MACHINE: self._machines, SCHEDULE: self._schedules, **others}

    def _made(self, kind: str, id_: str, tags: Mapping[str, str], calls: list[Call]) -> Resource:
        remove = partial(_run, self.client, calls)
        end = typed(iter(calls), self.name)
        return with_tags(Resource(kind, id_, self.name, "", end, remove), tags)

    def _machines(self) -> Iterator[Resource]:
        instances = self._instances()
        unbounded = self._unbounded([i.InstanceId for i in instances if i.state == "running"])
        for instance in instances:
            id_ = instance.InstanceId
            calls = [Call("ec2", "terminate_instances", {"InstanceIds": [id_]})]
            yield replace(
                self._made(MACHINE, id_, instance.tags, calls),
                place=instance.Placement,
                details=f"{instance.InstanceType}{' spot' if instance.is_spot else ''}, "
                f"{instance.state}{NO_DEADLINE if id_ in unbounded else ''}",
                since=moment(instance.LaunchTime),
                usd_per_day=self._price(instance),
            )

    def _unbounded(self, running: Sequence[str]) -> set[str]:
        """The ids of running machines that no schedule will stop; empty if the schedules cannot be
        listed, which their own list reports."""
        try:
            names = list(self._schedule_names()) if running else []
            ends = {name.rpartition("-i-")[2]: self._end_of(name) for name in names}
        except Refused:
            return set()
        now = datetime.now(timezone.utc)
        ends_of = {id_: ends.get(id_.removeprefix("i-")) for id_ in running}
        return {id_ for id_, end in ends_of.items() if end is None or end <= now}

    def _end_of(self, name: str) -> datetime | None:
        values = self.client("scheduler", "get_schedule", Name=name)
        return decode(Schedule, values, what=f"the schedule {name}", error=RailheadError).at

    def _instances(self) -> list[Instance]:
        listed = reservations(self.client, tag_key=[CLUSTER, ID], instance_state_name=ALIVE)
        try:
            return [instance for reservation in listed for instance in reservation.Instances]
        except Refused as refused:
            if self.is_used or refused.error_code not in UNAUTHORIZED:
                raise
            raise Forbidden(refused.message) from None

    def _price(self, instance: Instance) -> float | None:
        if instance.state == "stopped":
            return 0.0
        kind, spot = instance.InstanceType, instance.is_spot
        return per_day(shipped("aws").machine(kind, self.name, spot=spot))

    def _listed(self, kind: Kind) -> Iterator[Resource]:
        for item in described(self.client, kind, "tag-key", CLUSTER, ID):
            calls = list(kind.calls(item))
            details, usd = self._bill(kind, item)
            yield replace(
                self._made(kind.name, str(item[kind.id]), tags_of(item), calls),
                details=details,
                usd_per_day=usd,
                since=moment(item.get(kind.since)) if kind.since else "",
            )

    def _bill(self, kind: Kind, item: Described) -> tuple[str, float | None]:
        """What is billed for a resource, for people and in USD per day."""
        if kind is DISK:
            volume = str(item.get("VolumeType", ""))
            disk = DiskSpec(item["Size"], item.get("Throughput", 0), item.get("Iops", 0))
            usd = disk_per_day(disk, "aws", volume, self.name)
            return f"{item['Size']} GB {volume}, {item.get('State', '')}", usd
        if kind is SNAPSHOT:  # billed by the blocks that changed: EC2 does not report how many
            return f"of a disk of {item.get('VolumeSize', 0)} GB", None
        if kind is ADDRESS:
            usd = per_day(shipped("aws").rate(*ADDRESS_PRICE, self.name))
            return str(item.get("PublicIp", "")), usd
        return "", 0.0

    def _schedules(self) -> Iterator[Resource]:
        """The schedules. They have no tags: the tags are those of their role or of the machine they
        stop."""
        for name in list(self._schedule_names()):
            schedule = self.client("scheduler", "get_schedule", Name=name)
            tags = self._tags_of_role(str(schedule["Target"]["RoleArn"]).rpartition("/")[2])
            tags = tags or self._tags_of_target(str(schedule["Target"].get("Input", "")))
            calls = [Call("scheduler", "delete_schedule", {"Name": name})]
            made = self._made(SCHEDULE, f"default/{name}", tags, calls)
            details = str(schedule.get("ScheduleExpression", ""))
            yield replace(made, details=details, since=moment(schedule.get("CreationDate")))

    def _schedule_names(self) -> Iterator[str]:
        named = ("scheduler", "list_schedules", "Schedules.Name")
        return items(str, self.client, *named, NamePrefix=PREFIX)

    def _tags_of_role(self, role: str) -> dict[str, str]:
        return unless_refused(("NoSuchEntity",), partial(role_tags, self.client, role)) or {}

    def _tags_of_target(self, target: str) -> dict[str, str]:
        try:
            ids = json.loads(target)["InstanceIds"]
        except (ValueError, KeyError, TypeError):
            return {}
        shown = reservations(self.client, instance_id=ids)
        return next((i.tags for reservation in shown for i in reservation.Instances), {})


@dataclass(frozen=True)
class Global:
    """The services of all regions: IAM and S3."""

    client: AwsClient
    clients: Mapping[str, AwsClient]  # by region
    cloud: str = "aws"
    name: str = GLOBAL
    expected: bool = True

    def lists(self) -> Lists:
        """Roles and buckets."""
        return {ROLE: self._roles, BUCKET: self._buckets}

    def _roles(self) -> Iterator[Resource]:
        for name in list(role_names(self.client)):
            tags = role_tags(self.client, name)
            if not tags.keys() & {CLUSTER, ID}:
                continue
            role = self.client("iam", "get_role", RoleName=name)["Role"]
            calls = list(role_calls(self.client, name))
            remove = partial(_run, self.client, calls)
            made = Resource(ROLE, name, GLOBAL, "", typed(iter(calls), None), remove)
            yield with_tags(replace(made, since=moment(role.get("CreateDate"))), tags)

    def _buckets(self) -> Iterator[Resource]:
        for bucket in list(self._all_buckets()):
            name = str(bucket["Name"])
            tags = self._tags_of_bucket(name)
            if tags.keys() & {CLUSTER, ID}:
                yield with_tags(self._bucket(name, moment(bucket.get("CreationDate"))), tags)

    def _all_buckets(self) -> Iterator[Described]:
        named = ("s3", "list_buckets", "Buckets", "ContinuationToken")
        return items(Any, self.client, *named, MaxBuckets=1000)

    def _tags_of_bucket(self, name: str) -> dict[str, str]:
        # The policy of somebody else's bucket may deny it.
        codes = UNTAGGED if name.startswith(PREFIX) else (*UNTAGGED, "AccessDenied")
        read = partial(self.client, "s3", "get_bucket_tagging", Bucket=name)
        return tags_of({"Tags": (unless_refused(codes, read) or {}).get("TagSet")})

    def _bucket(self, name: str, since: str) -> Resource:
        answer = self.client("s3", "get_bucket_location", Bucket=name)
        region = str(answer.get("LocationConstraint") or WITHOUT_LOCATION)
        store = S3(self.clients.get(region, self.client), name)
        contents = count_objects(store)
        return Resource(
            BUCKET,
            name,
            region,
            describe_contents(contents),
            _ends_bucket(name, region, contents.versions),
            partial(_remove_bucket, store),
            since,
            bucket_per_day("aws", region, contents),
        )


def _run(client: AwsClient, calls: list[Call], _with_content: bool) -> None:
    for call in calls:
        call.run(client)


def _remove_bucket(store: S3, with_content: bool) -> None:
    if with_content:
        Bucket(store).empty()
    store.call("delete_bucket")


def _ends_bucket(name: str, region: str, versions: int) -> str:
    """The commands that remove a bucket: no command of S3 removes the old versions too."""
    bucket = {"Bucket": name}
    remove = Call("s3", "delete_bucket", bucket).typed(region)
    if not versions:
        return remove
    list_versions = Call("s3", "list_object_versions", bucket).typed(region) + QUERY
    remove_version = Call("s3", "delete_object", bucket).typed(region) + VERSION
    return f"{list_versions} | while {READ}; do {remove_version}; done && {remove}"


def with_tags(resource: Resource, tags: Mapping[str, str]) -> Resource:
    """The resource with what its tags say."""
    return replace(
        resource,
        cluster=tags.get(CLUSTER),
        cluster_id=tags.get(ID),
        stack=tags.get(STACK),
        owner=tags.get(OWNER),
    )


def moment(value: Any) -> str:
    """A time of the AWS SDK, an object or its text, for people; empty for None."""
    if isinstance(value, str):
        value = times.moment(value)
    return times.shown(value) if isinstance(value, datetime) else ""
