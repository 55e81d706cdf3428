"""Who can reach the hosts: the operator, and they each other."""

from __future__ import annotations

from typing import Any

import pytest

from .world import FIREWALL, INSTANCE, NETWORK, SUBNET, denied, made, world


def test_ssh_from_the_operator_and_everything_inside_and_nothing_else() -> None:
    everything = made(ssh_cidrs=("203.0.113.7/32", "198.51.100.0/24"), count=3)
    rules = {rule.name: rule.inputs for rule in everything.every(FIREWALL)}
    assert set(rules) == {"cluster-ssh", "cluster-inside"}
    ssh, inside = rules["cluster-ssh"], rules["cluster-inside"]
    assert ssh["allows"] == [{"protocol": "tcp", "ports": ["22"]}]
    assert ssh["sourceRanges"] == ["203.0.113.7/32", "198.51.100.0/24"]
    assert inside["allows"] == [{"protocol": "all"}]
    assert inside["sourceTags"] == ["railhead-t4"] and "sourceRanges" not in inside
    for rule in rules.values():
        assert rule["targetTags"] == ["railhead-t4"] and rule["direction"] == "INGRESS"
    assert all(r.inputs["tags"] == ["railhead-t4"] for r in everything.every(INSTANCE))


@pytest.mark.parametrize("network", [None, "default"])
def test_nothing_is_ever_open_to_the_world(network: str | None) -> None:
    for rule in made(network=network).every(FIREWALL):
        if "allows" in rule.inputs:
            assert "0.0.0.0/0" not in rule.inputs.get("sourceRanges", [])
            assert rule.inputs.get("sourceRanges") or rule.inputs.get("sourceTags")


def test_in_a_network_that_was_there_all_else_is_denied_before_its_own_rules() -> None:
    everything = made(network="default")
    assert not everything.kinds & {NETWORK, SUBNET}
    rules = {rule.name: rule.inputs for rule in everything.every(FIREWALL)}
    deny = rules["cluster-nothing-else"]
    assert deny["denies"] == [{"protocol": "all"}] and "allows" not in deny
    assert deny["sourceRanges"] == ["0.0.0.0/0"] and deny["targetTags"] == ["railhead-t4"]
    assert (
        rules["cluster-ssh"]["priority"]
        == rules["cluster-inside"]["priority"]
        < deny["priority"]
        < 1000
    )


@pytest.mark.parametrize("network", [None, "default"])
def test_machines_wait_for_the_firewall(network: str | None) -> None:
    """`default` lets everybody in: a machine must not run before all else is denied."""
    everything = made(network=network)
    rules = {rule.urn for rule in everything.every(FIREWALL)}
    assert all(rules <= set(host.depends_on) for host in everything.every(INSTANCE))


def test_the_own_network_reaches_google_without_the_internet() -> None:
    everything = made()
    assert everything.one(NETWORK).inputs["autoCreateSubnetworks"] is False
    subnet = everything.one(SUBNET).inputs
    assert subnet["privateIpGoogleAccess"] is True and subnet["region"] == "us-central1"


@pytest.mark.parametrize(
    ("subnets", "has"), [([], "none"), (["a", "b"], "a, b"), (["elsewhere"], "none")]
)
def test_a_network_needs_one_subnet_in_the_region(subnets: list[str], has: str) -> None:
    def answer(args: dict[str, Any]) -> dict[str, Any]:
        region = "us-east1" if subnets == ["elsewhere"] else "us-central1"
        links = [f"projects/p-12345/regions/{region}/subnetworks/{name}" for name in subnets]
        return {"selfLink": "n", "subnetworksSelfLinks": links}

    message = denied(world(getNetwork=answer), network="net")
    assert message.startswith(f"network: net must have one subnet in us-central1, and has {has}\n")
