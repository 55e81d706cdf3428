"""`fab up` with a stand-in for Pulumi: what it does after a break. tests/engine runs the engine."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from standins.machines_of_a_cloud import Terminal
from standins.pulumi_command import PulumiCommand, exported, on_aws, resource

from bootstrap.cli.targets import selected_stack
from bootstrap.clouds import base
from bootstrap.clouds.base import MISSING
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.pulumi_cli import LOG_IN
from bootstrap.lifecycle import held
from bootstrap.lifecycle.consent import Answers, Held
from bootstrap.lifecycle.creation import up
from railhead.documents.runs.run_record import RunRecord

ID = "0a1b2c3d4e5f"
EMPTY = exported()
ZONES = resource("pulumi:index:Stash", "zones", outputs={"input": ["us-east-1a", "us-east-1b"]})
TWO_ZONES = exported(ZONES)
REFUSED = "echo 'error: InsufficientInstanceCapacity'; exit 255"
EXISTS = "echo \"error: 409: The resource 'instances/t4-1' already exists\"; exit 255"
BUCKET_EXISTS = "echo 'error: creating S3 Bucket (mine-1): BucketAlreadyExists'; exit 255"
SCHEDULE_EXISTS = "echo 'error: ConflictException: Schedule already exists.'; exit 255"
NO_RIGHT = "echo 'error: UnauthorizedOperation'; exit 255"
# What Pulumi Cloud answers while another `pulumi up` of the stack is in progress.
IN_PROGRESS = "echo 'error: [409] Conflict: Another update is currently in progress.'; exit 255"
# Interrupted by the user when its output has been printed (fd 1 of pytest is a file, with capfd).
INTERRUPTED = """echo 'error: InsufficientInstanceCapacity'
until grep -q Insufficient /proc/$PPID/fd/1; do sleep 0.02; done
kill -INT $PPID
exit 255"""
WHEN_UNLOCKED = (
    "fab up --stack dev   # when it has ended; if it was killed: "
    "pulumi cancel --yes --stack dev && fab up --stack dev"
)
CHANGES = ("up", "destroy", "config set")  # the calls that change something
UP = "up --yes --skip-preview --stack dev"
DESTROY = "destroy --yes --skip-preview --stack dev --continue-on-error"
MOVE = "config set zones us-east-1b,us-east-1a --stack dev"

Clients = Callable[[str], Any]


def run_up(report: Callable[[str], None] = lambda _: None) -> None:
    up.up("dev", report, yes=True, refresh=False)


def running_instance(cluster_id: str = ID) -> str:
    """A machine that runs, with the tags of a stack; its id."""
    from standins.aws.account import run_instances

    tags = {"Name": "g4dn-9", "railhead:cluster": "g4dn", "railhead:id": cluster_id}
    return str(run_instances(tags=tags)[0]["InstanceId"])


@pytest.mark.parametrize(
    ("first", "changes"),
    [(REFUSED, [UP, DESTROY, MOVE, UP]), (NO_RIGHT, [UP]), (INTERRUPTED, [UP])],
    ids=["no capacity", "another error", "Ctrl-C"],
)
def test_another_zone_is_tried_after_a_refusal_for_capacity_only(
    pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str], first: str, changes: list[str]
) -> None:
    pulumi.answers(stack_export=TWO_ZONES, config_set="", up=first, destroy="true")
    with pytest.raises(RailheadError, match="broke off"):
        run_up()
    assert pulumi.called(*CHANGES) == changes


def test_another_zone_that_has_room_is_written_into_the_config(
    pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = list[str]()
    pulumi.answers(
        stack_export=TWO_ZONES, config_set="", up=[REFUSED, "true"],
        destroy="true",
    )  # fmt: skip
    run_up(lines.append)
    assert pulumi.called(*CHANGES) == [UP, DESTROY, MOVE, UP]
    assert "no capacity in us-east-1a: now in us-east-1b; `zones` of the stack is set" in lines


WEST = ["config set region us-west-2 --stack dev", "config rm zones --stack dev"]
SMALL = r"printf 'error: quotas: too small\n  next: pulumi config set quotas request\n'; exit 255"


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def regions(pulumi: PulumiCommand, *ups: str, state: str = EMPTY) -> list[str]:
    """What `fab up` changes with two further regions, where each `up` ends so. The state names the
    zones of a region, here of none."""
    Path("Pulumi.yaml").write_text("name: railhead\nruntime: python\n")
    config = {"cloud": "aws", "region": "us-east-1", "regions": "us-west-2, eu-west-1"}
    lines = [f"  railhead:{name}: {value}\n" for name, value in config.items()]
    Path("Pulumi.dev.yaml").write_text("".join(["config:\n", *lines]))
    pulumi.answers(
        stack_export=state, config_set="", config_rm="", up=list(ups), destroy="true",
    )  # fmt: skip
    with contextlib.suppress(RailheadError):
        run_up()
    return pulumi.called(*CHANGES, "config rm")


def test_further_regions_are_tried_after_the_zones(
    own_folder: None, pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    assert regions(pulumi, REFUSED, "true") == [UP, DESTROY, *WEST, UP]


def test_the_other_zones_of_a_further_region_are_tried_before_the_next_region(
    own_folder: None, pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    changes = regions(pulumi, REFUSED, REFUSED, REFUSED, "true", state=TWO_ZONES)
    assert changes == [UP, DESTROY, MOVE, UP, DESTROY, *WEST, UP, DESTROY, MOVE, UP]


def test_a_region_whose_quota_is_too_small_is_left_out(
    own_folder: None, pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    changes = regions(pulumi, REFUSED, SMALL, "true")
    assert changes[:5] == [UP, DESTROY, *WEST, UP]
    assert changes[5:] == [DESTROY, WEST[0].replace("us-west-2", "eu-west-1"), WEST[1], UP]


def test_another_error_ends_the_walk_through_regions(
    own_folder: None, pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    assert regions(pulumi, REFUSED, NO_RIGHT) == [UP, DESTROY, *WEST, UP]


def test_without_further_regions_none_is_tried(
    own_folder: None, pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    pulumi.answers(stack_export=EMPTY, up=REFUSED, destroy="true")
    with pytest.raises(RailheadError, match="broke off"):
        run_up()
    assert pulumi.called(*CHANGES) == [UP]


def test_what_was_made_and_stays_keeps_another_zone_from_being_tried(
    pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    remaining = exported(ZONES, resource("aws:ec2/vpc:Vpc", id="vpc-1"))
    pulumi.answers(
        stack_export=remaining,
        config_set="",
        up=REFUSED,
        destroy="exit 255",
    )
    with pytest.raises(RailheadError, match=r"could not be removed: .*aws:ec2/vpc:Vpc") as caught:
        run_up()
    assert caught.value.hint == "fab teardown --destroy --stack dev"
    assert pulumi.called(*CHANGES) == [UP, DESTROY]


@pytest.mark.parametrize("refusal", [REFUSED, EXISTS], ids=["no capacity", "in the way"])
def test_nothing_is_removed_where_the_cloud_did_not_list_its_machines(
    pulumi: PulumiCommand, no_aws: None, capfd: pytest.CaptureFixture[str], refusal: str
) -> None:
    """Some may run."""
    pulumi.answers(stack_export=exported(*on_aws(), ZONES), up=refusal)
    lines = list[str]()
    with pytest.raises(RailheadError, match="broke off"):
        run_up(lines.append)
    assert pulumi.called(*CHANGES) == [UP]
    assert lines[0].startswith("machines in no state of Pulumi are not known: AWS call failed")


@pytest.mark.parametrize("refusal", [REFUSED, EXISTS], ids=["no capacity", "in the way"])
def test_machines_that_there_were_before_are_not_given_up(
    pulumi: PulumiCommand,
    aws_client: Clients,
    capfd: pytest.CaptureFixture[str],
    refusal: str,
) -> None:
    machine = running_instance()
    state = [*on_aws(machine, cluster_id=ID), ZONES]
    pulumi.answers(stack_export=exported(*state), up=refusal)
    with pytest.raises(RailheadError, match="broke off; 1 machine running now"):
        run_up()
    assert pulumi.called(*CHANGES) == [UP]
    reservation = aws_client("ec2").describe_instances(InstanceIds=[machine])["Reservations"][0]
    assert reservation["Instances"][0]["State"]["Name"] == "running"


def test_a_break_over_machines_that_are_gone_names_the_command_that_creates_them(
    pulumi: PulumiCommand, aws_client: Clients, capfd: pytest.CaptureFixture[str]
) -> None:
    """Without --refresh the same would break off again."""
    ends = [running_instance(), running_instance()]
    aws_client("ec2").terminate_instances(InstanceIds=ends[:1])
    state = [*on_aws(*ends, cluster_id=ID), ZONES]
    pulumi.answers(stack_export=exported(*state), up=NO_RIGHT)
    with pytest.raises(RailheadError, match="broke off; 1 machine running now") as caught:
        run_up()
    assert caught.value.hint.startswith("fab up --stack dev --refresh   # continues")


def test_machines_of_an_up_in_progress_are_not_removed(
    pulumi: PulumiCommand, aws_client: Clients, capfd: pytest.CaptureFixture[str]
) -> None:
    """A colleague's first `fab up` creates them while this one is refused."""
    pulumi.answers(stack_export=exported(*on_aws(cluster_id=ID)), up=IN_PROGRESS, destroy="true")
    with pytest.raises(
        RailheadError, match="broke off; it has no machine; another Pulumi"
    ) as error:
        run_up()
    assert error.value.hint == WHEN_UNLOCKED
    assert pulumi.called(*CHANGES) == [UP]


