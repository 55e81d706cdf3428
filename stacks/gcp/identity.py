"""The service account of the machines, with permissions on one bucket."""

from __future__ import annotations

import hashlib

import pulumi
from pulumi_gcp import serviceaccount, storage

from stacks.gcp.labels import description
from stacks.gcp.zone import Location
from stacks.settings import ClusterConfig

# Objects: list and read; below runs/ also write and remove, which an overwrite needs. Nothing on
# the bucket itself or its permissions.
READS = "roles/storage.objectViewer"
WRITES = "roles/storage.objectUser"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


def account_id(config: ClusterConfig) -> str:
    """6 to 30 characters from the cluster's name, which may itself have 30."""
    digest = hashlib.sha256(config.name.encode()).hexdigest()[:8]
    return f"rh-{config.name[:18].rstrip('-')}-{digest}"


def service_account(
    config: ClusterConfig, location: Location, bucket: storage.Bucket, parent: pulumi.Resource
) -> serviceaccount.Account:
    """A service account that can read this bucket, write below runs/, and nothing else.

    Not elsewhere: later machines install the wheels that are stored there.
    """
    account = serviceaccount.Account(
        f"{config.name}-hosts",
        project=location.project,
        account_id=account_id(config),
        display_name=f"Hosts of {config.name}",
        description=description(config),
        opts=pulumi.ResourceOptions(parent=parent),
    )
    opts = pulumi.ResourceOptions(parent=parent)
    member = account.email.apply(lambda email: f"serviceAccount:{email}")
    storage.BucketIAMMember(
        f"{config.name}-hosts-read", bucket=bucket.name, role=READS, member=member, opts=opts
    )
    storage.BucketIAMMember(
        f"{config.name}-hosts-write",
        bucket=bucket.name,
        role=WRITES,
        member=member,
        condition=storage.BucketIAMMemberConditionArgs(
            title="runs only", expression=bucket.name.apply(below_runs)
        ),
        opts=opts,
    )
    return account


def below_runs(bucket: str) -> str:
    """The condition that an object of this bucket is below runs/."""
    return f'resource.name.startsWith("projects/_/buckets/{bucket}/objects/runs/")'
