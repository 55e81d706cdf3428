"""What is peculiar to AWS: accounts, spot machines, schedules, keys on consoles, and its log.

test_contract.py has what every cloud does.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from places import CASES

boto3 = pytest.importorskip("boto3", reason="scripts/setup --stacks installs boto3")
moto = pytest.importorskip("moto", reason="scripts/setup --dev installs moto")

from standins.aws import moto_plus  # noqa: E402
from standins.aws.account import account, run_instances  # noqa: E402

from bootstrap.clouds import base  # noqa: E402
from bootstrap.clouds.aws.client import AwsClient, connect  # noqa: E402
from bootstrap.clouds.aws.instances import Aws, keys_on_console  # noqa: E402
from bootstrap.clouds.aws.machines import list_machines  # noqa: E402
from bootstrap.clouds.base import MISSING, Deadline, Refused, most_urgent  # noqa: E402
from bootstrap.clouds.machines import Place  # noqa: E402
from bootstrap.console import log  # noqa: E402
from bootstrap.errors import RailheadError, UsageError  # noqa: E402
from bootstrap.inventory import local_state  # noqa: E402
from bootstrap.inventory.document import from_document  # noqa: E402
from bootstrap.inventory.hosts import Inventory  # noqa: E402
from stacks.aws.schedule import rights_over  # noqa: E402

REGION, NAME, SCHEDULE = "us-east-1", "railhead-aws-g4dn", "railhead-aws-g4dn-stop"
ROLE = "arn:aws:iam::123456789012:role/stop"
GOLDEN = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))


@pytest.fixture
def aws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An AWS of its own, a person with credentials, and a home of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    with account():
        yield


def machines(count: int = 2, **options: Any) -> Inventory:
    """The golden cluster, with ids of machines that moto runs."""
    ids = [instance["InstanceId"] for instance in run_instances(count, **options)]
    hosts = tuple(replace(h, id=i) for h, i in zip(GOLDEN.hosts, ids, strict=False))
    return replace(GOLDEN, hosts=hosts, bucket=None, deadlines=(), cluster_id=None)


def schedule(
    end: datetime,
    ids: list[str | None],
    name: str = SCHEDULE,
    verb: str = "stop",
    role: str = ROLE,
) -> None:
    """A schedule as a stack makes it."""
    boto3.client("scheduler", region_name=REGION).create_schedule(
        Name=name,
        ScheduleExpression=f"at({end:%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={
            "Arn": f"arn:aws:scheduler:::aws-sdk:ec2:{verb}Instances",
            "RoleArn": role,
            "Input": json.dumps({"InstanceIds": ids}),
        },
    )


def schedules(inventory: Inventory, end: datetime, verb: str = "stop") -> None:
    """A schedule for each instance."""
    for host in inventory.hosts:
        schedule(end, [host.id], f"{NAME}-{host.id}", verb)


def only(deadlines: Mapping[str, Deadline]) -> Deadline:
    """The deadline of all machines, which is the same."""
    first, *others = deadlines.values()
    assert all((d.state, d.at) == (first.state, first.at) for d in others), deadlines
    return first


def later(hours: float) -> datetime:
    return (datetime.now(timezone.utc) + timedelta(hours=hours)).replace(microsecond=0)


def states(request: base.Cloud) -> list[str]:
    return [standing.state for standing in request.instance_states().values()]


def test_machines_without_a_public_address_are_reached_inside(aws: None) -> None:
    inventory = machines()
    for name, state in base.cloud_of(inventory).instance_states().items():
        assert state.serial == {host.name: host.id for host in inventory.hosts}[name]
    inside = tuple(replace(h, address=h.peer_address or "") for h in inventory.hosts)
    states = base.cloud_of(replace(inventory, hosts=inside)).instance_states()
    assert all(s.address and s.address.startswith(("10.", "172.")) for s in states.values())


def test_a_field_that_is_not_there_yet_is_no_error() -> None:
    bare = {"InstanceId": GOLDEN.hosts[0].id, "State": {"Name": "pending"}}
    other = {"InstanceId": GOLDEN.hosts[1].id, "State": {"Name": "beaming"}}
    values = {"Reservations": [{"Instances": [bare, other]}]}
    reported = Aws(GOLDEN, lambda *_, **__: values).instance_states()
    assert [(s.state, s.address) for s in reported.values()] == [
        ("starting", None),
        ("unknown", None),
    ]


def test_a_machine_is_gone_only_when_its_own_account_reports_so(aws: None) -> None:
    inventory = machines()
    unknown = replace(inventory.hosts[1], id="i-0000000000000dead")
    lost = replace(inventory, hosts=(inventory.hosts[0], unknown))
    assert states(base.cloud_of(lost)) == ["running", "gone"]

    only = replace(inventory, hosts=(unknown,))
    (local_state.cluster_folder(only.name) / "account").write_text("account 999999999999\n")
    (output,) = base.cloud_of(only).instance_states().values()
    assert output.state == "unknown"
    assert "not visible to account 123456789012" in output.reason
    assert "seen in account 999999999999" in output.reason
    (local_state.cluster_folder(only.name) / "account").unlink()
    assert states(base.cloud_of(only)) == ["unknown"]


def test_one_time_spot_machines_report_that_they_cannot_be_stopped(aws: None) -> None:
    options = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}
    inventory = machines(InstanceMarketOptions=options)
    cloud = base.cloud_of(inventory)
    assert all(
        "can terminate it, not stop it" in s.reason for s in cloud.instance_states().values()
    )
    with pytest.raises(UsageError, match="can terminate it, not stop it") as caught:
        cloud.stop()
    assert caught.value.hint.endswith("# terminates them, with their disks")
    assert states(cloud) == ["running", "running"]
    assert cloud.cannot_stop() == [h.name for h in inventory.hosts]
    cloud.terminate()
    assert {s.state for s in cloud.instance_states().values()} == {"gone"}
    assert cloud.cannot_stop() == []
    cloud.terminate()


def test_arming_enables_a_schedule_and_keeps_what_it_stops_and_its_role(aws: None) -> None:
    inventory = machines(1)
    end, host = later(1), inventory.chief
    schedules(inventory, end)
    scheduler, name = boto3.client("scheduler", region_name=REGION), f"{NAME}-{host.id}"
    before = scheduler.get_schedule(Name=name)
    keys = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    cloud = base.cloud_of(inventory)
    armed = only(cloud.deadlines())
    assert (armed.state, armed.at, armed.target) == ("armed", end, f"stops {host.id}")
    scheduler.update_schedule(**{key: before[key] for key in keys}, State="DISABLED")
    disabled = only(cloud.deadlines())
    assert (disabled.state, disabled.reason) == (MISSING, "the schedule is disabled")
    cloud.set_deadline(5)
    moved = only(cloud.deadlines())
    assert moved.state == "armed" and moved.at
    assert abs((moved.at - later(5)).total_seconds()) < 60
    assert scheduler.get_schedule(Name=name)["Target"] == before["Target"]
    assert before["Target"]["RoleArn"] == ROLE


def test_a_deadline_that_was_deleted_by_hand_is_missing_and_the_others_move(aws: None) -> None:
    inventory = machines()
    first, second = sorted(inventory.hosts, key=lambda host: str(host.id))  # as they are moved
    schedule(later(1), [second.id], f"{NAME}-{second.id}")
    cloud = base.cloud_of(inventory)
    deadlines = cloud.deadlines()
    assert [deadlines[host.name].state for host in (first, second)] == [MISSING, "armed"]
    assert most_urgent(deadlines.values()) == deadlines[first.name]
    with pytest.raises(RailheadError, match=f"{NAME}-{first.id}, .* is MISSING") as caught:
        cloud.set_deadline(2)
    assert caught.value.hint.startswith("fab up --refresh")
    moved = cloud.deadlines()[second.name].at
    assert moved and abs((moved - later(2)).total_seconds()) < 60


def test_a_schedule_that_cannot_succeed_is_missing_and_says_why(aws: None) -> None:
    inventory = machines()
    first, second = (host.id or "" for host in inventory.hosts)
    schedule(later(1), [first], f"{NAME}-{second}")
    gone = "i-0000000000000dead"
    schedule(later(1), [first, gone], f"{NAME}-{first}")
    reasons = [d.reason for d in base.cloud_of(inventory).deadlines().values()]
    assert reasons == [
        f"it also names {gone}, which no longer exists: EC2 refuses the call",
        f"the schedule does not stop {second}",
    ]


SPOT = {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}}


def test_a_schedule_of_a_spot_machine_has_to_terminate_it(aws: None) -> None:
    inventory = machines(InstanceMarketOptions=SPOT)
    schedules(inventory, later(1))
    deadline = only(base.cloud_of(inventory).deadlines())
    assert (
        deadline.state == MISSING
        and "can terminate a one-time spot machine, not stop it" in deadline.reason
    )
    for host in inventory.hosts:
        boto3.client("scheduler", region_name=REGION).delete_schedule(Name=f"{NAME}-{host.id}")
    schedules(inventory, later(1), "terminate")
    assert only(base.cloud_of(inventory).deadlines()).state == "armed"


def test_a_schedule_whose_role_may_not_stop_the_machine_is_missing(aws: None) -> None:
    """The role's policy asks for the tag, so a machine that lost it runs on."""
    inventory = machines(1)
    schedules(inventory, later(1))
    assert inventory.cluster_id is None and only(base.cloud_of(inventory).deadlines()).at
    inventory = replace(inventory, cluster_id="0a1b2c3d4e5f")
    deadline = only(base.cloud_of(inventory).deadlines())
    assert deadline.state == MISSING and "lost its tag railhead:id=0a1b2c3d4e5f" in deadline.reason
    tag = {"Key": "railhead:id", "Value": "0a1b2c3d4e5f"}
    boto3.client("ec2", region_name=REGION).create_tags(
        Resources=[inventory.hosts[0].id], Tags=[tag]
    )
    assert only(base.cloud_of(inventory).deadlines()).state == "armed"


