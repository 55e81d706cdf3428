"""A stack that an earlier version made, and one that gets another name: nothing is replaced.

tests/cases/stacks has states that two commits made on the engine and the stand-ins: bb5e36f, before
logical names were constants and a cluster had parts; b06f49e, before they had the cluster's name.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engine.aws import OnAws, tags
from engine.gcp import OnGcp
from engine.stack import Done, Stack
from places import CASES

OWN = ("pulumi:", "railhead:")  # types of which no cloud knows


def take_over(stack: Stack, state: str) -> dict[str, str]:
    """Give the stack a state of an earlier version; the ids of its resources in the cloud."""
    path = CASES / "stacks" / state
    stack.run("stack", "import", "--stack", stack.name, "--file", str(path)).ended(0)
    return ids(stack)


def ids(stack: Stack) -> dict[str, str]:
    """The URN of each resource of a cloud by its type and id."""
    made = [r for r in stack.resources() if r.get("custom") and not r["type"].startswith(OWN)]
    return {f"{r['type']} {r['id']}": r["urn"] for r in made}


def changes(done: Done) -> set[tuple[str, str, str]]:
    """What happens to resources of a cloud: the operation, the type, the name."""
    steps = [s for s in done.ended(0).steps if not s.type.startswith(OWN)]
    return {(s.op, s.type, s.name) for s in steps}


NEW_PARTS = {"bb5e36f": {"Access", "Bucket", "Host", "Network"}, "b06f49e": set()}


def check_all_is_kept(stack: Stack, cloud: str, commit: str) -> None:
    """A preview replaces, creates and deletes nothing in the cloud; the parts of the cluster are
    new, if the commit had none."""
    before = take_over(stack, f"{commit}-{cloud}.json")
    preview = stack.preview().ended(0)
    assert {op for op, _, _ in changes(preview)} <= {"update"}, changes(preview)
    parts = [step for step in preview.steps if step.type.startswith("railhead:")]
    kinds = {step.type.rpartition(":")[2] for step in parts if step.op == "create"}
    assert kinds == NEW_PARTS[commit]
    kept = [step.name for step in preview.steps if step.op not in ("create", "update")]
    assert not [name for name in kept if "cluster" in name], "no value of the state is lost"
    assert len(before) > 10


@pytest.mark.parametrize("commit", NEW_PARTS)
def test_a_stack_on_aws_of_an_earlier_version_is_kept(aws: OnAws, commit: str) -> None:
    aws.stack.config(ssh_cidrs="203.0.113.7/32,2001:db8::/64", host_keys="injected")
    aws.stack.config(data_buckets="s3://images/v1,s3://images/v2")
    check_all_is_kept(aws.stack, "aws", commit)


@pytest.mark.parametrize("commit", NEW_PARTS)
def test_a_stack_on_google_cloud_of_an_earlier_version_is_kept(gcp: OnGcp, commit: str) -> None:
    gcp.stack.config(bucket=True, data_buckets="gs://images/v1", ssh_cidrs="203.0.113.7/32")
    check_all_is_kept(gcp.stack, "gcp", commit)


def test_a_renamed_stack_on_aws_keeps_all(aws: OnAws) -> None:
    """Its name is the default of the cluster's name."""
    stack = aws.stack
    stack.config(count=1, data_buckets="s3://images/v1").up().ended(0)
    before = ids(stack)
    check_no_machine_with_results_is_replaced(aws)
    stack.run("stack", "rename", "other", "--stack", "g4dn").ended(0)
    stack.name = "other"
    operations = {op for op, _, _ in changes(stack.up())}
    assert operations == {"update"} and ids(stack).keys() == before.keys()
    assert [tags(one)["Name"] for one in aws.instances()] == ["other-1"]
    stack.up("--expect-no-changes").ended(0)
    check_one_host_can_be_the_target(aws)


def check_no_machine_with_results_is_replaced(aws: OnAws) -> None:
    """By `fab up`, which reads what the preview would replace."""
    machines = aws.running()
    results = str(aws.stack.folder / "nowhere")
    record = Path(aws.stack.env["HOME"], ".railhead/clusters/g4dn/runs/r1.json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"run_id": "r1", "cluster": "g4dn", "results": results}))
    aws.stack.config(spot=True, bucket=False)
    done = aws.stack.fab("up", "--yes", "--stack", "g4dn")
    done.ended(2, "results of r1 were not all fetched: g4dn-1 would be", "fab fetch --run r1")
    assert aws.running() == machines
    aws.stack.config(spot=None, bucket=None)


def check_one_host_can_be_the_target(aws: OnAws) -> None:
    aws.stack.config(count=2).up().ended(0)
    aws.stack.config(deadline_hours=4, machine_type="g4dn.2xlarge")
    done = aws.stack.up("--target", "**::cluster-host-2").ended(0)
    assert {step.name for step in done.steps if not step.type.startswith(OWN)} == {"cluster-host-2"}
    sizes = {tags(one)["Name"]: one["InstanceType"] for one in aws.instances()}
    assert sizes == {"other-1": "g4dn.xlarge", "other-2": "g4dn.2xlarge"}


def test_another_name_on_google_cloud_keeps_all(gcp: OnGcp) -> None:
    """Also the names of the machines, which Google cannot change."""
    stack = gcp.stack
    stack.config(bucket=True, data_buckets="gs://images/v1", count=1).up().ended(0)
    before = ids(stack)
    operations = {op for op, _, _ in changes(stack.config(name="other").up())}
    assert operations == {"update"} and ids(stack) == before
    assert gcp.instances() == ["t4-1"]
    stack.up("--expect-no-changes").ended(0)
