"""The end of a stack's machines and its receipt, against clouds that behave and that do not.

Time is faked: a cloud that takes 90 seconds takes none here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from bootstrap.clouds import base, bucket
from bootstrap.clouds.base import Cost, Deadline, InstanceState, Refused
from bootstrap.clouds.storage import NoBucket
from bootstrap.console.wait import Clock
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state, pulumi_stack
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.inventory.stack_state import StackState, read_state
from bootstrap.lifecycle import destroy as destroy_stack
from bootstrap.lifecycle import stack_machines
from bootstrap.lifecycle.consent import confirm_by_name
from bootstrap.lifecycle.receipt import Receipt, check
from bootstrap.lifecycle.stack_machines import StackMachines

if TYPE_CHECKING:
    from standins.buckets import OnGcs, World

HOSTS = (Host("m1", "10.0.0.1", id="i-1"), Host("m2", "10.0.0.2", id="i-2"))
OURS = Inventory("dev", HOSTS, cloud="aws", region="us-east-1", stack="dev")
DISK = Cost("disk vol-1 of m1, 100 GB", 0.26, "fab teardown --destroy")
HELD = Cost("bucket s3://b, 3 objects, 1.00 GB", None, "fab teardown --destroy --with-bucket")
States = Callable[[str, float], str]


@dataclass
class Fake:
    """A cloud whose machines' states are a function of the seconds since they were stopped."""

    states: States
    costs_now: list[Cost] = field(default_factory=lambda: [DISK])
    refuses: bool = False
    time: float = 0.0
    stop_requested: float | None = None
    ended: bool = False

    def instance_states(self) -> dict[str, InstanceState]:
        since = -1.0 if self.stop_requested is None else self.time - self.stop_requested
        return {
            h.name: InstanceState(self.states(h.name, since), None, "EC2 X", f"at {self.time:.0f}")
            for h in HOSTS
        }

    def start(self) -> None:
        raise AssertionError("nobody starts machines at their end")

    def stop(self) -> None:
        if self.refuses:
            raise Refused(
                "AWS refuses stop_instances: UnauthorizedOperation", "UnauthorizedOperation"
            )
        self.stop_requested = self.time

    def end(self) -> None:
        self.stop()
        self.ended = True

    def cannot_stop(self) -> list[str]:
        return []

    def deadlines(self) -> dict[str, Deadline]:
        return {}

    def set_deadline(self, hours: float) -> None:
        raise AssertionError("nor arms a deadline")

    def allowed_cidrs(self) -> tuple[str, ...]:
        raise AssertionError("nor asks who is let in")

    def costs(self) -> list[Cost]:
        return self.costs_now

    def account(self) -> str:
        return "account 1"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        return {}

    def clock(self) -> Clock:
        def sleep(seconds: float) -> None:
            self.time += seconds

        return Clock(lambda: self.time, sleep)


def takes(seconds: float) -> States:
    return lambda _, t: "running" if t < 0 else "stopping" if t < seconds else "stopped"


def never(name: str, t: float) -> str:
    return "stopped" if name == "m1" and t > 30 else "stopping" if t >= 0 else "running"


def wakes(name: str, t: float) -> str:
    """Says stopped once, and then runs."""
    return "stopped" if 20 <= t < 25 or (name == "m1" and t > 20) else "running"


def ended(fake: Fake, inventory: Inventory = OURS) -> tuple[Receipt, list[str]]:
    lines: list[str] = []
    return destroy_stack.stop(inventory, fake, lines.append, clock=fake.clock()), lines


def test_a_cloud_that_takes_90_seconds() -> None:
    fake = Fake(takes(90))
    receipt, output = ended(fake)
    assert receipt.verified and 90 <= fake.time < 110
    assert output == ["m1, m2 stopping", "m1, m2 stopped"]
    check(receipt)
    text = "\n".join(receipt.describe())
    assert "m1     ok  stopped (says EC2 X, at " in text
    assert "100 GB: 0.26 USD per day; ends with: fab teardown --destroy" in text


def test_a_cloud_that_never_stops_one() -> None:
    fake = Fake(never)
    receipt, _ = ended(fake)
    assert 600 <= fake.time < 620
    assert [line.verified for line in receipt.lines if line.host in ("m1", "m2")] == [True, False]
    with pytest.raises(RailheadError, match="not everything could be verified") as caught:
        check(receipt)
    assert caught.value.code == 1


def test_a_cloud_that_reports_stopped_and_then_runs() -> None:
    receipt, _ = ended(Fake(wakes))
    wrong = next(line for line in receipt.lines if line.host == "m2")
    assert not wrong.verified
    assert wrong.text.startswith("running (says EC2 X")
    assert wrong.text.endswith("; it was said to be stopped at at 20")


