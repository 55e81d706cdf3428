"""Machines of a stack whose state is lost: searched by tags and records, adopted; against moto."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("boto3", reason="scripts/setup --stacks installs boto3")
pytest.importorskip("moto", reason="scripts/setup --dev installs moto")

from standins.aws.account import account, run_instances  # noqa: E402

from bootstrap.clouds.aws import client as aws_client  # noqa: E402
from bootstrap.clouds.base import Refused  # noqa: E402
from bootstrap.clouds.existing import existing  # noqa: E402
from bootstrap.clouds.machines import Place, list_machines, place_named  # noqa: E402
from bootstrap.errors import UsageError  # noqa: E402
from bootstrap.inventory import local_state, pulumi_cli, stack_records  # noqa: E402
from bootstrap.inventory.stack_records import StackRecord  # noqa: E402
from bootstrap.lifecycle import lost, stack_machines  # noqa: E402
from bootstrap.lifecycle.adopt import adopt  # noqa: E402

OURS, THEIRS = "0a1b2c3d4e5f", "ffffffffffff"
HERE = Place("aws", "us-east-1")


def machine(cluster_id: str = OURS, **tags: str) -> str:
    """An instance with these tags of Railhead; its id."""
    values = {"cluster": "gpu", "stack": "gpu", "owner": "ann", "id": cluster_id, **tags}
    (machine_id,) = run_instances(
        1, {"Name": "gpu-1", **{f"railhead:{k}": v for k, v in values.items()}}
    )
    return str(machine_id["InstanceId"])


@pytest.fixture(autouse=True)
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A clone in which ann has the stack gpu on AWS."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setattr(pulumi_cli, "CLONE", tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pulumi.yaml").write_text("name: railhead\n")
    settings = "config:\n  railhead:cloud: aws\n  railhead:owner: ann\n"
    (tmp_path / "Pulumi.gpu.yaml").write_text(settings)
    with account():
        yield tmp_path


def record(cluster_id: str = OURS, **values: Any) -> None:
    known = {"cluster": "gpu", "stack": "gpu", "cloud": "aws", "region": "us-east-1", **values}
    stack_records.save(StackRecord(cluster_id=cluster_id, **known))


def ids(stack: str = "gpu") -> list[str]:
    return [machine.id for machine in lost.search(stack).machines]


def test_machines_are_found_by_cluster_stack_and_owner() -> None:
    ours = machine()
    for other in ({"owner": "ben"}, {"cluster": "big"}, {"stack": "other"}):
        machine(THEIRS, **other)
    search = lost.search("gpu")
    assert [each.id for each in search.machines] == [ours] and not search.is_evidence
    error = search.error()
    assert ours in error.message and "owner ann" in error.message
    assert error.hint.startswith(f"fab adopt {OURS} ")


def test_machines_are_found_by_a_record_without_a_config_file(clone: Path) -> None:
    (clone / "Pulumi.gpu.yaml").unlink()
    ours = machine(owner="ben")
    assert ids() == []
    record()
    assert ids() == [ours] and ids("another") == []
    record(THEIRS, region=None)  # in each region, also there
    assert ids() == [ours]


def test_a_search_without_a_place_or_without_credentials_is_no_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert lost.search("gpu").is_evidence
    assert "no machine has its tags in account 123456789012" in lost.search("gpu").text
    nowhere = lost.search("another")
    assert not nowhere.is_evidence and "Pulumi.another.yaml" in nowhere.text
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    record(region="eu-west-1")
    blind = lost.search("gpu")
    assert not blind.is_evidence and "aws, eu-west-1 are not known" in blind.text
    assert "next:" not in blind.text and blind.hint.startswith("aws sso login")
    with pytest.raises(UsageError, match="searched: aws, ") as refused:
        adopt(OURS, place=None, owner="ann", report=lambda _: None)
    assert "next:" not in refused.value.message and refused.value.hint == blind.hint


def test_adopted_machines_are_those_of_a_stack_with_their_id_as_its_name() -> None:
    ours = machine()
    lines: list[str] = []
    adopt(OURS, place=None, owner=None, report=lines.append)
    assert f"fab status --stack {OURS}" in "\n".join(lines)
    adopted = local_state.adopted(OURS)
    assert adopted and [host.id for host in adopted.hosts] == [ours]
    known = stack_records.find(OURS)
    assert known and {i: one.name for i, one in known.machines.items()} == {ours: "gpu-1"}
    assert adopted.target == {"stack": OURS} and adopted.chief.user == "ubuntu"
    assert adopted.deadlines[0].id == f"railhead-gpu-{ours}"
    machines = stack_machines.of_record(adopted)
    assert machines.is_adopted and not machines.undocumented and machines.state.cluster == "gpu"
    assert str(lost.search("gpu").error().hint).startswith(f"fab status --stack {OURS}")


def test_machines_of_another_owner_are_adopted_only_by_that_name() -> None:
    machine(THEIRS, owner="ben")
    with pytest.raises(UsageError, match="the owner is ben, not ann") as refused:
        adopt(THEIRS, place=None, owner=None, report=lambda _: None)
    assert f"fab adopt {THEIRS} --owner ben" in refused.value.hint
    assert local_state.adopted(THEIRS) is None
    adopt(THEIRS, place=None, owner="ben", report=lambda _: None)
    assert local_state.adopted(THEIRS)


def test_machines_without_an_owner_are_adopted() -> None:
    """Somebody removed their tag, or an older version did not set it: no owner would fit."""
    values = {"cluster": "gpu", "stack": "gpu", "id": OURS}
    run_instances(1, {f"railhead:{key}": value for key, value in values.items()})
    adopt(OURS, place=None, owner=None, report=lambda _: None)
    assert local_state.adopted(OURS)


def test_an_adopted_cluster_does_not_replace_another_of_its_name() -> None:
    """Two people, one stack name: each cluster keeps its record, its keys and its runs."""
    machine(OURS), machine(THEIRS)
    for cluster_id in (OURS, THEIRS, OURS):
        adopt(cluster_id, place=None, owner="ann", report=lambda _: None)
    assert sorted(local_state.clusters()) == ["gpu", f"gpu-{THEIRS}"]
    theirs = local_state.adopted(THEIRS)
    assert theirs and theirs.deadlines[0].id == f"railhead-gpu-{theirs.chief.id}"
    assert stack_machines.of_record(theirs).state.cluster == "gpu"


def test_an_id_that_no_machine_has_names_the_places_that_were_searched() -> None:
    record(THEIRS, cloud="local", region=None)  # neither has machines that could be adopted
    record("eeeeeeeeeeee", cloud="a-later-one")
    with pytest.raises(UsageError, match="searched: aws, us-east-1") as refused:
        adopt(OURS, place=None, owner=None, report=lambda _: None)
    assert f"fab adopt {OURS} --region REGION" in refused.value.hint
    assert "local" not in refused.value.message and "a-later-one" not in refused.value.message


def test_what_exists_with_an_id_is_listed_by_region() -> None:
    ours = machine()
    machine(THEIRS)
    assert existing(HERE, OURS) == {"us-east-1": [f"gpu-1 ({ours}, running)"]}
    assert existing(Place("aws", "eu-west-1"), OURS) == {}
    assert existing(Place("local"), OURS) == {}


def refuse(monkeypatch: pytest.MonkeyPatch, *regions: str) -> None:
    """Two regions exist, and these of them do not list their machines."""
    call = aws_client._call

    def answer(client: Any, service: str, operation: str, parameters: Any) -> Any:
        if operation == "describe_regions":
            return {"Regions": [{"RegionName": r} for r in ("eu-north-1", "us-east-1")]}
        if operation == "describe_instances" and client("ec2").meta.region_name in regions:
            raise Refused("AWS refuses describe_instances", "UnauthorizedOperation")
        return call(client, service, operation, parameters)

    monkeypatch.setattr(aws_client, "_call", answer)


def test_a_search_that_misses_one_of_two_regions_is_no_evidence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record(region="eu-north-1")
    assert lost.search("gpu").is_evidence
    refuse(monkeypatch, "eu-north-1")
    search = lost.search("gpu")
    assert not search.is_evidence and "aws, eu-north-1 are not known" in search.text
    assert "no machine has its tags in account 123456789012" in search.text


@pytest.mark.parametrize("refused", [("eu-north-1",), ("eu-north-1", "us-east-1")])
def test_a_region_that_an_organisation_forbids_hides_no_other(
    refused: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all regions refuse, what exists is not known."""
    ours = machine()
    refuse(monkeypatch, *refused)
    if len(refused) == 2:
        with pytest.raises(Refused):
            list_machines(Place("aws"))
    else:
        assert [machine.id for machine in list_machines(Place("aws")).machines] == [ours]


def test_credentials_of_another_account_are_refused() -> None:
    """They see no machine, which would look as if none existed."""
    machine()
    adopt(OURS, place=None, owner=None, report=lambda _: None)
    record(account="999999999999")
    adopted = local_state.adopted(OURS)
    assert adopted
    with pytest.raises(UsageError, match="of account 123456789012, and stack") as refused:
        stack_machines.of_record(adopted)
    assert "log in to account 999999999999" in refused.value.hint


@pytest.mark.parametrize(
    ("region", "project", "place"),
    [
        (None, None, None),
        ("eu-west-1", None, Place("aws", "eu-west-1")),
        (None, "p-1", Place("gcp", None, "p-1")),
    ],
)
def test_options_name_a_place(region: str | None, project: str | None, place: Place | None) -> None:
    assert place_named(region, project) == place
