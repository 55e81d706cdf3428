"""Which machines a stack has, from Pulumi's state, its document and what the cloud lists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.lifecycle.stack_machines import StackMachines, merge
from railhead.documents.cluster import Price
from railhead.documents.codec import encode

AWS_INSTANCE, GCP_INSTANCE = "aws:ec2/instance:Instance", "gcp:compute/instance:Instance"
SCHEDULE = "aws:scheduler/schedule:Schedule"
GOLDEN = json.loads((Path(__file__).parents[1] / "cases/documents/cluster-aws.json").read_text())
DOCUMENT = replace(from_document(GOLDEN), stack="g4dn")
FIRST, SECOND = (host.id or "" for host in DOCUMENT.hosts)
ID = "0a1b2c3d4e5f"
PRICE = Price(0.526, "USD", "list", "July 2026")


def made(id_: str, name: str) -> StateMachine:
    return StateMachine(id_, name, "us-east-1b", None, "10.0.1.9", "123456789012")


def listed(id_: str, name: str = "aws-g4dn-9", cluster_id: str | None = ID) -> Machine:
    return Machine(
        id_, name, "running", "us-east-1b", "g4dn.xlarge", None, "10.0.1.9", "aws-g4dn", cluster_id
    )


def state(*machines: StateMachine, **values: Any) -> StackState:
    given = {
        "stack": "g4dn", "document": None, "cluster": "aws-g4dn", "cluster_id": ID, "cloud": "aws",
        "region": "us-east-1", "project": None, "bucket": None, "price": PRICE,
    }  # fmt: skip
    return StackState(**{**given, **values}, machines=machines, kinds=())


def names(found: StackMachines) -> tuple[str, ...]:
    return found.inventory.names if found.inventory else ()


BOTH = (made(FIRST, "aws-g4dn-1"), made(SECOND, "aws-g4dn-2"))


def test_an_up_that_ended_has_the_machines_of_its_document() -> None:
    account = Listed("account 1", (listed(FIRST), listed(SECOND)))
    found = merge(state(*BOTH), DOCUMENT, account)
    assert found.inventory == DOCUMENT and not found.undocumented and not found.strays
    assert found.describe() == [] and found.place == "account 1, us-east-1"
    found.refuse_undocumented()


def test_an_up_that_broke_off_before_its_output_has_the_machines_of_the_state() -> None:
    found = merge(state(*BOTH), None, Listed("account 1", (listed(FIRST), listed(SECOND))))
    assert names(found) == ("aws-g4dn-1", "aws-g4dn-2") and found.in_document is None
    assert found.inventory and found.inventory.cloud == "aws" and found.inventory.cluster_id == ID
    assert found.inventory.price == replace(PRICE, per_hour=1.052)
    (line,) = found.describe()
    assert "broke off" in line and "fab up --stack g4dn" in line
    assert "fab teardown --destroy --stack g4dn" in line
    with pytest.raises(UsageError, match="does not have aws-g4dn-1, aws-g4dn-2"):
        found.refuse_undocumented()


def test_a_resize_that_broke_off_has_the_old_and_the_new() -> None:
    found = merge(state(*BOTH, made("i-3", "aws-g4dn-3")), DOCUMENT, Listed("account 1", ()))
    assert names(found) == (*DOCUMENT.names, "aws-g4dn-3")
    assert found.undocumented == ["aws-g4dn-3"]
    assert found.inventory and found.inventory.price == replace(PRICE, per_hour=0.526 * 3)
    assert found.in_document and found.in_document.hosts == DOCUMENT.hosts


def test_status_has_a_line_for_the_timer_of_a_running_machine_in_no_output() -> None:
    found = merge(
        state(*BOTH, made("i-3", "aws-g4dn-3"), made("i-4", "aws-g4dn-4")),
        DOCUMENT,
        Listed("account 1", ()),
    )
    assert found.inventory
    states = {
        name: InstanceState("stopped" if name[-1] == "4" else "running", None, "EC2", "12:00")
        for name in found.inventory.names
    }
    assert unread_timers(ClusterStatus(found.inventory, states, "us-east-1"), found) == [
        "[aws-g4dn-3] deadline timer: not read: the machine is in no output of the stack"
    ]


def test_a_killed_up_has_machines_that_are_in_no_state() -> None:
    """Two machines of one name too: the engine made the second when it began again."""
    orphans = (listed("i-8", "aws-g4dn-1"), listed("i-9", "aws-g4dn-9"))
    found = merge(state(*BOTH), DOCUMENT, Listed("account 1", orphans))
    assert names(found) == (*DOCUMENT.names, "aws-g4dn-1.i-8", "aws-g4dn-9")
    assert [each.id for each in found.strays] == ["i-8", "i-9"]
    text = "\n".join(found.describe())
    assert "in no state of Pulumi, with this stack's id: aws-g4dn-9 (i-9, g4dn.xlarge in" in text


def test_an_address_that_another_machine_has_by_now_is_not_used() -> None:
    taken = replace(listed("i-9"), address=DOCUMENT.hosts[0].address)
    found = merge(state(*BOTH), DOCUMENT, Listed("account 1", (taken,)))
    assert found.inventory and found.inventory.hosts[-1].address == "i-9"


@pytest.mark.parametrize("cluster_id", ["another", None])
def test_machines_of_others_are_listed_and_never_ours(cluster_id: str | None) -> None:
    """Also with the same name, cluster and stack: two people may each have a stack `gpu`."""
    theirs = listed("i-7", "aws-g4dn-1", cluster_id)
    found = merge(state(*BOTH), DOCUMENT, Listed("account 1", (theirs,)))
    assert found.inventory == DOCUMENT and found.others == (theirs,) and not found.strays
    assert "which no command of this stack ends" in found.describe()[0]


def test_a_stack_without_an_id_claims_no_machine_without_one() -> None:
    found = merge(state(cluster_id=None), None, Listed("account 1", (listed("i-7", "x", None),)))
    assert found.inventory is None and len(found.others) == 1


def test_a_machine_of_an_old_document_that_nobody_has_is_left_out() -> None:
    found = merge(state(BOTH[0]), DOCUMENT, Listed("account 1", (listed(FIRST),)))
    assert names(found) == ("aws-g4dn-1",)


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
    found = read_state(
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
    assert (found.cluster_id, found.cloud, found.region, found.cluster) == (
        ID, "aws", "us-east-1", "g4dn"
    )  # fmt: skip
    assert (found.document, found.price) == (GOLDEN, PRICE) and found.bucket == "s3://railhead-b"
    assert found.account == "123456789012"
    assert found.machines == (
        StateMachine("i-1", "g4dn-1", "us-east-1b", "203.0.113.9", "10.0.1.9", "123456789012"),
    )
    assert found.kinds == ("aws:s3/bucket:Bucket", AWS_INSTANCE, SCHEDULE)
    assert found.schedules == ("railhead-g4dn-i-1",)


def test_a_state_on_google_cloud() -> None:
    path = "projects/p-1/zones/us-central1-a/instances/t4-1"
    made_there = {
        "name": "t4-1",
        "zone": "us-central1-a",
        "networkInterfaces": [{"networkIp": "10.1.2.3", "accessConfigs": [{"natIp": "1.2.3.4"}]}],
    }
    provider = {"project": "p-1", "region": "us-central1"}
    found = read_state(
        "t4",
        deployment(
            resource("pulumi:providers:gcp", "t4", custom=True, id="p", inputs=provider),
            resource(GCP_INSTANCE, "t4-1", custom=True, id=path, outputs=made_there),
        ),
    )
    assert (found.cloud, found.project, found.cluster_id) == ("gcp", "p-1", None)
    assert found.machines == (StateMachine(path, "t4-1", "us-central1-a", "1.2.3.4", "10.1.2.3"),)


def test_an_empty_state() -> None:
    found = read_state("g4dn", {})
    assert found.cloud is None and found.machines == () and found.document is None


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
