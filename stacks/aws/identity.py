"""Who the hosts are to AWS: a role that can read the cluster's bucket and write runs there, and
nothing else.

A host reads its own tags from its metadata, which takes no right. It has none over machines: it
stops itself from inside.
"""

from __future__ import annotations

import json

import pulumi
from pulumi_aws import iam, s3

from stacks.settings import ClusterConfig


def identity(
    config: ClusterConfig, kept: s3.Bucket, opts: pulumi.ResourceOptions
) -> iam.InstanceProfile:
    """The profile with which hosts start."""
    role = iam.Role(
        f"railhead-{config.name}-host",
        description=f"Hosts of the cluster {config.name}",
        assume_role_policy=json.dumps(trust("ec2.amazonaws.com")),
        opts=opts,
    )
    rights = iam.RolePolicy(
        f"{config.name}-bucket",
        role=role.id,
        policy=kept.arn.apply(lambda arn: json.dumps(rights_on(arn))),
        opts=opts,
    )
    return iam.InstanceProfile(
        f"railhead-{config.name}-host",
        role=role.name,
        opts=pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(depends_on=[rights])),
    )


def rights_on(bucket: str) -> dict[str, object]:
    """On one bucket: list, read, and write below runs/. Not delete: what a run has written, a run
    cannot lose. Not elsewhere: machines of later days install the wheels that are kept there."""
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
    """The policy by which a service of AWS may take a role, under a condition if there is one."""
    statement: dict[str, object] = {
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }
    if condition:
        statement["Condition"] = condition
    return {"Version": "2012-10-17", "Statement": [statement]}
