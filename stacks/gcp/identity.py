"""Access of the machines: their service account, and the buckets that it may use."""

from __future__ import annotations

import hashlib

import pulumi
from pulumi_gcp import serviceaccount, storage

from railhead.documents.uri import BucketUri

from ..component import computed
from ..component.logical_names import named
from ..component.parts import Part, keeping
from ..config.settings import ClusterConfig
from .zone import Location

# Objects: list and read; below runs/ also write and remove, which an overwrite needs. Nothing on
# the bucket itself or its permissions.
READS = "roles/storage.objectViewer"
WRITES = "roles/storage.objectUser"
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"


def account_id(name: str, own_id: str) -> str:
    """6 to 30 characters from the cluster's name, which may itself have 30, and its id: no other
    stack has it."""
    return f"rh-{name[:13].rstrip('-')}-{own_id}"


class Access(Part):
    """A service account that can read the cluster's bucket, write below its runs/, and read
    `data_buckets`. `account` is its address; None if the hosts have nothing to read or write."""

    def __init__(
        self,
        config: ClusterConfig,
        location: Location,
        bucket: storage.Bucket | None,
        own_id: pulumi.Output[str],
        opts: pulumi.ResourceOptions,
    ) -> None:
        super().__init__("gcp:Access", "access", opts)
        self.account: pulumi.Output[str] | None = None
        if bucket or config.data_buckets:
            self.account = _account(config, location, own_id, self.inner).email
            member = self.account.apply(lambda email: f"serviceAccount:{email}")
            if bucket:
                _own_bucket(bucket, member, self.inner)
            for name, prefix in computed.data_buckets(config):
                _data(name, prefix, member, self.inner)
        self.register_outputs({"account": self.account})


def _account(
    config: ClusterConfig,
    location: Location,
    own_id: pulumi.Output[str],
    opts: pulumi.ResourceOptions,
) -> serviceaccount.Account:
    """An existing account is this stack's own, left by a killed `up`: it is reused."""
    return serviceaccount.Account(
        named(opts, "hosts"),
        project=location.project,
        account_id=own_id.apply(lambda cluster: account_id(config.name, cluster)),
        create_ignore_already_exists=True,
        display_name=f"Hosts of {config.name}",
        opts=keeping(opts, "accountId", "description", "displayName"),
    )


def _own_bucket(
    bucket: storage.Bucket, member: pulumi.Output[str], opts: pulumi.ResourceOptions
) -> None:
    """Read everywhere, write below runs/. No write elsewhere: later machines install the wheels
    that are stored there, and train on the data below data/, which the operator uploads."""
    storage.BucketIAMMember(
        named(opts, "hosts-read"), bucket=bucket.name, role=READS, member=member, opts=opts
    )
    storage.BucketIAMMember(
        named(opts, "hosts-write"),
        bucket=bucket.name,
        role=WRITES,
        member=member,
        condition=storage.BucketIAMMemberConditionArgs(
            title="runs only", expression=bucket.name.apply(below_runs)
        ),
        opts=opts,
    )


def _data(
    name: str, prefix: computed.Data, member: pulumi.Output[str], opts: pulumi.ResourceOptions
) -> None:
    """One member of one role in a bucket that is not ours: a binding or a policy would remove
    the rights of others."""
    storage.BucketIAMMember(
        named(opts, f"data-{name}"),
        bucket=computed.mapped(prefix, lambda known: known.bucket),
        role=READS,
        member=member,
        condition=storage.BucketIAMMemberConditionArgs(
            title=computed.mapped(prefix, _title), expression=computed.mapped(prefix, below)
        ),
        opts=opts,
    )


def _title(prefix: BucketUri) -> str:
    """A different title for each prefix: the provider uses it as a part of the member's id."""
    return f"data {hashlib.sha256(str(prefix).encode()).hexdigest()[:8]}"


def below(prefix: BucketUri) -> str:
    """The condition that a request reads or lists below the prefix, or reads the one object."""
    objects = f"projects/_/buckets/{prefix.bucket}/objects/"
    if not prefix.prefix:
        bucket = f"projects/_/buckets/{prefix.bucket}"
        return f'resource.name == "{bucket}" || resource.name.startsWith("{objects}")'
    return (
        f'resource.name == "{objects}{prefix.prefix}" || '
        f'resource.name.startsWith("{objects}{prefix.prefix}/") || '
        f'api.getAttribute("storage.googleapis.com/objectListPrefix", "")'
        f'.startsWith("{prefix.prefix}/")'
    )


def below_runs(bucket: str) -> str:
    """The condition that an object of this bucket is below runs/."""
    return f'resource.name.startsWith("projects/_/buckets/{bucket}/objects/runs/")'
