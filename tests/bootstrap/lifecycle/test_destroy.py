"""`fab teardown --destroy`: what is refused, what goes in which order, and what is verified."""

from __future__ import annotations

import io
import socket
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from standins import registered_cloud
from standins.pulumi_command import PulumiCommand, exported, on_aws, resource
from standins.stopping_cloud import DISK, OURS, StoppingCloud, never, save_run

from bootstrap.clouds.base import Cost
from bootstrap.clouds.machines import Machine
from bootstrap.errors import Command, RailheadError, UsageError
from bootstrap.inventory import local_state, pulumi_stack
from bootstrap.inventory.document import to_document
from bootstrap.inventory.hosts import Inventory
from bootstrap.inventory.stack_state import StackState, read_state
from bootstrap.lifecycle import destroy as destroy_stack
from bootstrap.lifecycle import stack_machines
from bootstrap.lifecycle.consent import confirm_by_name
from bootstrap.lifecycle.receipt import Receipt
from bootstrap.lifecycle.stack_machines import StackMachines

if TYPE_CHECKING:
    from standins.stores.buckets import OnGcs, OnS3, World

DESTROY = "destroy --yes --skip-preview --stack dev --continue-on-error"
HELD = Cost(
    "bucket s3://b, 3 objects, 1.00 GB", None, Command("teardown", destroy=True, with_bucket=True)
)


@dataclass
class Stack:
    """A stack that Pulumi destroys, and the clouds of its machines."""

    pulumi: PulumiCommand
    patch: pytest.MonkeyPatch

    @property
    def destroyed(self) -> list[str]:
        """The calls of `pulumi destroy`."""
        return self.pulumi.called("destroy")

    def destroy(
        self,
        inventory: Inventory = OURS,
        fake: StoppingCloud | None = None,
        state: StackState | None = None,
        **options: Any,
    ) -> Receipt:
        """Destroy it, with `fake` as the cloud of its machines."""
        fake = fake or StoppingCloud(lambda *_: "gone", costs_now=[])
        registered_cloud.register(self.patch, "aws", fake)
        options = {"agree": lambda _: None, "discard": False, "clock": fake.clock(), **options}
        machines = StackMachines(state or state_of(inventory), inventory, inventory)
        return destroy_stack.destroy(machines, lambda _: None, **options)


