"""The bucket of a cluster: results, logs and checkpoints."""

from __future__ import annotations

import json

import pulumi
from pulumi_aws import s3

from railhead.documents.manifest import SHORT_LIVED

from ..config.settings import ClusterConfig

OLD_VERSIONS_DAYS = 7
OLD_CHECKPOINTS_DAYS = 1  # they are gigabytes, and are overwritten many times a day
UPLOADS_DAYS = 2


def make_bucket(config: ClusterConfig, parent: pulumi.Resource) -> s3.Bucket:
    """A private, encrypted, versioned bucket in the machines' region.

    `pulumi destroy` does not empty it, and AWS refuses to remove a bucket with objects. So all
    other resources are created after it and removed before it. Its settings are removed together
    with it, so that a bucket that remains keeps them.
    """
    # checkov:skip=CKV_AWS_18: access logs need a second bucket, and nothing reads them
    # checkov:skip=CKV_AWS_144: a copy in another region doubles the cost; `fab fetch` has a copy
    # checkov:skip=CKV2_AWS_62: nothing uses events
    bucket = s3.Bucket(
        f"railhead-{config.name}",
        bucket=config.bucket_name,
        force_destroy=False,
        opts=pulumi.ResourceOptions(parent=parent),
    )
    opts = pulumi.ResourceOptions(parent=bucket, deleted_with=bucket)
    closed = _closed(config, bucket, opts)
    _encrypted(config, bucket, opts)
    # AWS does not take a policy and a public access block at the same moment.
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[closed]))
    s3.BucketPolicy(
        f"{config.name}-tls-only",
        bucket=bucket.id,
        policy=bucket.arn.apply(lambda arn: json.dumps(tls_only(arn))),
        opts=after,
    )
    versioned = s3.BucketVersioning(
        f"{config.name}-versions",
        bucket=bucket.id,
        versioning_configuration=s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
        opts=opts,
    )
    _lifecycle(config, bucket, versioned, opts)
    return bucket


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


def _closed(
    config: ClusterConfig, bucket: s3.Bucket, opts: pulumi.ResourceOptions
) -> s3.BucketPublicAccessBlock:
    return s3.BucketPublicAccessBlock(
        f"{config.name}-not-public",
        bucket=bucket.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=opts,
    )


def _encrypted(config: ClusterConfig, bucket: s3.Bucket, opts: pulumi.ResourceOptions) -> None:
    """With S3's own keys: a KMS key costs, and needs permissions that the hosts do not have."""
    default = s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
        # checkov:skip=CKV_AWS_145: a KMS key costs, and needs permissions that hosts do not have
        sse_algorithm="AES256"
    )
    s3.BucketServerSideEncryptionConfiguration(
        f"{config.name}-encryption",
        bucket=bucket.id,
        rules=[
            s3.BucketServerSideEncryptionConfigurationRuleArgs(
                apply_server_side_encryption_by_default=default
            )
        ],
        opts=opts,
    )


def _lifecycle(
    config: ClusterConfig,
    bucket: s3.Bucket,
    versioned: s3.BucketVersioning,
    opts: pulumi.ResourceOptions,
) -> None:
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
        f"{config.name}-lifecycle",
        bucket=bucket.id,
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
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[versioned])),
    )
