"""Checkov over the clusters of the sample stacks: no failed check but those skipped with a reason.

What a skip is about stands in the code beside it, `# checkov:skip=ID: reason`. Severities need
an account of theirs, so no check counts less than another. A scan of nothing passes as well:
every resource's type is counted, and clusters made worse on purpose have to be found.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import yaml
from places import ROOT
from standins.environments import Unfetched

from stacks.config.settings import of_project, read
from tests.stacks.aws import world as aws
from tests.stacks.gcp import world as gcp
from tests.stacks.mocks import Made, make
from tests.stacks.plan import altered, plan, without
from tests.stacks.scan import Finding, Skip, findings_of, python, skips

Change = Callable[[Made], Made]
CONFIG = {"owner": "ann", "ssh_cidrs": "203.0.113.7/32"}
# Of these types alone checkov says nothing: they are no risk, or a check of another type asks
# for them (WORSE has those).
SILENT = {
    "aws_default_security_group",
    "aws_iam_instance_profile",
    "aws_internet_gateway",
    "aws_key_pair",
    "aws_placement_group",
    "aws_route_table_association",
    "aws_s3_bucket_server_side_encryption_configuration",
    "aws_s3_bucket_versioning",
    "aws_vpc_endpoint",
    "google_service_account",
}
# The one check of these is skipped.
ONLY_SKIPPED = {"aws_scheduler_schedule", "aws_subnet"}

CLUSTERS: dict[str, tuple[str, dict[str, str]]] = {
    "aws-p3": ("aws-p3", {}),
    "aws-g4dn": ("aws-g4dn", {}),
    "aws-spot-without-bucket": ("aws-g4dn", {"spot": "true", "bucket": "false"}),
    "aws-existing-network": ("aws-g4dn", {"network": "vpc-0a1b2c3d"}),
    "aws-data-without-bucket": ("aws-g4dn", {"bucket": "false", "data_buckets": "s3://b-1/d"}),
    "gcp-t4": ("gcp-t4", {}),
    "gcp-data": ("gcp-t4", {"data_buckets": "gs://b-1/d,gs://b-2"}),
    "gcp-spot-with-os-login": (
        "gcp-t4",
        {"spot": "true", "oslogin": "true", "ssh_user": "ann_example_com"},
    ),
    "gcp-ubuntu-without-bucket": ("gcp-t4", {"image": "ubuntu-2204", "bucket": "false"}),
    "gcp-existing-network": ("gcp-t4", {"network": "n-1"}),
}


def worse(kind: str, **inputs: Any) -> Change:
    return lambda made: altered(made, kind, **inputs)


def lacking(kind: str) -> Change:
    return lambda made: without(made, kind)


def metadata(key: str, value: str) -> Change:
    def change(made: Made) -> Made:
        now = made.every(gcp.INSTANCE)[0].inputs["metadata"]
        return altered(made, gcp.INSTANCE, metadata={**now, key: value})

    return change


def disk(made: Made) -> Made:
    now = made.every(aws.INSTANCE)[0].inputs["rootBlockDevice"]
    return altered(made, aws.INSTANCE, rootBlockDevice={**now, "encrypted": False})


def all_of(*changes: Change) -> Change:
    return lambda made: reduce(lambda so_far, change: change(so_far), changes, made)


INGRESS = "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule"
BLOCK = "aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock"
VERSIONING = "aws:s3/bucketVersioning:BucketVersioning"
RIGHTS = "aws:iam/rolePolicy:RolePolicy"
SCHEDULE = "aws:scheduler/schedule:Schedule"
ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}
# What is done to a cluster, and the check that must fail for it.
WORSE: dict[str, dict[str, Change]] = {
    "aws-g4dn": {
        "CKV_AWS_24": worse(INGRESS, cidrIpv4="0.0.0.0/0", fromPort=22, toPort=22),
        "CKV_AWS_8": disk,
        "CKV_AWS_79": worse(aws.INSTANCE, metadataOptions={"httpTokens": "optional"}),
        "CKV_AWS_53": worse(BLOCK, blockPublicAcls=False),
        "CKV_AWS_56": worse(BLOCK, restrictPublicBuckets=False),
        "CKV_AWS_21": worse(VERSIONING, versioningConfiguration={"status": "Suspended"}),
        "CKV_AWS_62": worse(
            RIGHTS, policy=json.dumps({"Version": "2012-10-17", "Statement": [ANYTHING]})
        ),
    },
    "aws-p3": {
        "CKV2_AWS_6": lacking(BLOCK),
        "CKV2_AWS_12": lacking("aws:ec2/defaultSecurityGroup:DefaultSecurityGroup"),
        "CKV_AWS_21": lacking(VERSIONING),
    },
    "gcp-t4": {
        "CKV_GCP_2": worse(gcp.FIREWALL, sourceRanges=["0.0.0.0/0"]),
        "CKV_GCP_29": worse(gcp.BUCKET, uniformBucketLevelAccess=False),
        "CKV_GCP_78": worse(gcp.BUCKET, versioning={"enabled": False}),
        "CKV_GCP_114": worse(gcp.BUCKET, publicAccessPrevention="inherited"),
        "CKV_GCP_28": worse(gcp.MEMBER, member="allUsers"),
        "CKV_GCP_32": metadata("block-project-ssh-keys", "FALSE"),
        "CKV_GCP_35": metadata("serial-port-enable", "TRUE"),
        "CKV_GCP_39": worse(gcp.INSTANCE, shieldedInstanceConfig={"enableVtpm": False}),
        "CKV_GCP_74": worse(gcp.SUBNET, privateIpGoogleAccess=False),
    },
}


def cluster(sample: str, changes: Mapping[str, str], folder: Path) -> Made:
    """What the program makes of a sample's settings, with what a person has to add."""
    there = yaml.safe_load((ROOT / f"Pulumi.{sample}.yaml").read_text())["config"]
    key = folder / "key.pub"
    key.write_text(aws.KEY)
    values = {**of_project(there, "railhead"), **CONFIG, "public_key_file": str(key), **changes}
    if values["cloud"] == "gcp":
        settings = read({"project": "p-12345", **values}, stack=sample)
        return make(gcp.cluster(settings), gcp.world())
    there = aws.world(subnets={"us-east-1a": ["subnet-1"]})
    return make(aws.program(read(values, stack=sample)), there)


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """The clusters, made."""
    folder = tmp_path_factory.mktemp("keys")
    return {name: cluster(*how, folder) for name, how in CLUSTERS.items()}