def test_the_time_of_a_stop_is_the_first_at_which_the_cloud_reported_it() -> None:
    """Also when the machine is queried often afterwards."""
    fake = Fake(takes(0))
    fake.stop()
    times = destroy_stack.StopTimes(fake)
    for fake.time in (7.0, 12.0, 17.0):
        times.instance_states()
    assert times.stopped_at == {"m1": "at 7", "m2": "at 7"}


def test_a_receipt_says_when_the_machines_were_seen_at_rest() -> None:
    receipt, _ = ended(Fake(takes(90)))
    (first, *_) = [line for line in receipt.lines if line.host == "m1"]
    seen = int(first.text.partition("EC2 X, at ")[2].partition(")")[0])
    assert 90 <= seen < 110
    at = datetime.strptime(receipt.at, "%Y-%m-%d %H:%M:%S UTC").replace(tzinfo=timezone.utc)
    assert abs((datetime.now(timezone.utc) - at).total_seconds()) < 60


def test_a_cloud_that_refuses_is_reported_and_its_machines_are_not_verified() -> None:
    receipt, _ = ended(Fake(takes(0), refuses=True))
    assert "UnauthorizedOperation" in receipt.lines[0].text
    assert [line.verified for line in receipt.lines[:3]] == [False] * 3


def test_machines_that_are_gone_are_at_rest() -> None:
    receipt, _ = ended(Fake(lambda *_: "gone"))
    assert receipt.verified


def test_a_machine_that_nobody_knows_is_not_verified() -> None:
    receipt, _ = ended(Fake(lambda *_: "unknown"))
    assert not receipt.verified


def test_costs_that_the_cloud_does_not_report_are_not_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def costs(_: Fake) -> list[Cost]:
        raise Refused("AWS refuses describe_volumes", "UnauthorizedOperation")

    monkeypatch.setattr(Fake, "costs", costs)
    receipt, _ = ended(Fake(takes(1)))
    assert receipt.lines[-1].host == "bills" and not receipt.verified


def save_run(run_id: str = "r1") -> None:
    local_state.save_run({"run_id": run_id, "cluster": "dev"}, local_state.home() / "nowhere")


def test_results_that_are_only_on_the_chief_are_reported() -> None:
    save_run()
    receipt, _ = ended(Fake(takes(1)))
    assert receipt.lines[-1].text.startswith("r1: only on m1")


def test_a_bucket_that_cannot_be_queried_ends_no_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(_: Inventory) -> BucketContents:
        raise UsageError("Google call failed: you are not logged in")

    save_run()
    monkeypatch.setattr(bucket, "bucket_of", of)
    receipt, _ = ended(Fake(takes(1)), replace(OURS, bucket="gs://b"))
    last = receipt.lines[-1]
    assert "on m1's disk, and perhaps in gs://b: Google call failed" in last.text
    assert not last.verified


class BucketContents:
    """A bucket with the results of some runs."""

    def __init__(self, *runs: str) -> None:
        self.runs, self.store = runs, SimpleNamespace(url="s3://b")

    def manifest(self, run_id: str) -> list[dict[str, Any]] | None:
        return [] if run_id in self.runs else None

    def empty(self, report: Callable[[str], None], below: str = "") -> int:
        report("3 removed")
        return 2 if below == "wheels/" else 3


# --- destroy


