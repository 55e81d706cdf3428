"""Hosts that do not answer: what the firewall allows, and the command that changes it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from places import CASES
from standins import registered_cloud

from bootstrap.clouds import own_address
from bootstrap.clouds.aws.ec2 import Rule
from bootstrap.clouds.aws.instances import networks_of as aws_networks
from bootstrap.clouds.gcp import compute
from bootstrap.clouds.gcp.instances import networks_of as gcp_networks
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import Inventory, parse_hosts
from bootstrap.lifecycle import reach
from bootstrap.ssh.connect import Sessions
from railhead.documents.codec import decode

OPEN = ("203.0.113.0/24", "2001:db8::/64")


def golden(name: str) -> Inventory:
    return from_document(json.loads((CASES / f"documents/cluster-{name}.json").read_text()))


class Firewall:
    """A cloud of which only the firewall is queried."""

    def __init__(self, *networks: str) -> None:
        self.networks = networks

    def allowed_cidrs(self) -> tuple[str, ...]:
        return self.networks


@pytest.mark.parametrize(
    ("address", "output", "hint"),
    [
        ("203.0.113.7", "allows your address (203.0.113.7 is in", "fab status"),
        ("2001:db8::7", "allows your address (2001:db8::7 is in", "fab status"),
        (
            "198.51.100.9",
            "allows 203.0.113.0/24, 2001:db8::/64, but your address is 198.51.100.9",
            "pulumi config set ssh_cidrs 203.0.113.0/24,2001:db8::/64,198.51.100.9/32 && pulumi up",
        ),
        ("2001:db8:1::7", "but your address is 2001:db8:1::7", "2001:db8:1::7/128 && pulumi up"),
        (None, "your own address could not be determined", "curl https://"),
    ],
)
def test_who_is_let_in_decides_what_to_do(address: str | None, output: str, hint: str) -> None:
    way = reach.compare_cidrs(OPEN, address)
    assert output in way.reason
    assert hint in str(way.hint)


def test_a_firewall_that_lets_nobody_in_reports_so() -> None:
    way = reach.compare_cidrs((), "198.51.100.9")
    assert way.reason == "its firewall allows no address, but your address is 198.51.100.9"
    assert str(way.hint) == "pulumi config set ssh_cidrs 198.51.100.9/32 && pulumi up"


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """A service on the internet that answers with our address: the last entry of the list."""
    answers = [b"198.51.100.9\n"]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answers[-1])

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setenv(own_address.VARIABLE, f"http://127.0.0.1:{server.server_port}/")
    yield answers
    server.shutdown()
    server.server_close()


def test_a_public_host_sees_the_address_that_the_internet_sees(outside: list[bytes]) -> None:
    assert reach.address_towards("8.8.8.8") == "198.51.100.9"


def test_a_private_host_sees_our_own_address(outside: list[bytes]) -> None:
    assert reach.address_towards("127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize("answer", [b"<html>sign in first</html>", b"", b"300.1.1.1"])
def test_an_answer_that_is_no_address_is_none(outside: list[bytes], answer: bytes) -> None:
    outside.append(answer)
    assert reach.address_towards("8.8.8.8") is None


@pytest.mark.parametrize("name", ["aws", "gcp"])
def test_a_silent_machine_of_a_stack_is_reported_with_its_firewall(
    name: str, monkeypatch: pytest.MonkeyPatch, outside: list[bytes]
) -> None:
    registered_cloud.register(monkeypatch, name, Firewall("203.0.113.7/32"))
    inventory = golden(name)
    inventory = replace(inventory, hosts=(replace(inventory.chief, address="8.8.8.8"),))
    silent = {inventory.chief.name: TimeoutError()}
    output = reach.not_reached("1 of 1 hosts cannot be reached", Sessions(inventory, {}, silent))
    assert "its firewall allows 203.0.113.7/32, but your address is 198.51.100.9" in output.message
    assert output.hint == "pulumi config set ssh_cidrs 203.0.113.7/32,198.51.100.9/32 && pulumi up"


def test_a_cloud_that_refuses_to_report_is_no_second_error(no_aws: None) -> None:
    inventory = golden("aws")
    way = reach.diagnose(Sessions(inventory, {}, {inventory.chief.name: TimeoutError()}))
    expected = "it is not known whether the firewall allows your address: AWS call failed: Unable"
    assert way.reason.startswith(expected)


def test_a_local_host_that_is_not_reached_is_started() -> None:
    inventory = replace(golden("local"), stack="dev")
    for error in (TimeoutError(), ConnectionRefusedError()):
        way = reach.diagnose(Sessions(inventory, {}, {inventory.chief.name: error}))
        assert (way.reason, str(way.hint)) == ("", "fab start --stack dev")


def test_a_machine_that_answers_no_has_no_firewall_in_the_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    registered_cloud.register(monkeypatch, "aws", None)  # a call would be an AttributeError
    inventory = golden("aws")
    refused = Sessions(inventory, {}, {inventory.chief.name: ConnectionRefusedError()})
    assert reach.diagnose(refused) == reach.Diagnosis()
    silent = Sessions(parse_hosts("a,b"), {}, {"a": TimeoutError()})
    assert reach.diagnose(silent) == reach.Diagnosis()


RULES = [
    {"IsEgress": False, "IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "CidrIpv4": "a"},
    {"IsEgress": False, "IpProtocol": "tcp", "FromPort": 0, "ToPort": 99, "CidrIpv6": "b"},
    {"IsEgress": False, "IpProtocol": "-1", "FromPort": -1, "ToPort": -1, "CidrIpv4": "c"},
    {"IsEgress": False, "IpProtocol": "-1", "ReferencedGroupInfo": {}},
    {"IsEgress": True, "IpProtocol": "-1", "CidrIpv4": "everywhere"},
    {"IsEgress": False, "IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "CidrIpv4": "web"},
    {"IsEgress": False, "IpProtocol": "udp", "FromPort": 22, "ToPort": 22, "CidrIpv4": "udp"},
]


def test_rules_of_aws_that_let_ssh_in() -> None:
    assert aws_networks(decode(tuple[Rule, ...], RULES), 22) == ("a", "b", "c")


def rule(**options: Any) -> dict[str, Any]:
    usual = {"direction": "INGRESS", "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}]}
    return usual | {"sourceRanges": ["a"]} | options


@pytest.mark.parametrize(
    ("options", "networks"),
    [
        ({}, ("a",)),
        ({"targetTags": ["ours", "more"]}, ("a",)),
        ({"targetTags": ["theirs"]}, ()),
        ({"allowed": [{"IPProtocol": "all"}]}, ("a",)),
        ({"allowed": [{"IPProtocol": "tcp", "ports": ["20-30"]}]}, ("a",)),
        ({"allowed": [{"IPProtocol": "tcp", "ports": ["80", "443"]}]}, ()),
        ({"allowed": [{"IPProtocol": "udp"}]}, ()),
        ({"direction": "EGRESS"}, ()),
        ({"disabled": True}, ()),
        ({"allowed": [], "denied": [{"IPProtocol": "all"}]}, ()),
        ({"sourceRanges": [], "sourceTags": ["ours"]}, ()),
    ],
)
def test_rules_of_gcp_that_let_ssh_in(options: dict[str, Any], networks: tuple[str, ...]) -> None:
    assert gcp_networks([decode(compute.Firewall, rule(**options))], ["ours"], 22) == networks