def test_machines_that_appeared_before_the_user_agreed_are_not_given_up(
    pulumi: PulumiCommand,
    aws_client: Clients,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A colleague has created them while the question was on the screen."""
    theirs = exported(*on_aws(running_instance(), cluster_id=ID), ZONES)
    pulumi.answers(stack_export=[TWO_ZONES, theirs], preview="true", up=REFUSED, destroy="true")
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    with pytest.raises(RailheadError, match="broke off; 1 machine running now"):
        up.up("dev", lambda _: None, yes=False, refresh=False)
    assert pulumi.called(*CHANGES) == [UP]


def test_what_a_killed_up_left_in_the_way_is_removed_where_no_machine_was(
    pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str]
) -> None:
    pulumi.answers(stack_export=EMPTY, up=[EXISTS, "true"], destroy="true")
    run_up()
    assert pulumi.called(*CHANGES) == [UP, DESTROY, UP]


@pytest.mark.parametrize(
    ("owner", "objects", "removed"), [(ID, 0, True), (ID, 1, False), ("f" * 12, 0, False)]
)
def test_a_bucket_that_a_killed_up_left_is_removed_where_it_is_empty(
    pulumi: PulumiCommand,
    aws_client: Clients,
    capfd: pytest.CaptureFixture[str],
    owner: str,
    objects: int,
    removed: bool,
) -> None:
    """Its name is configured. One of another stack stays."""
    s3 = aws_client("s3")
    s3.create_bucket(Bucket="mine-1")
    tags = [{"Key": "railhead:id", "Value": owner}]
    s3.put_bucket_tagging(Bucket="mine-1", Tagging={"TagSet": tags})
    for number in range(objects):
        s3.put_object(Bucket="mine-1", Key=str(number), Body=b"x")
    config = """echo '{"railhead:bucket_name": {"value": "mine-1"}}'"""
    again = "true" if removed else BUCKET_EXISTS
    pulumi.answers(
        stack_export=exported(*on_aws(cluster_id=ID)), config=config, up=[BUCKET_EXISTS, again],
        destroy="true",
    )  # fmt: skip
    if removed:
        run_up()
    else:
        with pytest.raises(RailheadError, match="it has no machine; its bucket_name") as caught:
            run_up()
        assert caught.value.hint.startswith("pulumi config set --stack dev bucket_name OTHER && ")
    assert pulumi.called("up", "destroy") == [UP, DESTROY, UP]
    assert (not s3.list_buckets()["Buckets"]) == removed


@pytest.mark.parametrize(
    ("refusal", "next_"),
    [
        (EXISTS, "fab teardown --destroy --stack dev && fab up --stack dev"),
        (NO_RIGHT, "fab up --stack dev   # continues"),
        ("echo 'error: the stack is currently locked'; exit 255", WHEN_UNLOCKED),
        (
            "echo '  error: machine_type: no p9'; echo '    next: pulumi config set'; exit 255",
            "pulumi config set",
        ),
        (
            "echo \"unexpected state 'terminated': Client.InternalError: Client error on launch\"; "
            "exit 255",
            "fab doctor --stack dev",
        ),
    ],
    ids=["a rule of the network", "another error", "a lock", "the config", "a key"],
)
def test_a_break_names_the_next_command(
    pulumi: PulumiCommand, capfd: pytest.CaptureFixture[str], refusal: str, next_: str
) -> None:
    pulumi.answers(stack_export=EMPTY, up=refusal, destroy="true")
    with pytest.raises(RailheadError, match="broke off; it has no machine") as caught:
        run_up()
    assert caught.value.hint.startswith(next_)


@dataclass
class Strays:
    """A recorded machine, two that a killed `up` left, and one of another stack; each has a
    schedule."""

    ec2: Any
    scheduler: Any
    recorded: str
    left: tuple[str, str]
    other: str

    def running(self) -> set[str]:
        """The machines that run."""
        held = self.ec2.describe_instances()["Reservations"]
        instances = (i for reservation in held for i in reservation["Instances"])
        return {i["InstanceId"] for i in instances if i["State"]["Name"] == "running"}

    def with_schedule(self) -> set[str]:
        """The machines that have one."""
        return {name.removeprefix("railhead-g4dn-") for name in schedules(self.scheduler)}


@pytest.fixture
def strays(
    pulumi: PulumiCommand, aws_client: Clients, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Strays]:
    monkeypatch.setattr(base, "POLL_SECONDS", 0.0)
    made = Strays(
        aws_client("ec2"),
        aws_client("scheduler"),
        running_instance(),
        (running_instance(), running_instance()),
        running_instance("f" * 12),
    )
    for machine in (made.recorded, *made.left, made.other):
        add_schedule(made.scheduler, f"railhead-g4dn-{machine}")
    state = exported(*on_aws(made.recorded, cluster_id=ID))
    pulumi.answers(stack_export=state, up="true", refresh="true", preview=previewed())
    yield made
    assert {made.recorded, made.other} <= made.running() & made.with_schedule()


def test_what_a_killed_up_left_in_no_state_ends_before_anything_is_created(
    pulumi: PulumiCommand, strays: Strays, capfd: pytest.CaptureFixture[str]
) -> None:
    """Pulumi would create it a second time."""
    pulumi.answers(
        stack_export=exported(*on_aws(strays.recorded, cluster_id=ID)), refresh="true", up=NO_RIGHT
    )
    with pytest.raises(RailheadError, match="broke off; 1 machine running now"):
        run_up()
    assert strays.running() == {strays.recorded, strays.other}
    assert strays.with_schedule() == {strays.recorded, strays.other}
    assert pulumi.called(*CHANGES) == [UP]


def test_what_a_killed_up_left_ends_after_a_question(
    pulumi: PulumiCommand,
    strays: Strays,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("n\n"))
    with pytest.raises(UsageError, match="nothing was changed"):
        up.up("dev", lambda _: None, yes=False, refresh=False)
    printed = capfd.readouterr().out
    assert all(machine in printed for machine in strays.left) and strays.other not in printed
    assert {*strays.left} <= strays.running() and not pulumi.called(*CHANGES)


def test_what_another_up_creates_at_this_moment_is_not_ended(
    pulumi: PulumiCommand, strays: Strays, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its machines are in no state either, until each is recorded."""
    pulumi.answers(
        stack_export=exported(*on_aws(strays.recorded, cluster_id=ID)), refresh=IN_PROGRESS,
        stack="printf 'Update in progress:\\n\\tStarted: 3 minutes ago\\n\\tRequested By: bo\\n'",
    )  # fmt: skip
    with pytest.raises(UsageError, match="works on stack dev: bo since 3 minutes ago") as caught:
        run_up()
    assert caught.value.hint == WHEN_UNLOCKED
    assert {*strays.left} <= strays.running() and not pulumi.called(*CHANGES)


def test_what_a_killed_up_left_stays_where_it_alone_has_results(
    pulumi: PulumiCommand, strays: Strays, home: Path
) -> None:
    """As after an older state of Pulumi was restored."""
    local_state.save_run(RunRecord("r1", "g4dn", str(local_state.home() / "r1")))
    pulumi.answers(stack_export=exported(*on_aws(cluster_id=ID)), refresh="true")
    with pytest.raises(UsageError, match="results of r1 were not all fetched") as caught:
        run_up()
    assert "fab up --stack dev --discard-results" in caught.value.hint
    assert {*strays.left} <= strays.running() and not pulumi.called(*CHANGES)


@pytest.mark.parametrize(
    ("text", "conflict"),
    [
        ("api error InvalidPermission.Duplicate: The specified rule already exists", True),
        ("api error InvalidSubnet.Conflict: The CIDR conflicts with another subnet", True),
        ("api error Resource.AlreadyAssociated: the specified association", True),
        ("api error ConflictException: Schedule railhead-g4dn-i-1", True),
        ("api error BucketAlreadyOwnedByYou: Your previous request", True),
        ("googleapi: Error 409: Your previous request to create the named bucket", True),
        ("error: InsufficientInstanceCapacity", False),
    ],
)
def test_refusals_of_what_exists(text: str, conflict: bool) -> None:
    assert up.is_conflict(text) == conflict


@pytest.mark.parametrize("cluster", ["g4dn", "renamed"])
def test_a_schedule_in_no_state_whose_name_is_in_use_is_removed(
    pulumi: PulumiCommand, aws_client: Clients, capfd: pytest.CaptureFixture[str], cluster: str
) -> None:
    """Schedules in the state stay. A renamed cluster keeps the names of its schedules."""
    lines = list[str]()
    scheduler = two_schedules(pulumi, aws_client, cluster, up=[SCHEDULE_EXISTS, "true"])
    run_up(lines.append)
    assert schedules(scheduler) == ["railhead-g4dn-i-1"]
    assert "a killed `pulumi up` left railhead-g4dn-i-2: removed" in lines
    assert pulumi.called(*CHANGES) == [UP, UP]


@pytest.mark.parametrize("exists", [True, False])
def test_a_deadline_that_is_gone_from_the_cloud_is_created_again(
    pulumi: PulumiCommand, aws_client: Clients, capfd: pytest.CaptureFixture[str], exists: bool
) -> None:
    """Pulumi compares its state with the cloud only with --refresh."""
    scheduler, machine = aws_client("scheduler"), running_instance()
    name = f"railhead-g4dn-{machine}"
    if exists:
        add_schedule(scheduler, name)
    recorded = resource("aws:scheduler/schedule:Schedule", id="default/s", inputs={"name": name})
    state = exported(*on_aws(machine, cluster_id=ID), recorded)
    pulumi.answers(stack_export=state, up="true", refresh="true")
    is_missing = pytest.raises(RailheadError, match=f"deadline of g4dn-1 is {MISSING}")
    with contextlib.nullcontext() if exists else is_missing:
        up.up("dev", lambda _: None, yes=True, refresh=False, discard=True)
    assert pulumi.called(*CHANGES) == [UP if exists else f"{UP} --refresh"]


@pytest.mark.parametrize("first", [IN_PROGRESS, NO_RIGHT], ids=["in progress", "another error"])
def test_a_schedule_that_is_in_no_state_yet_stays(
    pulumi: PulumiCommand, aws_client: Clients, capfd: pytest.CaptureFixture[str], first: str
) -> None:
    """The `up` of a colleague has created it, and records it next."""
    scheduler = two_schedules(pulumi, aws_client, "g4dn", up=[first])
    with pytest.raises(RailheadError, match="broke off"):
        run_up()
    assert schedules(scheduler) == ["railhead-g4dn-i-1", "railhead-g4dn-i-2"]
    assert pulumi.called(*CHANGES) == [UP]


def two_schedules(pulumi: PulumiCommand, aws: Clients, cluster: str, up: list[str]) -> Any:
    """A stack of two machines that have schedules; one of these is in its state."""
    scheduler = aws("scheduler")
    for name in ("railhead-g4dn-i-1", "railhead-g4dn-i-2"):
        add_schedule(scheduler, name)
    recorded = resource(
        "aws:scheduler/schedule:Schedule", id="default/s", inputs={"name": "railhead-g4dn-i-1"}
    )
    prefix = resource("pulumi:index:Stash", "schedule-prefix", outputs={"output": "railhead-g4dn"})
    state = [*on_aws("i-1", "i-2", cluster=cluster), recorded, prefix]
    pulumi.answers(stack_export=exported(*state), up=up)
    return scheduler


def schedules(scheduler: Any) -> list[str]:
    return sorted(schedule["Name"] for schedule in scheduler.list_schedules()["Schedules"])


def add_schedule(scheduler: Any, name: str) -> None:
    """A schedule as a stack makes it."""
    end = datetime.now(timezone.utc) + timedelta(hours=1)
    target = {
        "Arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances",
        "RoleArn": "arn:aws:iam::123456789012:role/stop",
        "Input": f'{{"InstanceIds": ["{name.removeprefix("railhead-g4dn-")}"]}}',
    }
    scheduler.create_schedule(
        Name=name, ScheduleExpression=f"at({end:%Y-%m-%dT%H:%M:%S})",
        FlexibleTimeWindow={"Mode": "OFF"}, Target=target,
    )  # fmt: skip


def previewed(*steps: tuple[str, str], differ: Sequence[str] = ()) -> str:
    """The script that prints what `pulumi preview --json` prints for these changes of instances:
    an operation, and an id. `differ`: the properties that an update changes."""
    kind = "aws:ec2/instance:Instance"
    made = [
        {"op": op, "oldState": {"type": kind, "id": id} if id else None, "diffReasons": [*differ]}
        for op, id in steps
    ]
    return f"echo {shlex.quote(json.dumps({'steps': made}))}"


def stack_with_a_run(pulumi: PulumiCommand, preview: str) -> None:
    """Two machines; the results of the run r1 are on the disk of the first, and nowhere else."""
    local_state.save_run(RunRecord("r1", "g4dn", str(local_state.home() / "r1")))
    state = exported(*on_aws("i-1", "i-2", cluster_id=ID))
    pulumi.answers(stack_export=state, up="true", preview=preview)


@pytest.mark.parametrize("operation", ["replace", "delete-replaced", "delete"])
def test_no_machine_that_alone_has_results_is_replaced_or_removed(
    pulumi: PulumiCommand, home: Path, no_aws: None, operation: str
) -> None:
    stack_with_a_run(pulumi, previewed(("update", "i-2"), (operation, "i-1")))
    with pytest.raises(UsageError, match="results of r1 .* g4dn-1 would be replaced") as caught:
        run_up()
    assert caught.value.hint.startswith("fab fetch --run r1 ")
    assert "fab up --stack dev --discard-results" in caught.value.hint
    assert not pulumi.called(*CHANGES)


def test_results_may_be_discarded_with_their_machines(
    pulumi: PulumiCommand, home: Path, aws_client: Clients, capfd: pytest.CaptureFixture[str]
) -> None:
    stack_with_a_run(pulumi, previewed(("replace", "i-1")))
    up.up("dev", lambda _: None, yes=True, refresh=False, discard=True)
    assert pulumi.called(*CHANGES, "preview") == [UP]


@pytest.mark.parametrize("steps", [(), (("create", ""), ("update", "i-1")), (("delete", "i-2"),)])
def test_other_changes_need_no_consent(
    pulumi: PulumiCommand,
    home: Path,
    aws_client: Clients,
    capfd: pytest.CaptureFixture[str],
    steps: tuple[tuple[str, str], ...],
) -> None:
    """Results are on the chief; another machine has none."""
    stack_with_a_run(pulumi, previewed(*steps))
    run_up()
    assert pulumi.called(*CHANGES) == [UP]


def test_without_results_that_could_be_lost_there_is_no_preview(
    pulumi: PulumiCommand, home: Path, aws_client: Clients, capfd: pytest.CaptureFixture[str]
) -> None:
    stack_with_a_run(pulumi, "exit 99")
    (local_state.home() / "r1").mkdir()
    (local_state.home() / "r1" / "result.json").write_text("{}")
    run_up()
    assert pulumi.called(*CHANGES, "preview") == [UP]


@pytest.mark.parametrize("reasons", [("delete",), ("update", "instanceType")])
def test_a_run_in_progress_is_not_interrupted_without_consent(
    pulumi: PulumiCommand, home: Path, monkeypatch: pytest.MonkeyPatch, reasons: tuple[str, ...]
) -> None:
    """Even where its results may be lost, and by whatever would end it."""
    monkeypatch.setattr(held, "ask", lambda _: Answers({"g4dn-1": Held(in_progress=("r1",))}))
    stack_with_a_run(pulumi, previewed((reasons[0], "i-2"), differ=reasons[1:]))
    with pytest.raises(UsageError, match=r"g4dn-2 .* interrupts r1 .on g4dn-1"):
        up.up("dev", lambda _: None, yes=False, refresh=False, discard=True)
    assert not pulumi.called(*CHANGES)


def test_a_failing_preview_changes_nothing(pulumi: PulumiCommand, home: Path, no_aws: None) -> None:
    """What it would remove is then not known."""
    stack_with_a_run(pulumi, "echo 'error: no such thing' >&2; exit 255")
    with pytest.raises(UsageError, match="preview of stack dev failed: nothing was changed"):
        run_up()
    assert not pulumi.called(*CHANGES)


@pytest.mark.parametrize(
    ("whoami", "next_"),
    [
        ("echo 'error: PULUMI_ACCESS_TOKEN must be set for login' >&2; exit 3", LOG_IN),
        ('echo \'{"user": "ann"}\'', "fab up --stack NAME"),
    ],
)
def test_without_a_login_no_stack_can_be_selected(
    pulumi: PulumiCommand, whoami: str, next_: str
) -> None:
    pulumi.answers(stack="exit 255", whoami=whoami)
    with pytest.raises(UsageError) as caught:
        selected_stack(None)
    assert str(caught.value.hint).startswith(next_)