INSTANCES = "arn:aws:ec2:us-east-1:123456789012:instance/*"
OWN_ID, OTHER_ID = "0a1b2c3d4e5f", "f" * 12
RIGHTS = {
    "as a stack makes it": (rights_over(INSTANCES, OWN_ID), "armed", ""),
    "no policy": (None, MISSING, "has not the right ec2:StopInstances: implicitDeny"),
    "of another cluster": (rights_over(INSTANCES, OTHER_ID), MISSING, "implicitDeny"),
    "of another region": (
        rights_over(INSTANCES.replace("us-east-1", "eu-west-1"), OWN_ID),
        MISSING,
        "implicitDeny",
    ),
    "another action": (
        {
            "Version": "2012-10-17",
            "Statement": {"Effect": "Allow", "Action": "ec2:StartInstances", "Resource": "*"},
        },
        MISSING,
        "implicitDeny",
    ),
    "denied": (
        {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Action": "ec2:*", "Resource": "*"},
                {"Effect": "Deny", "Action": ["ec2:Stop*"], "Resource": [INSTANCES]},
            ],
        },
        MISSING,
        "explicitDeny",
    ),
}


@pytest.mark.parametrize(("policy", "state", "reason"), RIGHTS.values(), ids=RIGHTS)
def test_a_schedule_is_armed_only_where_its_role_has_the_right(
    aws: None, policy: Mapping[str, object] | None, state: str, reason: str
) -> None:
    deadline = only(base.cloud_of(with_role(policy)).deadlines())
    assert deadline.state == state and reason in deadline.reason
    assert deadline.exists == (state == "armed"), "an `up` creates what is missing"


