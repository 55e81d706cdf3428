"""The bucket of a cluster: results, logs and checkpoints."""

from __future__ import annotations

import pulumi
from pulumi_gcp import storage

from ..component import computed
from ..component.logical_names import named
from ..component.parts import Part, keeping, unique
from ..config.settings import ClusterConfig
from .labels import labels
from .zone import Location

OLD_VERSIONS_DAYS = 7
OLD_CHECKPOINTS_DAYS = 1  # they are gigabytes, and are overwritten many times a day
UPLOADS_DAYS = 2


class Bucket(Part):
    """A private bucket in the machines' region."""

    def __init__(
        self, config: ClusterConfig, location: Location, opts: pulumi.ResourceOptions
    ) -> None:
        super().__init__("gcp:Bucket", "bucket", opts)
        self.bucket = _bucket(config, location, self.inner)
        self.register_outputs({"bucket": self.bucket.name})


def _bucket(
    config: ClusterConfig, location: Location, opts: pulumi.ResourceOptions
) -> storage.Bucket:
    """The bucket. Google encrypts all objects with its own keys. Its name is kept, unless the
    config has one."""
    # checkov:skip=CKV_GCP_62: access logs need a second bucket, and nothing reads them
    return storage.Bucket(
        named(opts, "results"),
        name=computed.bucket_name(config) or unique("railhead", config.name),
        project=location.project,
        location=location.region.upper(),
        labels=labels(config),
        storage_class="STANDARD",
        uniform_bucket_level_access=True,
        public_access_prevention="enforced",
        versioning=storage.BucketVersioningArgs(enabled=True),
        # Old versions are the backup. Google's soft delete would keep, and bill, the same
        # objects again, also after the bucket is removed.
        soft_delete_policy=storage.BucketSoftDeletePolicyArgs(retention_duration_seconds=0),
        lifecycle_rules=_rules(),
        # `pulumi destroy` does not empty it: Google refuses to remove a bucket with objects.
        force_destroy=False,
        opts=opts if config.bucket_name else keeping(opts, "name"),
    )


def _rules() -> list[storage.BucketLifecycleRuleArgs]:
    """Removes old versions, those of checkpoints earlier, and the parts of unfinished uploads. Only
    checkpoints have a customTime: when they were uploaded."""
    old = storage.BucketLifecycleRuleConditionArgs(days_since_noncurrent_time=OLD_VERSIONS_DAYS)
    old_checkpoints = storage.BucketLifecycleRuleConditionArgs(
        with_state="ARCHIVED", days_since_custom_time=OLD_CHECKPOINTS_DAYS
    )
    unfinished = storage.BucketLifecycleRuleConditionArgs(age=UPLOADS_DAYS)
    return [
        storage.BucketLifecycleRuleArgs(
            action=storage.BucketLifecycleRuleActionArgs(type=kind), condition=condition
        )
        for kind, condition in (
            ("Delete", old),
            ("Delete", old_checkpoints),
            ("AbortIncompleteMultipartUpload", unfinished),
        )
    ]
