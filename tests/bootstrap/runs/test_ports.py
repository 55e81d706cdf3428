"""The ports of a run's processes, and which hosts reach each other before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.errors import HostsNotReady
from bootstrap.plan import network
from bootstrap.runs import start
from railhead.documents.agent.network import SMALL_ONLY, Dialed


def cluster_of(**machines: str) -> Any:
    """A cluster of these hosts, each on the machine of this boot id, at 10.0.0.1 and on."""
    peers = [SimpleNamespace(name=n, address=f"10.0.0.{i}") for i, n in enumerate(machines, 1)]
    facts = {name: SimpleNamespace(boot_id=machine) for name, machine in machines.items()}
    return SimpleNamespace(peers=peers, facts=facts)


def test_hosts_that_share_a_machine_get_different_ports() -> None:
    """Each offers the same ones, the lowest that are free on it."""
    cluster, processes = cluster_of(h1="one", h2="two", h3="one"), [2, 1, 3]
    requests = network.port_requests(cluster, processes)
    free = {name: range(7000, 7000 + request.count) for name, request in requests.items()}
    ports = network.chosen_ports(cluster, processes, free)
    assert ports == [7000, 7001, 7000, 7002, 7003, 7004]


def test_each_pair_of_hosts_that_does_not_connect_is_named() -> None:
    cluster = cluster_of(h1="one", h2="two", h3="three")
    dials = network.dial_requests(cluster, {"h1": 1, "h2": 2, "h3": 3})
    assert dials["h2"].peers == (("10.0.0.1", 1), ("10.0.0.3", 3))
    replies = {
        "h1": Dialed(("timed out", None)),
        "h2": Dialed((None, None)),
        "h3": Dialed(("refused", "timed out")),
    }
    with pytest.raises(HostsNotReady) as refusal:
        start.refuse_closed(network.unreachable_peers(cluster, replies))
    assert refusal.value.outcomes == {
        "h1": "cannot reach h2 at 10.0.0.2: timed out",
        "h2": "ok",
        "h3": "cannot reach h1 at 10.0.0.1: refused\ncannot reach h2 at 10.0.0.2: timed out",
    }


@pytest.mark.parametrize(("reason", "advice"), [("timed out", "ports"), (SMALL_ONLY, "mtu 1500")])
def test_the_advice_is_that_for_the_reason(reason: str, advice: str) -> None:
    with pytest.raises(HostsNotReady) as refusal:
        start.refuse_closed({"h1": "", "h2": f"cannot reach h1 at 10.0.0.1: {reason}"})
    assert advice in str(refusal.value.hint)
