"""The role of the hosts: read the cluster's bucket, write runs into it, and nothing else.

A host reads its own tags from its metadata, which needs no permission. It has no permission to
stop machines: it powers itself off.
"""

from __future__ import annotations

import json

import pulumi
from pulumi_aws import iam, s3

from stacks.settings import ClusterConfig


def instance_profile(
    config: ClusterConfig, bucket: s3.Bucket, opts: pulumi.ResourceOptions
) -> iam.InstanceProfile:
    """The instance profile of the hosts."""
    role = iam.Role(
        f"railhead-{config.name}-host",
        description=f"Hosts of the cluster {config.name}",
        assume_role_policy=json.dumps(trust("ec2.amazonaws.com")),
        opts=opts,
    )
    rights = iam.RolePolicy(
        f"{config.name}-bucket",
        role=role.id,
        policy=bucket.arn.apply(lambda arn: json.dumps(bucket_permissions(arn))),
        opts=opts,
    )
    return iam.InstanceProfile(
        f"railhead-{config.name}-host",
        role=role.name,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[rights])),
    )


def bucket_permissions(bucket: str) -> dict[str, object]:
    """On one bucket: list, read, and write below runs/. Not delete: a run cannot remove results.
    Not write elsewhere: later machines install the wheels that are stored there."""
    write = ["s3:PutObject", "s3:AbortMultipartUpload"]
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