@pytest.mark.parametrize("right", ["ec2:StopInstances", "ec2:TerminateInstances"])
def test_a_schedule_that_terminates_a_machine_needs_the_right_to_that(
    aws: None, right: str
) -> None:
    statement = {"Effect": "Allow", "Action": right, "Resource": "*"}
    policy = {"Version": "2012-10-17", "Statement": statement}
    spot = with_role(policy, "terminate", InstanceMarketOptions=SPOT)
    deadline = only(base.cloud_of(spot).deadlines())
    if right == "ec2:TerminateInstances":
        assert deadline.state == "armed"
    else:
        reason = "has not the right ec2:TerminateInstances: implicitDeny"
        assert deadline.state == MISSING and reason in deadline.reason


def test_a_schedule_whose_role_is_gone_is_missing(aws: None) -> None:
    inventory = with_role(None)
    boto3.client("iam").delete_role(RoleName=ROLE_OF_STACK)
    deadline = only(base.cloud_of(inventory).deadlines())
    assert deadline.state == MISSING and f"{ROLE_OF_STACK} does not exist" in deadline.reason


def test_somebody_who_may_not_simulate_policies_gets_a_line_about_it(aws: None) -> None:
    """It is then neither known to be right, nor an error for a colleague with few rights."""
    inventory = with_role(None)
    moto_plus.extra.no_simulation = True
    deadline = only(base.cloud_of(inventory).deadlines())
    assert deadline.state == "armed" and "ec2:StopInstances is not known" in deadline.reason