@pytest.fixture
def stack(pulumi: PulumiCommand, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """A stack whose `pulumi destroy` succeeds and leaves nothing."""
    pulumi.answers(destroy="true", stack_export=exported())
    return Stack(pulumi, monkeypatch)


def state_of(inventory: Inventory) -> StackState:
    """A state that lists no machines in a cloud."""
    return replace(read_state("dev", {}), bucket=inventory.bucket)


def test_a_destroy_lists_what_goes_and_ends_with_what_the_cloud_reports(
    stack: Stack,
) -> None:
    listed: list[str] = []
    receipt = stack.destroy(
        fake=StoppingCloud(lambda *_: "gone", [DISK, HELD]), agree=listed.append
    )
    assert stack.destroyed == [DESTROY] and receipt.verified
    assert (
        "machine m1 (i-1)" in listed[0] and "stays if it has more than wheels: bucket" in listed[0]
    )
    assert "m1     ok  gone" in "\n".join(receipt.describe())


def test_a_machine_that_survives_a_destroy_is_not_verified(stack: Stack) -> None:
    assert not stack.destroy(fake=StoppingCloud(lambda *_: "running")).verified


def test_without_pulumi_the_machines_end_and_the_rest_is_not_verified(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The hosts of the last command are machines of a stack, and Pulumi is not installed here."""
    monkeypatch.setenv("PATH", str(tmp_path))
    fake = StoppingCloud(lambda *_: "gone", costs_now=[])
    receipt = stack.destroy(fake=fake)
    assert fake.terminated and not receipt.verified
    (of_pulumi,) = (line.text for line in receipt.lines if not line.verified)
    assert of_pulumi.startswith("there is no pulumi on PATH\n    next: https://www.pulumi.com/")


def test_a_destroy_is_refused_while_results_are_only_there(stack: Stack) -> None:
    save_run()
    with pytest.raises(UsageError, match="results of r1 were not all fetched") as caught:
        stack.destroy()
    assert "--discard-results" in caught.value.hint and stack.destroyed == []
    assert stack.destroy(discard=True).verified and stack.destroyed == [DESTROY]


def test_files_that_were_too_large_to_fetch_are_results_too(stack: Stack) -> None:
    save_run()
    results = local_state.home() / "nowhere"
    results.mkdir(parents=True)
    (results / "result.json").write_text("{}")
    stack.destroy()
    (results / "left-on-host.txt").write_text("2.0 GB  work/model.bin")
    with pytest.raises(UsageError, match="would be deleted"):
        stack.destroy()


MANIFEST = b'{"schema": 1, "files": [], "skipped": []}'


@pytest.mark.parametrize("with_bucket, lost", [(False, False), (True, True)])
def test_results_in_a_bucket_that_stays_are_not_lost(
    stack: Stack, world: World, with_bucket: bool, lost: bool
) -> None:
    save_run()
    world.put("runs/r1/manifest.json", MANIFEST)
    ours = replace(OURS, bucket=world.inventory.bucket)
    if lost:
        with pytest.raises(UsageError, match="would be deleted"):
            stack.destroy(ours, with_bucket=with_bucket)
    else:
        stack.destroy(ours, with_bucket=with_bucket)
    assert stack.destroyed == ([] if lost else [DESTROY])
    assert world.names() == ["runs/r1/manifest.json"]


def test_a_bucket_that_is_gone_holds_no_results(stack: Stack, world: World) -> None:
    save_run()
    world.drop()
    with pytest.raises(UsageError, match="would be deleted"):
        stack.destroy(replace(OURS, bucket=world.inventory.bucket))
    assert stack.destroyed == []


def test_a_bucket_is_emptied_when_that_is_requested(stack: Stack, world: World) -> None:
    for data in (b"1", b"2"):
        world.put("runs/r1/result.json", data)
    receipt = stack.destroy(replace(OURS, bucket=world.inventory.bucket), with_bucket=True)
    assert receipt.lines[0].text == "2 objects removed, with old versions"
    assert world.names() == [] and stack.destroyed == [DESTROY]


@pytest.mark.parametrize("document", [OURS, None])
def test_the_bucket_that_an_earlier_destroy_kept_is_emptied_too(
    stack: Stack, on_s3: OnS3, document: Inventory | None
) -> None:
    state = replace(state_of(replace(OURS, bucket=on_s3.inventory.bucket)), cluster="dev")
    machines, listed = StackMachines(state, document, None), list[str]()

    def again(**options: Any) -> Receipt:
        options = {"agree": listed.append, "discard": False, "with_bucket": True, **options}
        return destroy_stack.destroy(machines, lambda _: None, **options)

    on_s3.put("runs/r1/manifest.json", MANIFEST)
    receipt = again()
    assert receipt.lines[0].text == "1 object removed, with old versions" and on_s3.names() == []
    assert "with all that is in s3://results-b" in listed[0] and stack.destroyed == [DESTROY]
    assert [line.host for line in again(with_bucket=False).lines] == ["machines"]
    assert "s3://results-b" not in listed[1]
    on_s3.put("runs/r1/manifest.json", MANIFEST)
    save_run()
    with pytest.raises(UsageError, match="results of r1 were not all fetched"):
        again()
    assert on_s3.names() == ["runs/r1/manifest.json"]


def test_the_wheels_in_a_bucket_go_with_the_stack(stack: Stack, world: World) -> None:
    """They can be built again, and would else keep a bucket that has nothing else for ever."""
    for name in ("wheels/k/wheel.json", "wheels/k/0/a.whl", "runs/r1/manifest.json"):
        world.put(name, b"1")
    world.put("wheels/k/wheel.json", b"2")
    ours = replace(OURS, bucket=world.inventory.bucket)
    receipt = stack.destroy(ours)
    expected = "the Horovod wheels and host keys in it: 3 objects removed, with old versions"
    assert receipt.lines[0].text == expected and receipt.verified and stack.destroyed == [DESTROY]
    assert world.names() == ["runs/r1/manifest.json"]
    assert not [line for line in stack.destroy(ours).lines if line.host == "bucket"]


def test_wheels_that_may_not_be_removed_stop_no_destroy(stack: Stack, on_gcs: OnGcs) -> None:
    on_gcs.put("wheels/k/wheel.json", b"1")
    on_gcs.store.held = {"wheels/k/wheel.json": "no right"}
    receipt = stack.destroy(replace(OURS, bucket="gs://results-b"))
    expected = (
        "the Horovod wheels and host keys in it stay: Google refuses to remove wheels/k/wheel.json"
    )
    assert receipt.lines[0].text.startswith(expected) and stack.destroyed == [DESTROY]


LEFT = {
    "a bucket with objects": (["aws:s3/bucket:Bucket", "aws:s3/bucketPolicy:BucketPolicy"], True),
    "a bucket of Google": (["gcp:storage/bucket:Bucket"], True),
    "a network": (["aws:s3/bucket:Bucket", "aws:ec2/vpc:Vpc"], False),
    "nothing that is named": ([], False),
}


@pytest.mark.parametrize("remaining, fine", LEFT.values(), ids=LEFT)
def test_what_pulumi_leaves_is_reported(stack: Stack, remaining: list[str], fine: bool) -> None:
    state = exported(*(resource(kind, id=f"r-{n}") for n, kind in enumerate(remaining)))
    stack.pulumi.answers(destroy="exit 255", stack_export=state)
    receipt = stack.destroy()
    assert receipt.verified == fine
    (line,) = (line for line in receipt.lines if line.host == "pulumi")
    kept = "all is gone but the bucket, which has objects and is kept"
    expected = f"in its state: {', '.join(sorted(remaining)) or 'nothing'}"
    assert (kept if fine else expected) in line.text


def test_a_state_that_cannot_be_read_after_a_failure_is_reported(stack: Stack) -> None:
    stack.pulumi.answers(destroy="exit 255", stack_export="echo 'error: no network' >&2; exit 255")
    receipt = stack.destroy()
    assert not receipt.verified
    assert "could not destroy all of dev; stack dev: pulumi: error: no network" in "\n".join(
        receipt.describe()
    )


def locked(computer: str = "desk", process: int = 4711) -> str:
    """What Pulumi prints about a lock in a folder or a bucket."""
    holder = f"created by bo@{computer} (pid {process}) at 2026-11-27T04:00:00Z"
    return f"echo 'error: the stack is currently locked by 1 lock(s)\n  x: {holder}'; exit 255"


AGAIN = "fab teardown --destroy --stack dev"
UNLOCK = f"pulumi cancel --yes --stack dev && {AGAIN}"


@pytest.mark.parametrize(
    ("kind", "with_bucket", "refused"),
    [
        ("aws:ec2/instance:Instance", False, True),
        ("aws:s3/bucket:Bucket", False, False),  # it stays with what is in it
        ("aws:s3/bucket:Bucket", True, True),
        ("aws:iam/role:Role", True, False),  # Pulumi refuses
    ],
)
def test_what_is_protected_is_not_removed_by_its_cloud_instead(
    stack: Stack, kind: str, with_bucket: bool, refused: bool
) -> None:
    """By `protect` of the program, or `pulumi state protect`."""
    resources = [resource(kind, "mine", id="i-1", protect=True), resource(kind, "open", id="i-2")]
    state = read_state("dev", {"deployment": {"resources": resources}})
    fake = StoppingCloud(lambda *_: "gone", costs_now=[])
    if not refused:
        stack.destroy(fake=fake, state=state, with_bucket=with_bucket)
        assert stack.destroyed == [DESTROY]
        return
    with pytest.raises(UsageError, match="mine of stack dev: protected") as caught:
        stack.destroy(fake=fake, state=state, with_bucket=with_bucket)
    assert "pulumi state unprotect --all --yes --stack dev" in caught.value.hint
    assert stack.destroyed == [] and not fake.terminated


def test_nothing_is_removed_while_another_pulumi_command_works(stack: Stack) -> None:
    stack.pulumi.answers(refresh=locked(), destroy="true", stack_export=exported())
    fake = StoppingCloud(lambda *_: "gone", costs_now=[])
    with pytest.raises(
        UsageError, match=r"bo on desk \(process 4711\) since 2026-11-27T04"
    ) as error:
        stack.destroy(fake=fake)
    assert error.value.hint == f"{AGAIN}   # when it has ended; if it was killed: {UNLOCK}"
    assert not fake.terminated and not stack.destroyed


def test_the_lock_of_a_process_that_is_gone_names_the_way_out_alone(stack: Stack) -> None:
    """Only this computer knows that of its processes."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    here = locked(socket.gethostname(), ended.pid)
    stack.pulumi.answers(refresh=here, destroy="true", stack_export=exported())
    with pytest.raises(UsageError, match="a killed Pulumi command has locked stack dev") as error:
        stack.destroy()
    assert error.value.hint == UNLOCK


def test_what_an_up_creates_that_began_while_machines_ended_is_not_removed(
    stack: Stack, left_group: Callable[[], bool]
) -> None:
    """Its network has the stack's id, too."""
    stack.pulumi.answers(refresh="true", destroy=locked(), stack_export=exported())
    with pytest.raises(RailheadError, match="works on stack dev: bo on desk.* terminated") as error:
        stack.destroy(state=STATE_ON_AWS)
    assert error.value.hint.endswith(UNLOCK) and left_group()


def test_machines_end_also_where_their_costs_cannot_be_read(stack: Stack) -> None:
    fake = StoppingCloud(lambda *_: "gone", costs_now=None)
    stack.destroy(fake=fake)
    assert fake.terminated and stack.destroyed == [DESTROY]


class Terminal(io.StringIO):
    """What a user types at a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_name_has_to_be_typed(monkeypatch: pytest.MonkeyPatch, stack: Stack) -> None:
    with pytest.raises(UsageError, match="question cannot be answered") as caught:
        stack.destroy(agree=confirm_by_name("dev", yes=False))
    # Typed as printed, without the name, it would destroy the selected stack.
    assert caught.value.hint == "fab teardown --destroy --stack dev --yes"
    monkeypatch.setattr("sys.stdin", Terminal("other\n dev \n"))
    with pytest.raises(UsageError, match="that is not its name"):
        stack.destroy(agree=confirm_by_name("dev", yes=False))
    assert stack.destroyed == []
    stack.destroy(agree=confirm_by_name("dev", yes=False))
    stack.destroy(agree=confirm_by_name("dev", yes=True))
    assert stack.destroyed == [DESTROY, DESTROY]


def test_a_machine_that_was_replaced_during_the_question_is_not_removed(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the name of the one that the question was about."""
    new = replace(OURS.hosts[0], id="i-0ffffffffffffffff")
    replaced = replace(OURS, hosts=(new, *OURS.hosts[1:]))
    agree = destroy_stack._agree(StackMachines(state_of(OURS), OURS, OURS), yes=False)
    for now, error in ((OURS, nullcontext()), (replaced, pytest.raises(UsageError))):
        component = resource("railhead:aws:Cluster", outputs={"document": to_document(now)})
        stack.pulumi.answers(stack_export=exported(component))
        monkeypatch.setattr("sys.stdin", Terminal("dev\n"))
        with error:
            agree("destroys all")


def test_the_machines_end_before_pulumi_removes_their_deadlines(stack: Stack) -> None:
    """`pulumi destroy` may break off, and has then removed the schedules already."""
    seen: list[tuple[float, bool]] = []  # of each query: seconds since the end, Pulumi was called
    fake = StoppingCloud(
        lambda _, since: "running" if since < 90 else "gone",
        costs_now=[],
        queried=lambda since: seen.append((since, bool(stack.destroyed))),
    )
    assert stack.destroy(fake=fake).verified and fake.terminated
    assert stack.destroyed == [DESTROY]
    assert [since for since, _ in seen if since < 90]
    assert not [since for since, called in seen if called and since < 90]


def test_while_a_machine_runs_pulumi_removes_nothing(stack: Stack) -> None:
    receipt = stack.destroy(fake=StoppingCloud(never))
    assert not receipt.verified and stack.destroyed == []
    assert "not started: machines remain" in receipt.lines[-1].text


def test_a_stack_is_recorded_until_no_machine_with_its_id_is_listed(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Also after `pulumi destroy` has succeeded: the same command again lists them."""
    local_state.save_cluster(OURS)
    unlisted = iter([False, True])

    def of_id(_: StackMachines) -> None:
        if next(unlisted, False):
            raise RailheadError("AWS does not answer")

    monkeypatch.setattr(stack_machines, "of_id", of_id)
    assert not stack.destroy().verified
    assert stack.destroyed == [DESTROY] and local_state.clusters() == ["dev"]
    assert stack.destroy().verified and local_state.clusters() == []


def test_a_machine_that_only_stopped_is_not_gone_and_keeps_the_stack(stack: Stack) -> None:
    """Its disk costs money, and the stack's state is all that names it."""
    receipt = stack.destroy(fake=StoppingCloud(lambda *_: "stopped", costs_now=[]))
    assert not receipt.verified and stack.destroyed == []
    assert [(line.host, line.verified) for line in receipt.lines[:1]] == [("m1", False)]


def test_a_cloud_that_refuses_the_end_keeps_the_stack(stack: Stack) -> None:
    receipt = stack.destroy(fake=StoppingCloud(lambda *_: "running", refuses=True))
    assert "UnauthorizedOperation" in receipt.lines[0].text and stack.destroyed == []
    assert not receipt.verified


ID = "0a1b2c3d4e5f"
TAGS = {"railhead:id": ID, "railhead:cluster": "dev"}


@pytest.fixture
def left_group(aws_client: Callable[[str], Any]) -> Callable[[], bool]:
    """Whether a security group exists that a killed `up` left."""
    ec2 = aws_client("ec2")
    tags = [{"Key": "railhead:id", "Value": ID}]
    group = ec2.create_security_group(
        GroupName="hosts",
        Description="hosts",
        VpcId=ec2.create_vpc(CidrBlock="10.77.0.0/16")["Vpc"]["VpcId"],
        TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
    )["GroupId"]
    filters = [{"Name": "group-id", "Values": [group]}]
    return lambda: bool(ec2.describe_security_groups(Filters=filters)["SecurityGroups"])


STATE_ON_AWS = read_state("dev", {"deployment": {"resources": on_aws(cluster_id=ID)}})


def test_what_a_killed_up_left_is_removed_and_may_have_been_in_the_way(
    stack: Stack, left_group: Callable[[], bool]
) -> None:
    remaining = exported(resource("aws:ec2/vpc:Vpc", id="vpc-1"))
    stack.pulumi.answers(destroy=["exit 255", "true"], stack_export=remaining)
    receipt = stack.destroy(state=STATE_ON_AWS)
    assert receipt.verified and stack.destroyed == [DESTROY, DESTROY] and not left_group()
    assert "in no state of Pulumi, and removed: sg-" in "\n".join(receipt.describe())


def test_the_deadlines_of_machines_in_no_state_go_with_the_stack(
    aws_client: Callable[[str], Any],
) -> None:
    """Those of other clusters stay."""
    scheduler = aws_client("scheduler")
    names = ("g4dn-i-1", "g4dn-i-9", "other-i-9")
    for name in names:
        scheduler.create_schedule(
            Name=f"railhead-{name}",
            ScheduleExpression="at(2099-01-01T00:00:00)",
            FlexibleTimeWindow={"Mode": "OFF"},
            Target={
                "Arn": "arn:aws:scheduler:::aws-sdk:ec2:terminateInstances",
                "RoleArn": "arn:aws:iam::123456789012:role/stop",
                "Input": "{}",
            },
        )
    state = read_state("dev", {"deployment": {"resources": on_aws("i-1", cluster_id=ID)}})
    stray = Machine("i-9", "m9", "gone", "us-east-1", "a", "t", None, None, "g4dn", ID)
    destroy_stack._remove_unrecorded(StackMachines(state, None, None, strays=(stray,)))
    remaining = [schedule["Name"] for schedule in scheduler.list_schedules()["Schedules"]]
    assert remaining == ["railhead-other-i-9"]


@pytest.mark.parametrize("while_pulumi_runs", [True, False])
def test_a_machine_that_appears_during_a_destroy_is_not_verified(
    stack: Stack, aws_client: Callable[[str], Any], while_pulumi_runs: bool
) -> None:
    """A killed `up` may have requested it. Before Pulumi runs, it keeps Pulumi from removing the
    deadlines of such machines."""
    from standins.aws.account import run_instances

    instances: list[Any] = []

    def appear(_: float) -> None:
        if (stack.destroyed if while_pulumi_runs else fake.terminated) and not instances:
            instances.extend(run_instances(tags=TAGS))

    fake = StoppingCloud(lambda *_: "gone", costs_now=[], queried=appear)
    receipt = stack.destroy(fake=fake, state=STATE_ON_AWS)
    remains = f"{instances[0]['InstanceId']} exists" if while_pulumi_runs else "machines appeared"
    assert remains in "\n".join(receipt.describe()) and not receipt.verified
    assert stack.destroyed == ([DESTROY] if while_pulumi_runs else [])


def test_a_machine_that_appears_while_a_stack_without_one_is_destroyed_is_not_verified(
    aws_client: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from standins.aws.account import run_instances

    instances: list[Any] = []
    monkeypatch.setattr(
        pulumi_stack, "destroy", lambda _: instances.extend(run_instances(tags=TAGS))
    )
    machines = StackMachines(STATE_ON_AWS, None, None)
    receipt = destroy_stack.destroy(machines, lambda _: None, agree=lambda _: None, discard=False)
    lines = [(line.text, line.verified) for line in receipt.lines]
    assert lines == [(f"{instances[0]['InstanceId']} exists", False)]


def test_a_machine_that_runs_again_and_one_that_appears_have_one_line_each(
    stack: Stack, aws_client: Callable[[str], Any]
) -> None:
    from standins.aws.account import run_instances

    def states(name: str, _: float) -> str:
        if not stack.destroyed or name != "m1":
            return "gone"
        if not instances:
            for appeared in ("m1", "m3"):
                instances.extend(run_instances(tags=TAGS | {"Name": appeared}))
        return "running"

    instances: list[Any] = []
    receipt = stack.destroy(fake=StoppingCloud(states, costs_now=[]), state=STATE_ON_AWS)
    machines = [(x.host, x.verified) for x in receipt.lines if x.host.startswith("m")]
    assert machines == [("m1", False), ("m2", True), ("m3", False)]


def test_a_destroy_is_verified_where_leftovers_cannot_be_listed(
    stack: Stack, left_group: Callable[[], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A destroy needs no more rights than before: what may be left costs nothing."""
    import botocore.client
    import botocore.exceptions

    call = botocore.client.BaseClient._make_api_call

    def without_a_right(client: Any, operation: str, parameters: Any) -> Any:
        if operation == "ListRoles":
            denied = {"Error": {"Code": "AccessDenied", "Message": "not authorized"}}
            raise botocore.exceptions.ClientError(denied, operation)
        return call(client, operation, parameters)

    monkeypatch.setattr("botocore.client.BaseClient._make_api_call", without_a_right)
    receipt = stack.destroy(state=STATE_ON_AWS)
    assert receipt.verified and stack.destroyed == [DESTROY]
    assert "it costs nothing: AWS refuses list_roles" in "\n".join(receipt.describe())


def test_a_receipt_that_verified_nothing_is_not_verified() -> None:
    assert not Receipt("stack dev", "now", ()).verified
