"""The bucket of a cluster: results, logs and checkpoints."""

from __future__ import annotations

import json

import pulumi
from pulumi_aws import s3

from stacks.settings import ClusterConfig

OLD_VERSIONS_DAYS = 7  # a checkpoint is written many times a day, and each is whole gigabytes
UPLOADS_DAYS = 2


def bucket(config: ClusterConfig, parent: pulumi.Resource) -> s3.Bucket:
    """A private, encrypted, versioned bucket in the machines' region.

    A destroy does not empty it: AWS refuses to remove a bucket with objects, which is why all
    else is made after it, and so removed before it. Its settings go with it and not before it,
    so a bucket that stays keeps them.
    """
    # checkov:skip=CKV_AWS_18: access logs need a second bucket, and nobody here reads them
    # checkov:skip=CKV_AWS_144: a copy in another region doubles the bill; `fab fetch` copies to you
    # checkov:skip=CKV2_AWS_62: nothing waits for events: who wants results asks for them
    kept = s3.Bucket(
        f"railhead-{config.name}",
        bucket=config.bucket_name,
        force_destroy=False,
        opts=pulumi.ResourceOptions(parent=parent),
    )
    opts = pulumi.ResourceOptions(parent=kept, deleted_with=kept)
    closed = _closed(config, kept, opts)
    _encrypted(config, kept, opts)
    # AWS does not take a policy and a public access block at the same moment.
    after = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[closed]))
    s3.BucketPolicy(
        f"{config.name}-tls-only",
        bucket=kept.id,
        policy=kept.arn.apply(lambda arn: json.dumps(tls_only(arn))),
        opts=after,
    )
    versioned = s3.BucketVersioning(
        f"{config.name}-versions",
        bucket=kept.id,
        versioning_configuration=s3.BucketVersioningVersioningConfigurationArgs(status="Enabled"),
        opts=opts,
    )
    _lifecycle(config, kept, versioned, opts)
    return kept


def tls_only(arn: str) -> dict[str, object]:
    """The policy that refuses everybody who does not use TLS."""
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
    config: ClusterConfig, kept: s3.Bucket, opts: pulumi.ResourceOptions
) -> s3.BucketPublicAccessBlock:
    return s3.BucketPublicAccessBlock(
        f"{config.name}-not-public",
        bucket=kept.id,
        block_public_acls=True,
        block_public_policy=True,
        ignore_public_acls=True,
        restrict_public_buckets=True,
        opts=opts,
    )


def _encrypted(config: ClusterConfig, kept: s3.Bucket, opts: pulumi.ResourceOptions) -> None:
    """With S3's own keys: one of KMS would cost, and need rights that the hosts do not have."""
    default = s3.BucketServerSideEncryptionConfigurationRuleApplyServerSideEncryptionByDefaultArgs(
        # checkov:skip=CKV_AWS_145: a key of KMS costs, and needs rights that hosts do not have
        sse_algorithm="AES256"
    )
    s3.BucketServerSideEncryptionConfiguration(
        f"{config.name}-encryption",
        bucket=kept.id,
        rules=[
            s3.BucketServerSideEncryptionConfigurationRuleArgs(
                apply_server_side_encryption_by_default=default
            )
        ],
        opts=opts,
    )


def _lifecycle(
    config: ClusterConfig,
    kept: s3.Bucket,
    versioned: s3.BucketVersioning,
    opts: pulumi.ResourceOptions,
) -> None:
    """Old versions go, and the parts of uploads that nobody finished."""
    old = s3.BucketLifecycleConfigurationRuleNoncurrentVersionExpirationArgs(
        noncurrent_days=OLD_VERSIONS_DAYS
    )
    left = s3.BucketLifecycleConfigurationRuleAbortIncompleteMultipartUploadArgs(
        days_after_initiation=UPLOADS_DAYS
    )
    s3.BucketLifecycleConfiguration(
        f"{config.name}-lifecycle",
        bucket=kept.id,
        rules=[
            s3.BucketLifecycleConfigurationRuleArgs(
                id="old-versions-and-abandoned-uploads",
                status="Enabled",
                filter=s3.BucketLifecycleConfigurationRuleFilterArgs(prefix=""),
                noncurrent_version_expiration=old,
                abort_incomplete_multipart_upload=left,
            )
        ],
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[versioned])),
    )