ROLE_OF_STACK = "railhead-g4dn-deadline-1a2b3c4d"


def with_role(policy: Mapping[str, object] | None, verb: str = "stop", **options: Any) -> Inventory:
    """A machine of a stack, with a schedule whose role has this policy."""
    iam = boto3.client("iam")
    made = iam.create_role(RoleName=ROLE_OF_STACK, AssumeRolePolicyDocument="{}")
    if policy:
        document = json.dumps(policy)
        iam.put_role_policy(RoleName=ROLE_OF_STACK, PolicyName="own", PolicyDocument=document)
    inventory = replace(machines(1, **options), cluster_id=OWN_ID)
    (host,) = inventory.hosts
    tag = {"Key": "railhead:id", "Value": OWN_ID}
    boto3.client("ec2", region_name=REGION).create_tags(Resources=[host.id], Tags=[tag])
    schedule(later(1), [host.id], f"{NAME}-{host.id}", verb, made["Role"]["Arn"])
    return inventory


def scheduled(**options: Any) -> AwsClient:
    """An AWS that knows the machines of the golden document and this schedule."""
    ids = [h.id for h in GOLDEN.hosts]
    tags = [{"Key": "railhead:id", "Value": GOLDEN.cluster_id}]
    running = {"State": {"Name": "running"}, "Tags": tags}
    instances = [{"InstanceId": id, **running} for id in ids]
    target = {"Arn": TARGET, "Input": json.dumps({"InstanceIds": ids})}
    allowed = [{"EvalActionName": "ec2:StopInstances", "EvalDecision": "allowed"}]
    answer = {"Reservations": [{"Instances": instances}], "Target": target}
    answer["EvaluationResults"] = allowed
    return lambda *_, **__: answer | options


TARGET = "arn:aws:scheduler:::aws-sdk:ec2:stopInstances"


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ({"ScheduleExpression": "at(2026-01-01T00:00:00)"}, "past"),
        ({"ScheduleExpression": "rate(1 hour)"}, MISSING),
        ({}, MISSING),
        (
            {
                "ScheduleExpression": "at(2099-01-01T00:00:00)",
                "Target": {"Arn": TARGET, "Input": "stop"},
            },
            MISSING,
        ),
        (
            {
                "ScheduleExpression": "at(2099-01-01T00:00:00)",
                "Target": {"Arn": TARGET.replace("stop", "reboot"), "Input": "{}"},
            },
            MISSING,
        ),
        ({"ScheduleExpression": "at(2099-01-01T00:00:00)"}, "armed"),
    ],
)
def test_what_a_schedule_means(options: dict[str, Any], state: str) -> None:
    assert only(Aws(GOLDEN, scheduled(**options)).deadlines()).state == state


def test_a_schedules_time_zone_counts() -> None:
    options = {"ScheduleExpression": "at(2099-07-01T12:00:00)"}
    client = scheduled(**options, ScheduleExpressionTimezone="Europe/Berlin")
    deadline = only(Aws(GOLDEN, client).deadlines())
    assert deadline.at == datetime(2099, 7, 1, 10, tzinfo=timezone.utc)


