"""The registry of clouds: the properties that all hosts of a cloud share.

A new cloud is one entry here, a folder in `bootstrap/clouds` and a folder in `stacks`. Code checks
a property, never a cloud's name. A cloud's modules are given by name and imported when the cloud is
used, because its SDK loads slowly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.lazy import dataclass

CLOUDS_FOLDER = f"{__name__.removesuffix('.inventory.clouds')}.clouds"


@dataclass(frozen=True)
class StateTypes:
    """A cloud's types in Pulumi's state: its provider, a machine, a bucket, and a deadline that is
    a separate resource.

    `zone`, `address`, `peer_address`, `owner` and `seconds` (from its start until its cloud stops
    it) are the paths of these values in the outputs of a machine: keys and indexes, separated by
    dots. `stops` are the properties of a machine whose change makes its provider stop it.
    """

    machine: str
    provider: str | None = None
    bucket: str | None = None
    schedule: str | None = None
    zone: str = ""
    address: str = ""
    peer_address: str = ""
    owner: str = ""
    seconds: str = ""
    stops: frozenset[str] = frozenset()

    def stops_for(self, changed: Iterable[str]) -> bool:
        """Whether a change of these properties stops a machine."""
        return any(name.split(".")[0].split("[")[0] in self.stops for name in changed)

    def may_remain(self, kind: str) -> bool:
        """Whether a resource of this type belongs to a bucket, which stays if it has objects."""
        return self.bucket is not None and kind.startswith(self.bucket.partition("/")[0] + "/")


@dataclass(frozen=True)
class CloudKind:
    """Properties of a cloud's hosts.

    `instances` is the "module:class" that implements `clouds.base.Cloud`, None if Railhead
    neither starts nor stops hosts. `machines` is the "module:function" that lists the machines with
    Railhead's tags, of one region or, if `everywhere` is None, of all; `everywhere` lists those of
    all regions. `others` lists the resources with a stack's id that are not machines. `leftovers`
    removes those of them that a killed `up` left, `own_bucket` removes the empty bucket of a given
    name if it has the stack's id, and `deadlines` removes the cloud's own deadlines of machines.
    `examiner` is the "module:function" that checks whether a stack can be created, and `policy` the
    one that lists the rights for that. `prices` reads its own prices of a region, `spot_history`
    those of spot machines at each time, `bill` what it has billed. `areas` returns the areas in
    which everything with Railhead's tags can be listed. `scheme` is that of its bucket addresses,
    and `bucket` the "module:function" that opens a bucket. `host_key_source` is where its machines'
    keys can be read, and `deadline` the kind of its own deadlines. `state` has its types in
    Pulumi's state; None if no stack makes the hosts. `vendor` is in the DMI data of its machines.
    `in_cloud`: machines that a stack created for one cluster; system changes are allowed on them,
    and their addresses change at a restart. `this_machine`: all hosts run on the machine where
    commands are typed.
    """

    instances: str | None = None
    machines: str | None = None
    everywhere: str | None = None
    others: str | None = None
    leftovers: str | None = None
    own_bucket: str | None = None
    deadlines: str | None = None
    examiner: str | None = None
    policy: str | None = None
    prices: str | None = None
    spot_history: str | None = None
    bill: str | None = None
    areas: str | None = None
    scheme: str | None = None
    bucket: str | None = None
    host_key_source: Literal["guest-attributes", "console"] | None = None
    deadline: str = ""
    state: StateTypes | None = None
    vendor: str | None = None
    in_cloud: bool = False
    this_machine: bool = False


AD_HOC = "hosts"  # ad-hoc hosts: given by --hosts, not created by a stack
CLOUDS = {
    "aws": CloudKind(
        instances=f"{CLOUDS_FOLDER}.aws.instances:Aws",
        machines=f"{CLOUDS_FOLDER}.aws.machines:list_machines",
        everywhere=f"{CLOUDS_FOLDER}.aws.machines:list_everywhere",
        others=f"{CLOUDS_FOLDER}.aws.leftovers:list_ids",
        leftovers=f"{CLOUDS_FOLDER}.aws.leftovers:remove",
        own_bucket=f"{CLOUDS_FOLDER}.aws.leftovers:remove_bucket",
        deadlines=f"{CLOUDS_FOLDER}.aws.scheduler:remove",
        examiner=f"{CLOUDS_FOLDER}.aws.examiner:checks",
        policy=f"{CLOUDS_FOLDER}.aws.rights:policy",
        prices=f"{CLOUDS_FOLDER}.aws.prices:rows",
        spot_history=f"{CLOUDS_FOLDER}.aws.prices:spot_history",
        bill=f"{CLOUDS_FOLDER}.aws.bill:billed",
        areas=f"{CLOUDS_FOLDER}.aws.areas:areas",
        scheme=COMMON_FACTS["aws"].scheme,
        bucket=f"{CLOUDS_FOLDER}.aws.s3:open_bucket",
        host_key_source="console",
        deadline="scheduled-stop",
        state=StateTypes(
            provider="pulumi:providers:aws",
            machine="aws:ec2/instance:Instance",
            bucket="aws:s3/bucket:Bucket",
            schedule="aws:scheduler/schedule:Schedule",
            zone="availabilityZone",
            address="publicIp",
            peer_address="privateIp",
            owner="tagsAll.railhead:owner",
            stops=frozenset({"instanceType", "userData", "userDataBase64"}),
        ),
        vendor="amazon",
        in_cloud=True,
    ),
    "gcp": CloudKind(
        instances=f"{CLOUDS_FOLDER}.gcp.instances:Gcp",
        machines=f"{CLOUDS_FOLDER}.gcp.machines:list_machines",
        own_bucket=f"{CLOUDS_FOLDER}.gcp.gcs:remove_bucket",
        examiner=f"{CLOUDS_FOLDER}.gcp.examiner:checks",
        policy=f"{CLOUDS_FOLDER}.gcp.rights:policy",
        prices=f"{CLOUDS_FOLDER}.gcp.prices:rows",
        bill=f"{CLOUDS_FOLDER}.gcp.bill:billed",
        areas=f"{CLOUDS_FOLDER}.gcp.areas:areas",
        scheme=COMMON_FACTS["gcp"].scheme,
        bucket=f"{CLOUDS_FOLDER}.gcp.gcs:open_bucket",
        host_key_source="guest-attributes",
        deadline="max-run-duration",
        state=StateTypes(
            provider="pulumi:providers:gcp",
            machine="gcp:compute/instance:Instance",
            bucket="gcp:storage/bucket:Bucket",
            zone="zone",
            address="networkInterfaces.0.accessConfigs.0.natIp",
            peer_address="networkInterfaces.0.networkIp",
            owner="labels.railhead-owner",
            seconds="scheduling.maxRunDuration.seconds",
            stops=frozenset(
                {
                    "advancedMachineFeatures",
                    "enableDisplay",
                    "machineType",
                    "minCpuPlatform",
                    "networkInterfaces",
                    "scheduling",
                    "serviceAccount",
                    "shieldedInstanceConfig",
                }
            ),
        ),
        vendor="google",
        in_cloud=True,
    ),
    "local": CloudKind(
        instances=f"{CLOUDS_FOLDER}.local.instances:Local",
        state=StateTypes(machine="pulumi-python:dynamic/local:Host"),
        this_machine=True,
    ),
    AD_HOC: CloudKind(),
}
STATE_TYPES = tuple(kind.state for kind in CLOUDS.values() if kind.state)
