"""`fab leaks` on AWS (moto): two owners, a stack that lives, a bucket with old versions."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from standins.aws.account import client
from standins.aws.whole_cluster import tags, whole_cluster
from standins.leak_reports import LIVES, HasStacks, Run, ids, of
from standins.pulumi_command import PulumiCommand, exported, on_aws, resource

from bootstrap.clouds.aws import areas
from bootstrap.clouds.aws import client as aws
from bootstrap.clouds.base import Refused
from bootstrap.errors import UsageError
from bootstrap.inventory import local_state, stack_records
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.inventory.stack_records import StackRecord
from bootstrap.leaks.command import leaks
from bootstrap.lifecycle import stack_machines
from railhead.documents.leaks import LEAKED, LIVING, OTHERS, RECORDED, UNKNOWN
from railhead.documents.options.hosts import LeaksOptions, TeardownOptions
from railhead.money.table import Rates

pytest.importorskip("moto", reason="scripts/setup --dev installs moto")
LOST, BOBS = "0a1b2c3d4e5f", "bbbbbbbbbbbb"
LISTED = {
    "machine", "disk", "snapshot", "address", "schedule", "role", "bucket", "network", "subnet",
    "internet gateway", "route table", "security group", "endpoint", "key pair",
    "placement group",
}  # fmt: skip


@pytest.fixture(autouse=True)
def world(
    no_cloud: None,
    aws_client: Callable[[str], Any],
    has_stacks: HasStacks,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two regions, and a stack `dev` that lives."""
    from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend

    regions = [r for r in RegionsAndZonesBackend.regions if r.name in ("us-east-1", "us-west-2")]
    monkeypatch.setattr(RegionsAndZonesBackend, "regions", regions)
    has_stacks("dev")


def test_nothing_with_our_tags_ends_without_an_error(run: Run) -> None:
    report, error = run()
    assert error is None and report.resources == ()
    ok = [(area.cloud, area.name) for area in report.areas if area.state == "ok"]
    assert ok == [("aws", "us-east-1"), ("aws", "us-west-2"), ("aws", "all regions")]
    (skipped,) = (area for area in report.areas if area.state != "ok")
    assert (skipped.cloud, skipped.state) == ("gcp", "skipped")


def test_everything_is_listed_with_its_owner_stack_time_cost_and_command(run: Run) -> None:
    lost = whole_cluster(tags("gpu", "ann", LOST))
    report, error = run()
    assert error and error.code == 1 and "fab leaks --end --yes --owner ann" in error.hint
    assert lost.keys() == LISTED and ids(report, LEAKED) == lost
    rows = of(report, LEAKED)
    for row in rows.values():
        assert (row.cluster, row.stack, row.owner, row.cluster_id) == ("gpu", "gpu", "ann", LOST)
        assert row.end.startswith("aws ")
    assert all(rows[kind].since for kind in ("machine", "disk", "snapshot", "bucket", "role"))
    assert rows["machine"].usd_per_day == 12.624 and "g4dn.xlarge" in rows["machine"].details
    assert rows["disk"].usd_per_day == round((100 * 0.08 + 125 * 0.04) * 24 / 730, 4)
    assert rows["snapshot"].usd_per_day is None and rows["network"].usd_per_day == 0
    assert rows["bucket"].details.startswith("2 objects with their old versions")


@pytest.mark.parametrize(
    ("state", "schedule", "marked"),
    [
        ("running", "at(2031-01-01T00:00:00)", False),
        ("running", "at(2021-01-01T00:00:00)", True),
        ("running", None, True),
        ("stopped", None, False),
    ],
)
def test_a_machine_that_runs_without_a_deadline_of_the_cloud_is_marked(
    run: Run, state: str, schedule: str | None, marked: bool
) -> None:
    lost = whole_cluster(tags("gpu", "ann", LOST))
    other = whole_cluster(tags("other", "ann", BOBS), "us-west-2")  # it has one
    if state == "stopped":
        client("ec2").stop_instances(InstanceIds=[lost["machine"]])
    name, scheduler = lost["schedule"].removeprefix("default/"), client("scheduler")
    kept = scheduler.get_schedule(Name=name)
    scheduler.delete_schedule(Name=name)
    if schedule:
        fields = {key: kept[key] for key in ("Name", "FlexibleTimeWindow", "Target")}
        scheduler.create_schedule(**fields, ScheduleExpression=schedule)
    details = {row.id: row.details for row in run()[0].resources}
    assert ("NO DEADLINE" in details[lost["machine"]]) is marked
    assert "NO DEADLINE" not in details[other["machine"]]