def test_each_machine_has_the_schedule_that_the_document_names() -> None:
    """As after the cluster was renamed."""
    named = [
        replace(deadline, id=f"default/former-{deadline.host}") for deadline in GOLDEN.deadlines
    ]
    known, read = scheduled(ScheduleExpression="at(2099-01-01T00:00:00)"), list[str]()

    def aws(service: str, operation: str, **parameters: Any) -> Any:
        read.extend([parameters["Name"]] if operation == "get_schedule" else [])
        return known(service, operation, **parameters)

    client: Any = aws
    Aws(replace(GOLDEN, deadlines=tuple(reversed(named))), client).deadlines()
    assert read == [f"former-{name}" for name in GOLDEN.names]


def test_machines_in_all_states_but_terminated_are_listed() -> None:
    """One that stops can be started again, and its disk costs."""
    states = ("pending", "running", "stopping", "stopped", "shutting-down", "terminated")

    def ec2(_: str, operation: str, **parameters: Any) -> Any:
        if operation == "get_caller_identity":
            return {"Account": "123456789012"}
        values = {filter_["Name"]: filter_["Values"] for filter_ in parameters["Filters"]}
        listed = [state for state in states if state in values["instance-state-name"]]
        return {
            "Reservations": [
                {"Instances": [{"InstanceId": name, "State": {"Name": name}} for name in listed]}
            ]
        }

    client: Any = ec2
    listed = list_machines(Place("aws", REGION), client)
    assert [machine.id for machine in listed.machines] == [*states[:-1]]


# --- Keys on the console -----------------------------------------------------------------------

ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB5pCFjpzH4qO6hFAT8JjnLtVmWjmyXzV9oE0iCk3WpX"
ECDSA = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBA=="
CONSOLE = f"""[   20.101] cloud-init[612]: ci-info: no authorized keys
-----BEGIN SSH HOST KEY FINGERPRINTS-----
256 SHA256:abc root@ip-10-0-1-21 (ED25519)
-----END SSH HOST KEY FINGERPRINTS-----
-----BEGIN SSH HOST KEY KEYS-----\r
{ECDSA} root@ip-10-0-1-21\r
[   21.5] cloud-init[612]: {ED25519} root@ip-10-0-1-21\r
-----END SSH HOST KEY KEYS-----\r
Ubuntu 22.04 ttyS0
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAAB outside the block
"""


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (CONSOLE, (ECDSA, ED25519)),
        (CONSOLE.partition("-----END SSH HOST KEY KEYS")[0], ()),
        ("", ()),
        (ED25519, ()),
        (
            CONSOLE + CONSOLE.replace("AAAAC3", "AAAAC4"),
            (ECDSA, ED25519.replace("AAAAC3", "AAAAC4")),
        ),
    ],
)
def test_host_keys_are_those_of_the_last_whole_block(text: str, keys: tuple[str, ...]) -> None:
    assert keys_on_console(text) == keys


def console(latest: Callable[[], str]) -> AwsClient:
    def ask(service: str, name: str, **options: Any) -> Any:
        assert name == "get_console_output"
        return {"Output": latest()} if options.get("Latest") else {"Output": CONSOLE}

    return ask


def test_hosts_whose_console_has_no_keys_yet_are_left_out() -> None:
    output = iter([CONSOLE, ""])
    host_keys = Aws(GOLDEN, console(lambda: next(output))).host_keys()
    assert host_keys == {"aws-g4dn-1": (ECDSA, ED25519)}


def test_a_machine_that_has_no_latest_console_is_requested_the_older() -> None:
    def refuse() -> str:
        raise Refused("only on Nitro", "UnsupportedOperation")

    assert len(Aws(GOLDEN, console(refuse)).host_keys()) == 2


def test_a_call_is_logged_with_its_duration_and_without_its_parameters(aws: None) -> None:
    client = connect(REGION)
    with log.command("status", ["status"]) as file:
        client("ec2", "describe_instances", Filters=[{"Name": "tag:a", "Values": ["value-b"]}])
        with pytest.raises(Refused):
            client("ec2", "start_instances", InstanceIds=["i-0123456789abcdef0"])
        assert file.path
    text = file.path.read_text()
    assert "Z AWS ec2 describe_instances: ok (" in text
    assert "Z AWS ec2 start_instances: ClientError: " in text
    assert "value-b" not in text
