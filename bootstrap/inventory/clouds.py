"""The registry of clouds: the properties that all hosts of a cloud share.

A new cloud is one entry here, a folder in `bootstrap/clouds` and a folder in `stacks`. Code asks
for a property, never for a cloud's name. Modules of a cloud are named, not imported: their SDK is
loaded when the cloud is used.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CloudKind:
    """Properties of a cloud's hosts.

    `instances` is "module:class" of its machines (`clouds.base.Cloud`), None where hosts are
    neither started nor stopped by us. `scheme` is that of its bucket addresses, and `bucket` the
    "module:function" that opens one. `in_cloud`: virtual machines that a stack made for one
    cluster; system changes are allowed there and addresses change at a restart. `this_machine`:
    all hosts share the machine that commands are typed on.
    """

    instances: str | None = None
    scheme: str | None = None
    bucket: str | None = None
    in_cloud: bool = False
    this_machine: bool = False


AD_HOC = "hosts"  # ad-hoc hosts: given by --hosts, not made by a stack
CLOUDS = {
    "aws": CloudKind(
        instances="bootstrap.clouds.aws.instances:Aws",
        scheme="s3",
        bucket="bootstrap.clouds.aws.s3:open_bucket",
        in_cloud=True,
    ),
    "gcp": CloudKind(
        instances="bootstrap.clouds.gcp.instances:Gcp",
        scheme="gs",
        bucket="bootstrap.clouds.gcp.gcs:open_bucket",
        in_cloud=True,
    ),
    "local": CloudKind(instances="bootstrap.clouds.local.instances:Local", this_machine=True),
    AD_HOC: CloudKind(),
}