def test_a_schedule_whose_role_is_gone_is_of_the_stack_of_its_machine(run: Run) -> None:
    lost = whole_cluster(tags("gpu", "ann", LOST))
    lives = whole_cluster(tags("gpu", "ann", LIVES), "us-west-2")
    iam = client("iam")
    for name in (lost["role"], lives["role"]):
        iam.remove_role_from_instance_profile(InstanceProfileName=name, RoleName=name)
        iam.delete_role_policy(RoleName=name, PolicyName="p")
        iam.delete_role(RoleName=name)
    report, _ = run()
    assert of(report, LEAKED)["schedule"].cluster_id == LOST
    assert ids(report, LEAKED)["schedule"] == lost["schedule"]
    assert ids(report, LIVING)["schedule"] == lives["schedule"]


def test_without_pulumi_the_next_command_installs_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was the same command again."""
    monkeypatch.setenv("PATH", str(tmp_path))
    _, error = run()
    assert error and error.message == "there is no pulumi on PATH"
    assert str(error.hint).startswith("https://www.pulumi.com/docs/install/")


def test_a_price_that_is_in_no_table_is_not_guessed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(areas, "shipped", lambda cloud: Rates(()))
    whole_cluster(tags("gpu", "ann", LOST), "us-west-2")
    rows = of(run()[0], LEAKED)
    assert rows["machine"].usd_per_day is None and rows["machine"].place.startswith("us-west-2")
    assert "--region us-west-2" in rows["machine"].end


def test_stacks_records_and_other_owners_differ_by_id(run: Run) -> None:
    """By id alone: all have one name."""
    lives = whole_cluster(tags("gpu", "ann", LIVES))
    bobs = whole_cluster(tags("gpu", "bob", BOBS), "us-west-2")
    report, error = run()
    assert error is None
    assert ids(report, LIVING) == lives and ids(report, OTHERS) == bobs
    ends = {row.end for row in of(report, LIVING).values()}
    assert ends == {"fab teardown --destroy --stack dev"}
    host = Host("gpu-1", "10.77.0.4", id=bobs["machine"])
    local_state.save_cluster(Inventory("gpu", (host,), cloud="aws", cluster_id=BOBS))
    assert ids(run()[0], RECORDED) == bobs


def used_here(machine: str, stack: str) -> None:
    """Record a cluster with the id LOST on this computer, as a command that used it."""
    host = Host("gpu-1", "10.77.0.4", id=machine)
    inventory = Inventory("gpu", (host,), cloud="aws", stack=stack, cluster_id=LOST)
    local_state.save_cluster(inventory)


@pytest.mark.parametrize(
    ("owner", "state", "stack", "backend", "wrong"),
    [
        ("ann", "running", "gpu", "file:///mine", True),
        ("ann", "stopped", "gpu", "file:///mine", False),
        ("bob", "running", "gpu", "file:///mine", False),
        ("ann", "running", LOST, "file:///mine", False),
        ("ann", "running", "gpu", "s3://ours", False),
    ],
    ids=["lost", "stopped", "of another owner", "adopted", "in another backend"],
)
def test_a_machine_that_runs_and_that_only_a_record_knows_ends_with_1(
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
    state: str,
    stack: str,
    backend: str,
    wrong: bool,
) -> None:
    machine = whole_cluster(tags("gpu", owner, LOST))["machine"]
    if state == "stopped":
        client("ec2").stop_instances(InstanceIds=[machine])
    used_here(machine, stack)
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///mine")
    record = StackRecord(LOST, "gpu", "gpu", "aws", "us-east-1", backend=backend)
    stack_records.save(record)
    report, error = run()
    assert ids(report, RECORDED)["machine"] == machine
    assert (error is not None) == wrong
    if error:
        assert "running, in no stack: 1 resource" in error.message
        assert error.hint.startswith(f"fab adopt {LOST}")


def exist(region: str) -> list[str]:
    """What is left in a region, of what was created."""
    ec2 = client("ec2", region)
    running = ec2.describe_instances(
        Filters=[{"Name": "instance-state-name", "Values": ["running"]}]
    )["Reservations"]
    return [
        *(one["InstanceId"] for reservation in running for one in reservation["Instances"]),
        *(vpc["VpcId"] for vpc in ec2.describe_vpcs()["Vpcs"] if not vpc["IsDefault"]),
        *(one["Name"] for one in client("scheduler", region).list_schedules()["Schedules"]),
    ]


def test_end_removes_what_leaked_of_this_owner_and_nothing_else(run: Run) -> None:
    lost, lives = whole_cluster(tags("gpu", "ann", LOST)), whole_cluster(tags("b", "ann", LIVES))
    bobs = whole_cluster(tags("gpu", "bob", BOBS), "us-west-2")
    before = exist("us-west-2")
    assert len(before) == 3
    report, error = run(end=True, yes=True)
    assert error and ids(report, LEAKED) == {"bucket": lost["bucket"]}, "it has objects"
    assert {*report.ended} == {*lost.values()} - {lost["bucket"]} | {lost["role"]}
    assert exist("us-west-2") == before and ids(report, OTHERS) == bobs
    assert ids(report, LIVING) == lives and lost["machine"] not in exist("us-east-1")
    report, error = run(end=True, yes=True, with_bucket=True)
    assert error is None and report.ended == (lost["bucket"],)
    assert ids(report, OTHERS) == bobs and ids(report, LIVING) == lives


def test_without_yes_nothing_is_removed(run: Run) -> None:
    lost = whole_cluster(tags("gpu", "ann", LOST))
    report, error = run(end=True)
    assert error and ids(report, LEAKED) == lost and report.ended == ()


def test_a_login_name_of_many_computers_removes_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two people who work as root, each in a container, would remove each other's machines."""
    lost = whole_cluster(tags("gpu", "root", LOST))
    monkeypatch.setenv("LOGNAME", "root")
    with pytest.raises(UsageError, match="--end needs --owner") as refused:
        leaks(LeaksOptions(end=True), TeardownOptions(yes=True), None, None)
    assert refused.value.hint.startswith("fab leaks --end --owner root")
    report, error = run("root")
    assert ids(report, LEAKED) == lost
    assert error and "fab leaks --end --yes --owner root" in error.hint


