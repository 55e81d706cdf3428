"""Which machines a stack has, from Pulumi's state, its document and what the cloud lists."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import CASES
from standins.pulumi_command import PulumiCommand, exported
from standins.sites import GcpSite, gcp

from bootstrap.cli.status import unread_timers
from bootstrap.clouds.base import InstanceState
from bootstrap.clouds.machines import Listed, Machine
from bootstrap.errors import UsageError
from bootstrap.inventory.document import from_document
from bootstrap.inventory.stack_state import (
    STASH,
    StackState,
    StateMachine,
    read_state,
)
from bootstrap.lifecycle import destroy
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.lifecycle.stack_machines import StackMachines, find, merge
from railhead.documents.cluster import ClusterPrice
from railhead.documents.codec import encode

AWS_INSTANCE, GCP_INSTANCE = "aws:ec2/instance:Instance", "gcp:compute/instance:Instance"
SCHEDULE = "aws:scheduler/schedule:Schedule"
GOLDEN = json.loads((CASES / "documents/cluster-aws.json").read_text())
DOCUMENT = replace(from_document(GOLDEN), stack="g4dn")
FIRST, SECOND = (host.id or "" for host in DOCUMENT.hosts)
ID = "0a1b2c3d4e5f"
PRICE = ClusterPrice(0.526, "USD", "list", "July 2026")


def made(id_: str, name: str) -> StateMachine:
    return StateMachine(id_, name, "us-east-1b", None, "10.0.1.9", "123456789012")


def listed(id_: str, name: str = "aws-g4dn-9", cluster_id: str | None = ID) -> Machine:
    return Machine(
        id_,
        name,
        "running",
        "us-east-1",
        "us-east-1b",
        "g4dn.xlarge",
        None,
        "10.0.1.9",
        "aws-g4dn",
        cluster_id,
    )


def state(*machines: StateMachine, **values: Any) -> StackState:
    values_of_all = {
        "stack": "g4dn", "document": None, "cluster": "aws-g4dn", "cluster_id": ID, "cloud": "aws",
        "region": "us-east-1", "project": None, "bucket": None, "price": PRICE,
    }  # fmt: skip
    return StackState(**{**values_of_all, **values}, machines=machines, kinds=())


def names(merged: StackMachines) -> tuple[str, ...]:
    return merged.inventory.names if merged.inventory else ()


BOTH = (made(FIRST, "aws-g4dn-1"), made(SECOND, "aws-g4dn-2"))


def test_an_up_that_ended_has_the_machines_of_its_document() -> None:
    account = Listed("account 1", (listed(FIRST), listed(SECOND)))
    merged = merge(state(*BOTH), DOCUMENT, account)
    assert merged.inventory == DOCUMENT and not merged.undocumented and not merged.strays
    assert merged.describe() == [] and merged.place == "account 1, us-east-1"
    merged.refuse_undocumented()


def test_an_up_that_broke_off_before_its_output_has_the_machines_of_the_state() -> None:
    merged = merge(state(*BOTH), None, Listed("account 1", (listed(FIRST), listed(SECOND))))
    assert names(merged) == ("aws-g4dn-1", "aws-g4dn-2") and merged.in_document is None
    assert (
        merged.inventory and merged.inventory.cloud == "aws" and merged.inventory.cluster_id == ID
    )
    assert merged.inventory.price == replace(PRICE, per_hour=1.052)
    (line,) = merged.describe()
    assert "broke off" in line and "fab up --stack g4dn" in line
    assert "fab teardown --destroy --stack g4dn" in line
    with pytest.raises(UsageError, match="does not have aws-g4dn-1, aws-g4dn-2"):
        merged.refuse_undocumented()


def test_a_resize_that_broke_off_has_the_old_and_the_new() -> None:
    merged = merge(state(*BOTH, made("i-3", "aws-g4dn-3")), DOCUMENT, Listed("account 1", ()))
    assert names(merged) == (*DOCUMENT.names, "aws-g4dn-3")
    assert merged.undocumented == ["aws-g4dn-3"]
    assert merged.inventory and merged.inventory.price == replace(PRICE, per_hour=0.526 * 3)
    assert merged.in_document and merged.in_document.hosts == DOCUMENT.hosts


def test_status_has_a_line_for_the_timer_of_a_running_machine_in_no_output() -> None:
    merged = merge(
        state(*BOTH, made("i-3", "aws-g4dn-3"), made("i-4", "aws-g4dn-4")),
        DOCUMENT,
        Listed("account 1", ()),
    )
    assert merged.inventory
    states = {
        name: InstanceState("stopped" if name[-1] == "4" else "running", None, "EC2", "12:00")
        for name in merged.inventory.names
    }
    assert unread_timers(ClusterStatus(merged.inventory, states, "us-east-1"), merged) == [
        "[aws-g4dn-3] deadline timer: not read: the machine is in no output of the stack"
    ]


def test_a_killed_up_has_machines_that_are_in_no_state() -> None:
    """Two machines of one name too: the engine made the second when it began again."""
    orphans = (listed("i-8", "aws-g4dn-1"), listed("i-9", "aws-g4dn-9"))
    theirs = listed("i-7", "aws-g4dn-7", "another")
    merged = merge(state(*BOTH), DOCUMENT, Listed("account 1", (*orphans, theirs)))
    assert names(merged) == (*DOCUMENT.names, "aws-g4dn-1.i-8", "aws-g4dn-9")
    assert [each.id for each in merged.strays] == ["i-8", "i-9"] and merged.others == (theirs,)
    broke_off, *strays = merged.describe()
    assert "its output cluster does not have aws-g4dn-1.i-8, aws-g4dn-9\n" in broke_off
    assert strays[1].startswith(
        "in no state of Pulumi, with this stack's id: aws-g4dn-9 (i-9, g4dn.xlarge in"
    )


def test_an_address_that_another_machine_has_by_now_is_not_used() -> None:
    taken = replace(listed("i-9"), address=DOCUMENT.hosts[0].address)
    merged = merge(state(*BOTH), DOCUMENT, Listed("account 1", (taken,)))
    assert merged.inventory and merged.inventory.hosts[-1].address == "i-9"


@pytest.mark.parametrize("cluster_id", ["another", None])
def test_machines_of_others_are_listed_and_never_ours(cluster_id: str | None) -> None:
    """Also with the same name, cluster and stack: two people may each have a stack `gpu`."""
    theirs = listed("i-7", "aws-g4dn-1", cluster_id)
    merged = merge(state(*BOTH), DOCUMENT, Listed("account 1", (theirs,)))
    assert merged.inventory == DOCUMENT and merged.others == (theirs,) and not merged.strays
    assert "which no command of this stack ends" in merged.describe()[0]


def test_a_stack_without_an_id_claims_no_machine_without_one() -> None:
    merged = merge(state(cluster_id=None), None, Listed("account 1", (listed("i-7", "x", None),)))
    assert merged.inventory is None and len(merged.others) == 1


def test_a_machine_of_an_old_document_that_nobody_has_is_left_out() -> None:
    merged = merge(state(BOTH[0]), DOCUMENT, Listed("account 1", (listed(FIRST),)))
    assert names(merged) == ("aws-g4dn-1",)


def test_where_the_cloud_does_not_answer_the_document_counts() -> None:
    assert merge(state(), DOCUMENT, None).inventory == DOCUMENT


def test_many_others_are_counted() -> None:
    many = tuple(listed(f"i-{n}", "x", "another") for n in range(23))
    assert merge(state(), None, Listed("a", many)).describe()[-1] == "  and 3 machines more"


# --- Pulumi's state --------------------------------------------------------------------------


def resource(kind: str, name: str, **values: Any) -> dict[str, Any]:
    return {"urn": f"urn:pulumi:g4dn::railhead::{kind}::{name}", "type": kind, **values}


def deployment(*resources: dict[str, Any]) -> dict[str, Any]:
    return {"version": 3, "deployment": {"resources": resources}}


def test_a_state_on_aws() -> None:
    instance = {
        "arn": "arn:aws:ec2:us-east-1:123456789012:instance/i-1",
        "availabilityZone": "us-east-1b",
        "publicIp": "203.0.113.9",
        "privateIp": "10.0.1.9",
    }
    read = read_state(
        "g4dn",
        deployment(
                resource("pulumi:pulumi:Stack", "railhead-g4dn", outputs={"cluster": GOLDEN}),
                resource("pulumi:providers:aws", "g4dn", custom=True, id="p",
                         inputs={"region": "us-east-1"}),
                resource(STASH, "cluster-id", custom=True, id="s", outputs={"output": ID}),
                resource(STASH, "price-per-machine", outputs={"input": encode(PRICE)}),
                resource("railhead:aws:Cluster", "g4dn"),
                resource("aws:s3/bucket:Bucket", "b", custom=True, id="railhead-b"),
                resource(AWS_INSTANCE, "g4dn-1", custom=True, id="i-1", outputs=instance),
                resource(SCHEDULE, "g4dn-1", custom=True, id="default/railhead-g4dn-i-1",
                         inputs={"name": "railhead-g4dn-i-1"}),
        ),
    )  # fmt: skip
    assert (read.cluster_id, read.cloud, read.region, read.cluster) == (
        ID, "aws", "us-east-1", "g4dn"
    )  # fmt: skip
    assert (read.document, read.price) == (GOLDEN, PRICE) and read.bucket == "s3://railhead-b"
    assert read.account == "123456789012"
    assert read.machines == (
        StateMachine("i-1", "g4dn-1", "us-east-1b", "203.0.113.9", "10.0.1.9", "123456789012"),
    )
    assert read.kinds == ("aws:s3/bucket:Bucket", AWS_INSTANCE, SCHEDULE)
    assert read.schedules == ("railhead-g4dn-i-1",)


def test_a_state_on_google_cloud() -> None:
    path = "projects/p-1/zones/us-central1-a/instances/t4-1"
    made_there = {
        "name": "t4-1",
        "zone": "us-central1-a",
        "networkInterfaces": [{"networkIp": "10.1.2.3", "accessConfigs": [{"natIp": "1.2.3.4"}]}],
    }
    provider = {"project": "p-1", "region": "us-central1"}
    read = read_state(
        "t4",
        deployment(
            resource("pulumi:providers:gcp", "t4", custom=True, id="p", inputs=provider),
            resource(GCP_INSTANCE, "t4-1", custom=True, id=path, outputs=made_there),
        ),
    )
    assert (read.cloud, read.project, read.cluster_id) == ("gcp", "p-1", None)
    assert read.machines == (StateMachine(path, "t4-1", "us-central1-a", "1.2.3.4", "10.1.2.3"),)


@pytest.fixture
def site(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcpSite]:
    """The machines of a stack in Google Cloud."""
    pytest.importorskip("googleapiclient", reason="scripts/setup --dev installs it")
    with gcp(monkeypatch) as site:
        yield site


def on_google(cluster_id: str | None, *machines: dict[str, Any]) -> str:
    """What `pulumi stack export` prints of a stack in Google Cloud."""
    provider = {"project": "p-1", "region": "us-central1"}
    return exported(
        resource("pulumi:providers:gcp", "t4", custom=True, id="p", inputs=provider),
        resource(STASH, "cluster-id", outputs={"output": cluster_id}),
        *machines,
    )


def test_a_zone_out_of_reach_hides_no_machine_of_the_others(
    pulumi: PulumiCommand, site: GcpSite
) -> None:
    """Pulumi was killed before it recorded the machines: no command would stop them."""
    pulumi.answers(stack_export=on_google(site.inventory.cluster_id))
    site.lose_zone("europe-west4-a")
    machines = find("dev")
    ids = {host.id for host in site.inventory.hosts}
    assert {machine.id for machine in machines.strays} == ids and len(names(machines)) == 2
    assert "zones/europe-west4-a" in machines.unlisted


@pytest.mark.parametrize("lost", ["", "europe-west4-a"], ids=["", "a zone is out of reach"])
def test_a_machine_that_another_stack_has_under_its_name_by_now_is_left_alone(
    pulumi: PulumiCommand, site: GcpSite, lost: str
) -> None:
    """A teardown broke off when its machine was gone, and a colleague has created one of the same
    name: for Google Cloud, and for Pulumi, it is the same."""
    machine = resource(GCP_INSTANCE, "host-1", custom=True, id=site.inventory.chief.id)
    pulumi.answers(stack_export=on_google("f" * 12, machine), destroy="true")
    if lost:
        site.lose_zone(lost)
    with pytest.raises(UsageError, match=r"host-1 of stack dev is gone") as caught:
        destroy.teardown_stack(
            find("dev"), discard=True, destroyed=True, yes=True, with_bucket=False
        )
    assert site.changes == [] and pulumi.called("destroy") == []
    assert f"::{GCP_INSTANCE}::host-1" in caught.value.hint


def test_an_empty_state() -> None:
    read = read_state("g4dn", {})
    assert read.cloud is None and read.machines == () and read.document is None


@pytest.mark.parametrize(
    "resources",
    [
        [resource(STASH, "price-per-machine", outputs={"input": {"per_hour": "1"}})],
        [{"type": STASH}],
    ],
)
def test_a_state_that_is_damaged_is_named(resources: list[dict[str, Any]]) -> None:
    with pytest.raises(UsageError, match="Pulumi's state of stack g4dn"):
        read_state("g4dn", deployment(*resources))
