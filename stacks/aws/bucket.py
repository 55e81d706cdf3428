"""The bucket of a cluster: results, logs and checkpoints."""

from __future__ import annotations

import json

import pulumi
from pulumi_aws import s3

from railhead.documents.runs.manifest import SHORT_LIVED

from ..component import computed
from ..component.logical_names import named
from ..component.parts import Part, keeping, plus, unique
from ..config.settings import ClusterConfig

OLD_VERSIONS_DAYS = 7
OLD_CHECKPOINTS_DAYS = 1  # they are gigabytes, and are overwritten many times a day
UPLOADS_DAYS = 2


class Bucket(Part):
    """A private, encrypted, versioned bucket in the machines' region, and its settings. `pulumi
    destroy` does not empty it, and AWS refuses to remove a bucket with objects. So all other
    resources are created after it and removed before it. Its settings are removed together with it,
    so that a bucket that remains keeps them."""

    def __init__(self, config: ClusterConfig, opts: pulumi.ResourceOptions) -> None:
        super().__init__("aws:Bucket", "bucket", opts)
        self.bucket = _bucket(config, self.inner)
        self.settings = pulumi.ResourceOptions(parent=self.bucket, deleted_with=self.bucket)
        _restrict(self)
        _encrypt(self)
        _lifecycle(self, _versioning(self))
        self.register_outputs({"bucket": self.bucket.id})


def _bucket(config: ClusterConfig, opts: pulumi.ResourceOptions) -> s3.Bucket:
    """The bucket. Its name is kept, unless the config has one."""
    # checkov:skip=CKV_AWS_18: access logs need a second bucket, and nothing reads them
    # checkov:skip=CKV_AWS_144: a copy in another region doubles the cost; `fab fetch` has a copy
    # checkov:skip=CKV2_AWS_62: nothing uses events
    return s3.Bucket(
        named(opts, "results"),
        bucket=computed.bucket_name(config) or unique("railhead", config.name),
        force_destroy=False,
        opts=opts if config.bucket_name else keeping(opts, "bucket"),
    )


def tls_only(arn: str) -> dict[str, object]:
    """The policy that denies every request without TLS."""
    refusal = {
        "Sid": "OnlyWithTLS",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": [arn, f"{arn}/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return {"Version": "2012-10-17", "Statement": [refusal]}


def _restrict(part: Bucket) -> None:
    """No public access, and TLS only."""
    block = s3.BucketPublicAccessBlock(
        part.named("not-public"),
        bucket=part.bucket.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=part.settings,
    )
    # AWS does not accept a policy and a public access block at the same moment.
    s3.BucketPolicy(
        part.named("tls-only"),
        bucket=part.bucket.id,
        policy=part.bucket.arn.apply(lambda arn: json.dumps(tls_only(arn))),
        opts=plus(part.settings, depends_on=[block]),
    )


def _encrypt(part: Bucket) -> None:
    """With S3's own keys: a KMS key costs, and needs permissions that the hosts do not have."""
    default = s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
        # checkov:skip=CKV_AWS_145: a KMS key costs, and needs permissions that hosts do not have
        sse_algorithm="AES256"
    )
    s3.BucketServerSideEncryptionConfiguration(
        part.named("encryption"),
        bucket=part.bucket.id,
        rules=[
            s3.BucketServerSideEncryptionConfigurationRuleArgs(
                apply_server_side_encryption_by_default=default
            )
        ],
        opts=part.settings,
    )


def _versioning(part: Bucket) -> s3.BucketVersioning:
    return s3.BucketVersioning(
        part.named("versions"),
        bucket=part.bucket.id,
        versioning_configuration=s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
        opts=part.settings,
    )


def _lifecycle(part: Bucket, versioning: s3.BucketVersioning) -> None:
    """Removes old versions, those of checkpoints earlier, and the parts of unfinished uploads."""
    old, old_checkpoints = (
        s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(noncurrent_days=days)
        for days in (OLD_VERSIONS_DAYS, OLD_CHECKPOINTS_DAYS)
    )
    key, value = SHORT_LIVED
    checkpoint = s3.BucketLifecycleConfigurationRuleFilterTagArgs(key=key, value=value)
    unfinished = s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
        days_after_initiation=UPLOADS_DAYS
    )
    s3.BucketLifecycleConfiguration(
        part.named("lifecycle"),
        bucket=part.bucket.id,
        rules=[
            s3.BucketLifecycleConfigurationRuleArgs(
                id="old-versions-and-abandoned-uploads",
                status="Enabled",
                filter=s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                noncurrent_version_expiration=old,
                abort_incomplete_multipart_upload=unfinished,
            ),
            s3.BucketLifecycleConfigurationRuleArgs(
                id="old-checkpoints",
                status="Enabled",
                filter=s3.BucketLifecycleConfigurationRuleFilterArgs(tag=checkpoint),
                noncurrent_version_expiration=old_checkpoints,
            ),
        ],
        opts=plus(part.settings, depends_on=[versioning]),
    )
