"""What this computer knows of stacks without Pulumi: its records, and the config files."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from standins.pulumi_command import on_aws, resource

from bootstrap.inventory import local_state, pulumi_cli, stack_config, stack_records
from bootstrap.inventory.stack_records import KnownMachine
from bootstrap.inventory.stack_state import StackState, read_state

ID = "0a1b2c3d4e5f"
SCHEDULE = "aws:scheduler/schedule:Schedule"
AT = "2026-11-23T18:00:00"


def state(*more: Any) -> StackState:
    resources = [*on_aws("i-1", "i-2", cluster_id=ID), *more]
    return read_state("dev", {"deployment": {"resources": resources}})


def place(**values: str) -> Any:
    return resource("pulumi:index:Stash", "cluster-place", id="s", outputs={"input": values})


def schedule(machine: str) -> Any:
    inputs = {"name": f"railhead-g4dn-{machine}", "scheduleExpression": f"at({AT})"}
    return resource(SCHEDULE, f"{machine}-deadline", id="d", inputs=inputs)


def test_the_recorded_place_counts_and_not_that_of_the_provider() -> None:
    """Pulumi writes another region into the provider before it fails."""
    assert state().region == "us-east-1"
    moved = state(place(cloud="aws", region="eu-west-1"))
    assert (moved.cloud, moved.region) == ("aws", "eu-west-1")
    google = state(place(cloud="gcp", region="us-central1", project="p-1"))
    assert (google.cloud, google.project) == ("gcp", "p-1")
    assert state(place(cloud="local")).cloud is None, "no machine in a cloud"


def test_a_record_has_what_finds_a_stack_without_pulumi() -> None:
    account = resource("pulumi:index:Stash", "cluster-account", id="s", outputs={"input": "1234"})
    stack_records.save_state(state(schedule("i-1"), account))
    (record,) = stack_records.of_stack("dev")
    assert (record.cluster_id, record.cloud, record.region) == (ID, "aws", "us-east-1")
    assert record.account == "1234" and record.cluster == "g4dn"
    assert record.machines["i-1"] == KnownMachine("g4dn-1", f"{AT}+00:00")
    assert record.machines["i-2"].until is None
    stack_records.forget(ID)
    assert stack_records.every() == []


def test_a_deadline_that_was_moved_is_not_forgotten_when_the_state_is_read_again() -> None:
    stack_records.save_state(state(schedule("i-1")))
    later = KnownMachine("g4dn-1", "2026-11-24T18:00:00+00:00")
    stack_records.note_deadlines(ID, {"i-1": later})
    stack_records.save_state(state(schedule("i-1")))
    record = stack_records.find(ID)
    assert record and record.machines["i-1"] == later


def test_the_end_of_a_machine_of_google_is_counted_from_its_creation() -> None:
    seconds = {"scheduling": {"maxRunDuration": {"seconds": 3600}}}
    machine = resource(
        "gcp:compute/instance:Instance", "t4-1", id="p", outputs=seconds, created=f"{AT}.123Z"
    )
    (read,) = read_state("dev", {"deployment": {"resources": [machine]}}).machines
    assert read.until == "2026-11-23T19:00:00+00:00"


@pytest.mark.parametrize(
    ("hours", "expected"), [(1, "its cloud stops it at"), (-1, "its cloud was to stop it at")]
)
def test_a_machine_that_may_run_has_its_last_known_deadline(hours: int, expected: str) -> None:
    until = (datetime.now(timezone.utc) + timedelta(hours=hours)).isoformat()
    stack_records.save_state(state())
    stack_records.note_deadlines(ID, {"i-1": KnownMachine("g4dn-1", until)})
    known, unknown = stack_records.describe({"i-1": "g4dn-1", "i-9": "g4dn-9"}, ID)
    assert known.startswith("[g4dn-1] i-1") and expected in known and "may run" in known
    assert "i-9 may run; when its cloud stops it is not known" in unknown


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cluster_id": 1}'])
def test_a_damaged_record_is_none(text: str) -> None:
    stack_records.save_state(state())
    (path,) = (local_state.home() / "stacks").iterdir()
    path.write_text(text)
    assert stack_records.find(ID) is None and stack_records.every() == []
    stack_records.save_state(state())
    assert stack_records.find(ID)


def test_a_state_without_an_id_or_a_cloud_is_not_recorded() -> None:
    stack_records.save_state(replace(state(), cluster_id=None))
    stack_records.save_state(replace(state(), cluster_id="../x"))
    stack_records.save_state(replace(state(), cloud=None))
    assert stack_records.every() == []


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(pulumi_cli, "CLONE", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: railhead\n")
    return tmp_path


def test_a_config_file_says_where_a_stack_is(clone: Path) -> None:
    (clone / "key").write_text("x")
    (clone / "Pulumi.gpu.yaml").write_text(
        f"config:\n  railhead:cloud: aws\n  railhead:owner: ann\n"
        f"  railhead:public_key_file: {clone}/key.pub\n  aws:profile: x\n"
    )
    (clone / "Pulumi.t4.yaml").write_text(
        "config:\n  railhead:cloud: gcp\n  railhead:name: big\n  railhead:project: p-1\n"
    )
    gpu, t4 = stack_config.every()
    assert (gpu.cluster, gpu.owner, gpu.region, gpu.ssh_user) == (
        "gpu", "ann", "us-east-1", "ubuntu",
    )  # fmt: skip
    assert gpu.key_file == f"{clone}/key"
    assert (t4.cluster, t4.project, t4.owner) == ("big", "p-1", stack_config.own_name())


@pytest.mark.parametrize(
    "text", ["", "config: 3", "- 1", "config:\n  - a", "\t{", "config: {1: 2}"]
)
def test_a_config_file_that_cannot_be_read_is_none(clone: Path, text: str) -> None:
    (clone / "Pulumi.gpu.yaml").write_text(text)
    assert stack_config.read("gpu") is None and stack_config.read("none") is None