def test_a_stack_whose_first_up_is_in_progress_lives(run: Run, pulumi: PulumiCommand) -> None:
    """Pulumi Cloud counts its resources when the update has ended."""
    new = whole_cluster(tags("gpu", "ann", LOST))
    listed = json.dumps([{"name": "new", "resourceCount": 0, "updateInProgress": True}])
    state = exported(*on_aws(cluster_id=LOST))
    pulumi.answers(stack_ls=f"echo {shlex.quote(listed)}", stack_export=state)
    report, error = run(end=True, yes=True)
    assert error is None and ids(report, LIVING) == new


def test_a_stack_in_another_backend_is_kept(
    run: Run, pulumi: PulumiCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This computer has read its state there. In its own backend it has leaked: it is lost."""
    made = whole_cluster(tags("gpu", "ann", LOST))
    pulumi.answers(stack_export=exported(*on_aws(made["machine"], cluster_id=LOST)))
    monkeypatch.setenv("PULUMI_BACKEND_URL", "file:///mine")
    stack_machines.find("gpu")
    pulumi.answers(stack_ls="echo '[]'")
    assert ids(run()[0], LEAKED) == made
    monkeypatch.setenv("PULUMI_BACKEND_URL", "s3://ours")
    report, _ = run(end=True, yes=True)
    assert report.ended == () and ids(report, RECORDED) == made


def test_what_has_no_owner_is_listed_and_stays(run: Run) -> None:
    nobodys = tags("gpu", "", LOST)
    del nobodys["railhead:owner"]
    made = whole_cluster(nobodys)
    report, error = run(end=True, yes=True)
    assert error and ids(report, LEAKED) == made and report.ended == ()


def test_if_a_stack_cannot_be_read_nothing_counts_as_leaked_and_nothing_is_removed(
    run: Run, has_stacks: HasStacks
) -> None:
    lost = whole_cluster(tags("gpu", "ann", LOST))
    has_stacks("dev", export="echo 'error: the disk is gone' >&2; exit 1")
    report, error = run(end=True, yes=True)
    assert error and ids(report, UNKNOWN) == lost and report.ended == ()
    assert "stack dev" in report.unread[0] and "the disk is gone" in report.unread[0]


def test_a_region_that_refuses_is_named_and_only_machines_are_removed_then(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine in the region that was not listed may need the role of its deadline."""
    lost = whole_cluster(tags("gpu", "ann", LOST))
    real = aws._call

    def refuse(client: Any, service: str, operation: str, parameters: Any) -> Any:
        if operation == "describe_volumes" and client("ec2").meta.region_name == "us-west-2":
            raise Refused("AWS refuses describe_volumes: UnauthorizedOperation", "x")
        return real(client, service, operation, parameters)

    monkeypatch.setattr(aws, "_call", refuse)
    report, error = run(end=True, yes=True)
    (failed,) = (area for area in report.areas if area.state == "failed")
    assert failed.name == "us-west-2" and "describe_volumes" in failed.reason
    assert error and "us-west-2" in error.message
    assert report.ended == (lost["machine"],)
    assert {*ids(report, LEAKED)} == LISTED - {"machine"}


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "Throttling"])
def test_only_a_forbidden_region_that_nothing_names_is_no_failure(
    run: Run, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = aws._call

    def refuse(client: Any, service: str, operation: str, parameters: Any) -> Any:
        if operation == "describe_instances" and client("ec2").meta.region_name == "us-west-2":
            raise Refused(f"AWS refuses describe_instances: {code}", code)
        return real(client, service, operation, parameters)

    monkeypatch.setattr(aws, "_call", refuse)
    is_forbidden = code == "UnauthorizedOperation"
    report, error = run()
    (area,) = (area for area in report.areas if area.name == "us-west-2")
    assert area.state == ("skipped" if is_forbidden else "failed") and code in area.reason
    assert (error is None) == is_forbidden
    host = Host("gpu-1", "10.77.0.4", id="i-1")
    local_state.save_cluster(Inventory("gpu", (host,), cloud="aws", region="us-west-2"))
    assert run()[1], "a record names it"


def test_a_region_of_a_record_that_is_not_enabled_is_named(run: Run) -> None:
    host = Host("gpu-1", "10.77.0.4", id="i-1")
    cluster = Inventory("gpu", (host,), cloud="aws", region="af-south-1", cluster_id=BOBS)
    local_state.save_cluster(cluster)
    report, error = run()
    (failed,) = (area for area in report.areas if area.name == "af-south-1")
    assert failed.is_missing and error and "af-south-1" in error.message


def test_a_stack_in_another_account_is_not_passed_over(run: Run, has_stacks: HasStacks) -> None:
    arn = "arn:aws:ec2:us-east-1:999999999999:instance/i-1"
    machine = resource("aws:ec2/instance:Instance", "g4dn-1", id="i-1", outputs={"arn": arn})
    has_stacks("dev", export=exported(*on_aws(), machine))
    report, error = run()
    (failed,) = (area for area in report.areas if area.is_missing)
    assert failed.name == "account 999999999999" and error and "999999999999" in error.message


def test_without_credentials_a_cloud_that_a_stack_uses_is_a_failure(
    run: Run, has_stacks: HasStacks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    report, error = run()
    assert error and "aws failed" in error.message
    has_stacks()
    assert run()[1] is None


def typed(command: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Commands of the `aws` CLI as calls, by botocore's own description of each service."""
    for part_of_line in command.split(" && "):
        program, service, operation, *words = shlex.split(part_of_line)
        assert program == "aws"
        service = service.replace("s3api", "s3")
        meta = client(service).meta
        name = meta.method_to_api_mapping[operation.replace("-", "_")]
        shape = meta.service_model.operation_model(name).input_shape
        flags = {re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", m).lower(): m for m in shape.members}
        values: dict[str, Any] = {}
        for flag, value in zip(words[::2], words[1::2], strict=True):
            if flag != "--region":
                member = flags[flag.removeprefix("--")]
                is_list = shape.members[member].type_name == "list"
                values[member] = [value] if is_list else value
        yield service, operation.replace("-", "_"), values


def test_the_commands_that_are_shown_remove_everything(run: Run) -> None:
    lost = whole_cluster(tags("gpu", "ann", LOST))
    rows = of(run()[0], LEAKED)
    for kind in ("machine", *(kind for kind in rows if kind not in ("machine", "bucket"))):
        for service, operation, values in typed(rows[kind].end):
            getattr(client(service), operation)(**values)
    assert ids(run()[0], LEAKED) == {"bucket": lost["bucket"]}
