"""What a survey asks of the hosts."""

from __future__ import annotations

import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from standins.connected import connected

from bootstrap.errors import UsageError
from bootstrap.facts.egress import UNREAD, Egress, EgressCheck
from bootstrap.facts.host import Address, HostFacts, route_script
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import runtimes
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.hostfile import Peer
from bootstrap.provision.survey import resolve_peers, with_egress
from bootstrap.ssh.connect import Sessions

SHUT = Egress(EgressCheck("m", False), EgressCheck("m", False))
CLIENT = runtimes.BucketClient("3.11").digest
ENVIRONMENT = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "a reason")
READY = frozenset({ENVIRONMENT.digest, CLIENT})


class ShutIn:
    """Stands for the session of a host without outbound access."""

    def __init__(self, name: str) -> None:
        self.host, self.tests = Host(name, name), 0

    def egress(self) -> Egress:
        self.tests += 1
        return SHUT


@pytest.mark.parametrize(
    ("second", "asks"),
    [
        ({"envs": READY}, False),
        ({"envs": READY, "authorized": frozenset(), "cluster_key": None}, False),
        ({"envs": frozenset({CLIENT})}, True),  # the runtime is missing
        ({"envs": READY, "tools": {}}, True),  # packages of the system are
        ({"envs": READY - {CLIENT}}, False),  # only a chief writes to the bucket
    ],
)
def test_the_way_out_of_the_hosts_is_tested_where_one_has_something_to_install(
    debian: HostFacts, second: dict[str, Any], asks: bool
) -> None:
    facts = {"h1": replace(debian, envs=READY), "h2": replace(debian, **second)}
    cluster = of(facts)
    tested = with_egress(cluster)
    assert [session.tests for session in cluster.sessions.values()] == [int(asks)] * 2
    assert {host.egress for host in tested.facts.values()} == {SHUT if asks else UNREAD}


def test_a_chief_without_what_writes_to_the_bucket_has_something_to_install(
    debian: HostFacts,
) -> None:
    cluster = of({"h1": replace(debian, envs=READY - {CLIENT}), "h2": replace(debian, envs=READY)})
    assert with_egress(cluster).facts["h1"].egress == SHUT


def of(facts: dict[str, HostFacts]) -> Any:
    """The hosts with these facts, as a survey finds them."""
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(facts))
    inventory = Inventory("c", tuple(Host(n, n) for n in facts), cloud="aws", bucket="s3://results")
    cluster = SurveyedCluster(inventory, facts, ENVIRONMENT, peers)
    return connected(cluster, {name: ShutIn(name) for name in facts})


class Routed:
    """Stands for the session of a host that answers only while the others have to answer too."""

    def __init__(self, host: Host, everyone: threading.Barrier) -> None:
        self.host, self.everyone, self.scripts = host, everyone, list[str]()
        self.host_key = SimpleNamespace(get_name=lambda: "ssh-ed25519", get_base64=lambda: "AAAA")

    def sh(self, script: str) -> str:
        self.scripts.append(script)
        self.everyone.wait(20)
        return f"10.0.0.1 dev eth0 src 10.0.0.{self.host.name[1:]} uid 0"


def test_the_routes_of_all_hosts_are_read_at_once(debian: HostFacts) -> None:
    hosts = [Host("h1", "a"), Host("h2", "b"), Host("h3", "c", peer_address="10.9.9.9")]
    everyone = threading.Barrier(2)  # of those without an address of their own
    opened: Any = {host.name: Routed(host, everyone) for host in hosts}
    inside = {"h1": ("192.0.2.1", 22), "h2": ("192.0.2.2", 22), "h3": ("192.0.2.3", 22)}
    facts = {name: replace(debian, inside=address) for name, address in inside.items()}
    peers = resolve_peers(Sessions(Inventory("c", (*hosts,)), opened), facts, ())
    assert [peer.address for peer in peers] == ["10.0.0.1", "10.0.0.2", "10.9.9.9"]
    assert opened["h1"].scripts == [route_script("192.0.2.2")]  # to the first of the others
    assert opened["h2"].scripts == [route_script("192.0.2.1")]  # to the chief


def test_an_address_of_one_link_is_refused_with_the_others_of_its_host(debian: HostFacts) -> None:
    hosts = (Host("h1", "a"), Host("h2", "b"))
    opened: Any = {host.name: Routed(host, threading.Barrier(1)) for host in hosts}
    addresses = tuple(
        Address("eth0", address, f"{address}/64") for address in ("fe80::2", "::1", "2001:db8::2")
    )
    facts = {"h1": debian, "h2": replace(debian, addresses=addresses)}
    sessions = Sessions(Inventory("c", hosts), opened)
    assert resolve_peers(sessions, facts, ("10.0.0.1", "2001:db8::2"))[1].address == "2001:db8::2"
    with pytest.raises(UsageError, match="^h2 .* fe80::2%eth0.*: 2001:db8::2\n"):
        resolve_peers(sessions, facts, ("10.0.0.1", "fe80::2%eth0"))