@pytest.fixture
def destroyed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stacks that Pulumi was stop_requested to destroy."""
    found: list[str] = []
    monkeypatch.setattr(pulumi_stack, "destroy", found.append)
    return found


def destroy(inventory: Inventory = OURS, fake: Fake | None = None, **options: Any) -> Receipt:
    fake = fake or Fake(lambda *_: "gone", costs_now=[])
    options = {"agree": lambda _: None, "discard": False, "clock": fake.clock(), **options}
    machines = StackMachines(state_of(inventory), inventory, inventory)
    with mock.patch.object(base, "cloud_of", lambda _: fake):
        return destroy_stack.destroy(machines, lambda _: None, **options)


def state_of(inventory: Inventory) -> StackState:
    """A state that lists no machines in a cloud."""
    return replace(read_state("dev", {}), bucket=inventory.bucket)


def test_a_destroy_lists_what_goes_and_ends_with_what_the_cloud_reports(
    destroyed: list[str],
) -> None:
    listed: list[str] = []
    receipt = destroy(fake=Fake(lambda *_: "gone", [DISK, HELD]), agree=listed.append)
    assert destroyed == ["dev"] and receipt.verified
    assert (
        "machine m1 (i-1)" in listed[0] and "stays if it has more than wheels: bucket" in listed[0]
    )
    assert "m1     ok  gone" in "\n".join(receipt.describe())


def test_a_machine_that_survives_a_destroy_is_not_verified(destroyed: list[str]) -> None:
    assert not destroy(fake=Fake(lambda *_: "running")).verified


def test_a_destroy_is_refused_while_results_are_only_there(destroyed: list[str]) -> None:
    save_run()
    with pytest.raises(UsageError, match="results of r1 were not fetched") as caught:
        destroy()
    assert "--discard-results" in caught.value.hint and destroyed == []
    assert destroy(discard=True).verified and destroyed == ["dev"]


def test_files_that_were_too_large_to_fetch_are_results_too(destroyed: list[str]) -> None:
    save_run()
    here = local_state.home() / "nowhere"
    here.mkdir(parents=True)
    (here / "result.json").write_text("{}")
    destroy()
    (here / "left-on-host.txt").write_text("2.0 GB  work/model.bin")
    with pytest.raises(UsageError, match="would be deleted"):
        destroy()


@pytest.mark.parametrize("with_bucket, lost", [(False, False), (True, True)])
def test_results_in_a_bucket_that_stays_are_not_lost(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch, with_bucket: bool, lost: bool
) -> None:
    save_run()
    monkeypatch.setattr(bucket, "bucket_of", lambda _: BucketContents("r1"))
    ours = replace(OURS, bucket="s3://b")
    if lost:
        with pytest.raises(UsageError, match="would be deleted"):
            destroy(ours, with_bucket=with_bucket)
    else:
        destroy(ours, with_bucket=with_bucket)
    assert destroyed == ([] if lost else ["dev"])


def test_a_bucket_that_is_gone_holds_no_results(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: BucketContents, run_id: str) -> None:
        raise NoBucket("gs://b")

    save_run()
    monkeypatch.setattr(bucket, "bucket_of", lambda _: BucketContents())
    monkeypatch.setattr(BucketContents, "manifest", gone)
    with pytest.raises(UsageError, match="would be deleted"):
        destroy(replace(OURS, bucket="gs://b"))


def test_a_bucket_is_emptied_when_that_is_requested(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bucket, "bucket_of", lambda _: BucketContents())
    receipt = destroy(replace(OURS, bucket="s3://b"), with_bucket=True)
    assert receipt.lines[0].text == "3 objects removed, with old versions"


@pytest.mark.parametrize("document", [OURS, None])
def test_the_bucket_that_an_earlier_destroy_kept_is_emptied_too(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch, document: Inventory | None
) -> None:
    contents = BucketContents("r1")
    monkeypatch.setattr(bucket, "bucket_of", lambda ours: contents if ours.bucket else None)
    state = replace(state_of(replace(OURS, bucket="s3://b")), cluster="dev")
    machines, listed = StackMachines(state, document, None), list[str]()

    def again(**options: Any) -> Receipt:
        options = {"agree": listed.append, "discard": False, "with_bucket": True, **options}
        return destroy_stack.destroy(machines, lambda _: None, **options)

    receipt = again()
    assert receipt.lines[0].text == "3 objects removed, with old versions"
    assert "with all that is in s3://b" in listed[0] and destroyed == ["dev"]
    assert not again(with_bucket=False).lines and "s3://b" not in listed[1]
    save_run()
    with pytest.raises(UsageError, match="results of r1 were not fetched"):
        again()


def test_the_wheels_in_a_bucket_go_with_the_stack(destroyed: list[str], world: World) -> None:
    """They can be built again, and would else keep a bucket that has nothing else for ever."""
    for name in ("wheels/k/wheel.json", "wheels/k/0/a.whl", "runs/r1/manifest.json"):
        world.put(name, b"1")
    world.put("wheels/k/wheel.json", b"2")
    ours = replace(OURS, bucket=world.inventory.bucket)
    receipt = destroy(ours)
    expected = "the Horovod wheels in it: 3 objects removed, with old versions"
    assert receipt.lines[0].text == expected and receipt.verified and destroyed == ["dev"]
    assert world.names() == ["runs/r1/manifest.json"]
    assert not [line for line in destroy(ours).lines if line.host == "bucket"]


def test_wheels_that_may_not_be_removed_stop_no_destroy(
    destroyed: list[str], on_gcs: OnGcs
) -> None:
    on_gcs.put("wheels/k/wheel.json", b"1")
    on_gcs.store.held = {"wheels/k/wheel.json": "no right"}
    receipt = destroy(replace(OURS, bucket="gs://results-b"))
    expected = "the Horovod wheels in it stay: Google refuses to remove wheels/k/wheel.json"
    assert receipt.lines[0].text.startswith(expected) and destroyed == ["dev"]


LEFT = {
    "a bucket with objects": (["aws:s3/bucket:Bucket", "aws:s3/bucketPolicy:BucketPolicy"], True),
    "a bucket of Google": (["gcp:storage/bucket:Bucket"], True),
    "a network": (["aws:s3/bucket:Bucket", "aws:ec2/vpc:Vpc"], False),
    "nothing that is named": ([], False),
}


@pytest.mark.parametrize("left, fine", LEFT.values(), ids=LEFT)
def test_what_pulumi_leaves_is_reported(
    monkeypatch: pytest.MonkeyPatch, left: list[str], fine: bool
) -> None:
    def fails(_: str) -> None:
        raise RailheadError("pulumi could not destroy all of dev")

    monkeypatch.setattr(pulumi_stack, "destroy", fails)
    monkeypatch.setattr(pulumi_stack, "resources", lambda _: left)
    assert destroy().verified == fine


def test_the_command_after_a_killed_pulumi_is_in_the_receipt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def locked(_: str) -> None:
        raise RailheadError("pulumi could not destroy all of dev", hint="pulumi cancel --yes")

    monkeypatch.setattr(pulumi_stack, "destroy", locked)
    monkeypatch.setattr(pulumi_stack, "resources", lambda _: ["aws:ec2/vpc:Vpc"])
    assert "next: pulumi cancel --yes" in "\n".join(destroy().describe())


def test_machines_end_also_where_their_costs_cannot_be_read(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def costs(_: Fake) -> list[Cost]:
        raise Refused("AWS refuses describe_volumes", "UnauthorizedOperation")

    monkeypatch.setattr(Fake, "costs", costs)
    fake = Fake(lambda *_: "gone")
    destroy(fake=fake)
    assert fake.ended and destroyed == ["dev"]


def test_a_name_has_to_be_typed(monkeypatch: pytest.MonkeyPatch, destroyed: list[str]) -> None:
    with pytest.raises(UsageError, match="question cannot be answered"):
        destroy(agree=confirm_by_name("dev", yes=False))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda _: "other")
    with pytest.raises(UsageError, match="that is not its name"):
        destroy(agree=confirm_by_name("dev", yes=False))
    assert destroyed == []
    monkeypatch.setattr("builtins.input", lambda _: " dev ")
    destroy(agree=confirm_by_name("dev", yes=False))
    destroy(agree=confirm_by_name("dev", yes=True))
    assert destroyed == ["dev", "dev"]


def test_the_machines_end_before_pulumi_removes_their_deadlines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`pulumi destroy` may break off, and has then removed the schedules already."""
    fake = Fake(lambda _, since: "running" if since < 90 else "gone", costs_now=[])
    seen: list[tuple[bool, float]] = []
    monkeypatch.setattr(pulumi_stack, "destroy", lambda _: seen.append((fake.ended, fake.time)))
    assert destroy(fake=fake).verified
    assert [ended for ended, _ in seen] == [True] and seen[0][1] >= 90


