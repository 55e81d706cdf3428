"""The stand-in's own checks, without an engine: what Google would refuse is refused here."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from standins.gcp.cloud import Cloud
from standins.gcp.discovery import Request, Wrong, check

INSTANCE = "gcp:compute/instance:Instance"
GOOD: dict[str, Any] = {
    "name": "t4-1",
    "project": "p-12345",
    "zone": "us-central1-a",
    "machineType": "n1-standard-8",
    "guestAccelerators": [{"type": "nvidia-tesla-t4", "count": 1}],
    "bootDisk": {
        "autoDelete": True,
        "initializeParams": {"image": "projects/p/global/images/i", "size": 100, "type": "pd-ssd"},
    },
    "networkInterfaces": [{"subnetwork": "s", "nicType": "GVNIC", "accessConfigs": [{}]}],
    "scheduling": {
        "onHostMaintenance": "TERMINATE",
        "automaticRestart": False,
        "provisioningModel": "STANDARD",
        "preemptible": False,
        "instanceTerminationAction": "STOP",
        "maxRunDuration": {"seconds": 3600},
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    """The good inputs with another value at a path, as in "scheduling.preemptible"."""
    inputs = copy.deepcopy(GOOD)
    *outer, last = path.split(".")
    inner: Any = inputs
    for key in outer:
        inner = inner[int(key)] if key.isdigit() else inner[key]
    inner[last] = value
    return inputs


def test_a_good_machine_is_good() -> None:
    made = Cloud().check(INSTANCE, GOOD, "t4-1")
    assert made.method == "compute.instances.insert"
    assert made.body["disks"][0]["initializeParams"]["diskSizeGb"] == "100"
    assert made.body["scheduling"]["maxRunDuration"] == {"seconds": "3600"}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("name", "T4_1", "name: 'T4_1' does not match"),
        ("zone", "US", "instances.insert(zone): 'US' does not match"),
        ("networkInterfaces.0.nicType", "GVNICS", "'GVNICS' is none of GVNIC"),
        ("networkInterfaces.0.mtu", 8896, "networkInterfaces[0]: the stand-in does not know mtu"),
        ("networkInterfaces.0.subnetwork", 7, "7 is not of type string"),
        ("guestAccelerators.0.count", "1", "'1' is not of type integer"),
        ("guestAccelerators.0.count", 2**31, "is not in the range of int32"),
        ("guestAccelerators.0.count", True, "True is not of type integer"),
        ("bootDisk.initializeParams.size", "big", "'big' is not a number"),
        ("bootDisk.initializeParams.sizes", 3, "the stand-in does not know sizes"),
        ("scheduling.instanceTerminationAction", "HALT", "'HALT' is none of"),
        ("scheduling.onHostMaintenance", "MIGRATE", "need onHostMaintenance TERMINATE"),
        ("scheduling.provisioningModel", "SPOT", "spot is preemptible"),
        ("machineType", "e2-standard-4", "e2 does not support onHostMaintenance TERMINATE"),
        ("scheduling.maxRunDuration", {"seconds": 29}, "from 30 seconds to 120 days"),
        ("scheduling.onInstanceStopAction", {"discardLocalSsd": True}, "only for machines with"),
        ("machineType", "a2-ultragpu-1g", "need discardLocalSsd"),
        ("metadata", {"a key": "x"}, "key: 'a key' does not match"),
        ("labels", {"a": 1}, "1 is not of type string"),
        ("desiredState", "RUNNING", "the stand-in does not know desiredState"),
    ],
)
def test_what_google_does_not_know_is_refused(path: str, value: Any, says: str) -> None:
    with pytest.raises(Wrong) as refused:
        Cloud().check(INSTANCE, changed(path, value), "t4-1")
    assert says in str(refused.value)


@pytest.mark.parametrize(
    ("method", "params", "body", "says"),
    [
        ("compute.networks.make", {}, {}, "there is no such method"),
        ("compute.networks.insert", {}, {}, "the parameter project is missing"),
        ("compute.networks.insert", {"project": "p-1", "zone": "z"}, {}, "no parameter zone"),
        ("compute.networks.insert", {"project": "p-1"}, {}, ".name is missing"),
        ("compute.networks.insert", {"project": "p-1"}, {"name": "n", "id": "1"}, "only be read"),
        ("compute.networks.insert", {"project": "p-1"}, {"name": "n", "x": 1}, "no property x"),
        ("storage.buckets.insert", {"project": "p-1"}, {"name": "b", "rpo": 1}, "type string"),
    ],
)
def test_a_request_is_held_to_its_description(
    method: str, params: dict[str, str], body: dict[str, Any], says: str
) -> None:
    with pytest.raises(Wrong) as refused:
        check(Request(method, params, body))
    assert says in str(refused.value)


def test_a_rule_for_the_world_or_for_nothing_is_refused() -> None:
    kind = "gcp:compute/firewall:Firewall"
    rule = {"name": "r", "project": "p-1", "network": "n", "allows": [{"protocol": "tcp"}]}
    with pytest.raises(Wrong, match="without sources"):
        Cloud().check(kind, rule, "r")
    with pytest.raises(Wrong, match="a rule allows, or it denies"):
        Cloud().check(kind, {**rule, "allows": []}, "r")
    Cloud().check(kind, {**rule, "sourceRanges": ["192.0.2.0/24"]}, "r")
