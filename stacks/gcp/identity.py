"""Who the machines are to Google Cloud: an account of their own, with rights on one bucket."""

from __future__ import annotations

import hashlib

import pulumi
from pulumi_gcp import serviceaccount, storage

from stacks.gcp.labels import description
from stacks.gcp.place import Place
from stacks.settings import ClusterConfig

# Objects: list, read, write, remove. Not the bucket itself and not who may use it.
ROLE = "roles/storage.objectUser"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


def account_id(config: ClusterConfig) -> str:
    """6 to 30 characters, of the cluster's name, which may be as long as all of that."""
    digest = hashlib.sha256(config.name.encode()).hexdigest()[:8]
    return f"rh-{config.name[:18].rstrip('-')}-{digest}"


def identity(
    config: ClusterConfig, place: Place, bucket: storage.Bucket, parent: pulumi.Resource
) -> serviceaccount.Account:
    """A service account that can use the objects of this bucket and nothing else."""
    account = serviceaccount.Account(
        f"{config.name}-hosts",
        project=place.project,
        account_id=account_id(config),
        display_name=f"Hosts of {config.name}",
        description=description(config),
        opts=pulumi.ResourceOptions(parent=parent),
    )
    storage.BucketIAMMember(
        f"{config.name}-hosts-objects",
        bucket=bucket.name,
        role=ROLE,
        member=account.email.apply(lambda email: f"serviceAccount:{email}"),
        opts=pulumi.ResourceOptions(parent=parent),
    )
    return account