def test_while_a_machine_runs_pulumi_removes_nothing(destroyed: list[str]) -> None:
    receipt = destroy(fake=Fake(never))
    assert not receipt.verified and destroyed == []
    assert "not started: machines remain" in receipt.lines[-1].text


def test_a_cloud_that_refuses_the_end_keeps_the_stack(destroyed: list[str]) -> None:
    receipt = destroy(fake=Fake(lambda *_: "running", refuses=True))
    assert "UnauthorizedOperation" in receipt.lines[0].text and destroyed == []
    assert not receipt.verified


def test_what_a_killed_up_left_is_removed_and_may_have_been_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs: list[str] = []

    def fails_first(stack: str) -> None:
        runs.append(stack)
        if len(runs) == 1:
            raise RailheadError("pulumi could not destroy all of dev")

    monkeypatch.setattr(pulumi_stack, "destroy", fails_first)
    monkeypatch.setattr(pulumi_stack, "resources", lambda _: ["aws:ec2/vpc:Vpc"])
    monkeypatch.setattr(stack_machines, "remove_leftovers", lambda _: ["sg-1"])
    receipt = destroy()
    assert receipt.verified and runs == ["dev", "dev"]
    assert "in no state of Pulumi, and removed: sg-1" in "\n".join(receipt.describe())


def test_a_destroy_is_verified_where_leftovers_cannot_be_listed(
    destroyed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A destroy needs no more rights than before: what may be left costs nothing."""

    def refused(_: StackMachines) -> list[str]:
        raise Refused("AWS refuses list_roles: AccessDenied", "AccessDenied")

    monkeypatch.setattr(stack_machines, "remove_leftovers", refused)
    receipt = destroy()
    assert receipt.verified and destroyed == ["dev"]
    assert "it costs nothing: AWS refuses list_roles" in "\n".join(receipt.describe())
