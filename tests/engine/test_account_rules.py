"""What IAM and an account's own policies allow, as the stand-in evaluates them: the real engine."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError
from engine.aws import OnAws
from standins.aws.account import IMAGE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_the_hosts_may_do_what_a_run_does_and_nothing_else(aws: OnAws) -> None:
    aws.stack.config(count=1, data_buckets="s3://images/cassava").up().ended(0)
    bucket = "arn:aws:s3:::" + aws.stack.output()["cluster"]["bucket"].removeprefix("s3://")
    iam = aws.cloud.client("iam")
    (profile,) = iam.list_instance_profiles()["InstanceProfiles"]
    (role,) = profile["Roles"]

    def may(action: str, resource: str, **context: str) -> bool:
        entries = [
            {"ContextKeyName": f"s3:{key}", "ContextKeyValues": [value], "ContextKeyType": "string"}
            for key, value in context.items()
        ]
        found = iam.simulate_principal_policy(
            PolicySourceArn=role["Arn"],
            ActionNames=[f"s3:{action}"],
            ResourceArns=[resource],
            ContextEntries=entries,
        )["EvaluationResults"]
        return [one["EvalDecision"] for one in found] == ["allowed"]

    run, wheel = f"{bucket}/runs/r1/result.json", f"{bucket}/wheels/k/wheel.json"
    assert may("ListBucket", bucket) and may("GetObject", wheel) and may("GetObject", run)
    assert all(may(f"PutObject{more}", run) for more in ("", "Tagging"))
    assert may("AbortMultipartUpload", run)
    assert not may("PutObject", wheel) and not may("PutObject", f"{bucket}/data/x")
    assert not any(may(action, run) for action in ("DeleteObject", "DeleteObjectVersion"))
    assert not may("PutBucketPolicy", bucket) and not may("GetObject", "arn:aws:s3:::other/x")
    data = "arn:aws:s3:::images"
    assert may("GetObject", f"{data}/cassava/1.jpg") and not may("GetObject", f"{data}/other/1.jpg")
    assert may("ListBucket", data, prefix="cassava/1") and not may("ListBucket", data, prefix="o/")
    assert not may("PutObject", f"{data}/cassava/1.jpg")


def test_an_account_that_demands_tags_at_launch_launches_ours(aws: OnAws) -> None:
    aws.cloud.extra.demanded = {"railhead:owner", "railhead:cluster", "railhead:id"}
    ec2 = aws.cloud.client("ec2")
    with pytest.raises(ClientError, match="UnauthorizedOperation"):
        ec2.run_instances(ImageId=IMAGE, MinCount=1, MaxCount=1)
    aws.stack.config(count=1, bucket=False).up().ended(0)
    assert len(aws.running()) == 1
    aws.cloud.extra.demanded = {"cost-centre"}
    refused = aws.stack.config(count=2).up().ended(1, "UnauthorizedOperation")
    assert "fab up --stack g4dn" in refused.text and len(aws.existing()) == 1
