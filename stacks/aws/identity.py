"""The role of the hosts: read the cluster's bucket, write runs into it, read `data_buckets`.

A host reads its own tags from its metadata, which needs no permission. It has no permission to
stop machines: it powers itself off.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pulumi
from pulumi_aws import iam, s3

from railhead.documents.uri import BucketUri

from ..component import computed
from ..component.logical_names import named
from ..component.parts import keeping, plus, unique
from ..config.settings import ClusterConfig


def instance_profile(
    config: ClusterConfig, bucket: s3.Bucket | None, opts: pulumi.ResourceOptions
) -> iam.InstanceProfile | None:
    """The instance profile of the hosts; None if they have nothing to read or write."""
    if not bucket and not config.data_buckets:
        return None
    role = iam.Role(
        named(opts, "role"),
        name=unique("railhead", config.name, "host"),
        description=f"Hosts of the cluster {config.name}",
        assume_role_policy=json.dumps(trust("ec2.amazonaws.com")),
        force_detach_policies=True,  # also a policy of a killed `up` that the state lacks
        opts=keeping(opts, "name"),
    )
    rights = []
    if bucket:
        policy = bucket.arn.apply(lambda arn: json.dumps(bucket_permissions(arn)))
        rights.append(_rights("bucket", role, policy, opts))
    if config.data_buckets:
        prefixes = pulumi.Output.all(*[prefix for _, prefix in computed.data_buckets(config)])
        data = prefixes.apply(lambda known: json.dumps(data_permissions(known)))
        rights.append(_rights("data", role, data, opts))
    ready = plus(opts, depends_on=rights)
    return iam.InstanceProfile(
        named(opts, "profile"),
        name=unique("railhead", config.name, "host"),
        role=role.name,
        opts=keeping(ready, "name"),
    )


def _rights(
    name: str, role: iam.Role, policy: pulumi.Input[str], opts: pulumi.ResourceOptions
) -> pulumi.Resource:
    return iam.RolePolicy(named(opts, name), role=role.id, policy=policy, opts=opts)


def data_permissions(prefixes: Sequence[BucketUri]) -> dict[str, object]:
    """List and read below each prefix, and nothing else, not even the names of other objects."""
    statements: list[dict[str, object]] = []
    for prefix in prefixes:
        bucket = f"arn:aws:s3:::{prefix.bucket}"
        objects = [f"{bucket}/{prefix.folder}*"]
        if prefix.prefix:
            objects.insert(0, f"{bucket}/{prefix.prefix}")
        below: dict[str, object] = {"StringLike": {"s3:prefix": [f"{prefix.prefix}/*"]}}
        listing: dict[str, object] = {"Condition": below} if prefix.prefix else {}
        statements += [
            {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket], **listing},
            {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": objects},
        ]
    return {"Version": "2012-10-17", "Statement": statements}


def bucket_permissions(bucket: str) -> dict[str, object]:
    """On one bucket: list, read, and write below runs/, with tags, by which the bucket's rules
    recognise checkpoints. No delete: a run cannot remove results. No write elsewhere: later
    machines install the wheels that are stored there, and train on the data below data/, which the
    operator uploads."""
    write = ["s3:PutObject", "s3:PutObjectTagging", "s3:AbortMultipartUpload"]
    return {
        "Version": "2012-10-17",
        "Statement": [
            {"Effect": "Allow", "Action": ["s3:ListBucket"], "Resource": [bucket]},
            {"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": [f"{bucket}/*"]},
            {"Effect": "Allow", "Action": write, "Resource": [f"{bucket}/runs/*"]},
        ],
    }


def trust(service: str, **condition: object) -> dict[str, object]:
    """The policy that lets an AWS service assume a role, with an optional condition."""
    statement: dict[str, object] = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    if condition:
        statement["Condition"] = condition
    return {"Version": "2012-10-17", "Statement": [statement]}