@pytest.fixture(scope="module")
def findings(
    shared_caches: Path, clusters: dict[str, Made], tmp_path_factory: pytest.TempPathFactory
) -> list[Finding]:
    """What checkov says of all; RAILHEAD_CHECKOV=required makes its absence an error."""
    try:
        python()
    except Unfetched as error:
        if os.environ.get("RAILHEAD_CHECKOV") == "required":
            raise
        pytest.skip(f"checkov cannot be fetched: {error}")
    clusters = {name: dateless(made) for name, made in clusters.items()}
    plans = {name: plan(made) for name, made in clusters.items()}
    for name, changes in WORSE.items():
        plans[f"{name}-worse"] = plan(all_of(*changes.values())(clusters[name]))
    return findings_of(plans, tmp_path_factory.mktemp("plans"))


def dateless(made: Made) -> Made:
    """The same today and tomorrow: findings are kept by what was scanned."""
    if SCHEDULE not in made.kinds:
        return made
    return altered(made, SCHEDULE, scheduleExpression="at(2031-02-03T04:05:06)")


def of(findings: list[Finding], plan: str) -> list[Finding]:
    return [finding for finding in findings if finding.plan == plan]


@pytest.fixture(scope="module")
def skipped() -> dict[str, Skip]:
    """The skips in the code, by id."""
    return {skip.check: skip for skip in skips(ROOT / "stacks")}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLUSTERS)
def test_no_check_fails_but_those_skipped(
    name: str, findings: list[Finding], skipped: dict[str, Skip]
) -> None:
    wrong = [f for f in of(findings, name) if not f.passed and f.check not in skipped]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.slow
def test_every_skip_has_its_finding(findings: list[Finding], skipped: dict[str, Skip]) -> None:
    failed = {f.check for f in findings if f.plan in CLUSTERS and not f.passed}
    stale = [f"{skip.file}: {skip.check}" for skip in skipped.values() if skip.check not in failed]
    assert skipped and not stale, stale


def test_a_skip_stands_once_and_with_its_cloud() -> None:
    skipped = skips(ROOT / "stacks")
    assert len({skip.check for skip in skipped}) == len(skipped)
    for skip in skipped:
        assert skip.check.split("_")[1].lower() == Path(skip.file).parts[0], skip


@pytest.mark.slow
@pytest.mark.parametrize("name", CLUSTERS)
def test_every_type_is_judged(
    name: str, clusters: dict[str, Made], findings: list[Finding]
) -> None:
    """An empty scan passes: as many types as are there, and each with a check that it stood."""
    there = {
        resource["type"]
        for resource in plan(clusters[name])["planned_values"]["root_module"]["resources"]
    }
    judged = {finding.kind for finding in of(findings, name)}
    passed = {finding.kind for finding in of(findings, name) if finding.passed}
    assert there - judged == there & SILENT
    assert judged - passed <= ONLY_SKIPPED


@pytest.mark.slow
@pytest.mark.parametrize(("name", "check"), [(name, id) for name in WORSE for id in WORSE[name]])
def test_what_is_made_worse_is_found(name: str, check: str, findings: list[Finding]) -> None:
    before = {finding.check for finding in of(findings, name) if not finding.passed}
    after = {finding.check for finding in of(findings, f"{name}-worse") if not finding.passed}
    assert check in after - before


@pytest.mark.parametrize(
    "text", ["checkov:skip=CKV_AWS_1", "checkov:skip=CKV_AWS_1: ", "checkov:skip: x"]
)
def test_a_skip_without_its_reason_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"x = 1\n    # {text}\n")
    with pytest.raises(ValueError, match=r"a\.py: write # checkov:skip=ID: REASON"):
        skips(tmp_path)


def test_a_type_without_a_name_in_a_plan_is_an_error() -> None:
    strange = replace(gcp.made().one(gcp.BUCKET), type="gcp:a/b:B")
    with pytest.raises(KeyError, match="gcp:a/b:B"):
        plan(Made([strange]))
