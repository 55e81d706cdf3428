"""The requests to hosts before a run, and the meaning of the replies: whether the hosts reach each
other, and the ports of the run's processes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from railhead.documents.agent.network import Dial, Dialed, Listen, Ports
from railhead.documents.lazy import dataclass

from .cluster import SurveyedCluster


@dataclass(frozen=True)
class Offer:
    """What a host offers for a run: the port at which its agent answers peers (or None), and free
    ports."""

    listener: int | None
    free: tuple[int, ...]


def listen_requests(cluster: SurveyedCluster) -> dict[str, Listen]:
    """For each host, the request that its agent answers peers."""
    return {peer.name: Listen(peer.address) for peer in cluster.peers}


def dial_requests(cluster: SurveyedCluster, listeners: Mapping[str, int]) -> dict[str, Dial]:
    """For each host, the request to connect to the listeners of all others."""
    return {
        name: Dial(
            tuple(
                (peer.address, listeners[peer.name]) for peer in cluster.peers if peer.name != name
            ),
            timeout=5,
        )
        for name in listeners
    }


def unreachable_peers(cluster: SurveyedCluster, replies: Mapping[str, Dialed]) -> dict[str, str]:
    """The replies to `dial_requests` for people: {host: a line per unreachable peer}."""
    return {
        name: "\n".join(
            f"cannot reach {peer.name} at {peer.address}: {why}"
            for peer, why in zip(
                (peer for peer in cluster.peers if peer.name != name), reply.wrong, strict=True
            )
            if why
        )
        for name, reply in replies.items()
    }


def port_requests(cluster: SurveyedCluster, processes: Sequence[int]) -> dict[str, Ports]:
    """For each host, the request for free ports: as many as its machine has processes of the run.
    `processes`: their number on each host."""
    on_machine = Counter[str]()
    for peer, number in zip(cluster.peers, processes, strict=True):
        on_machine[cluster.facts[peer.name].boot_id] += number
    return {p.name: Ports(on_machine[cluster.facts[p.name].boot_id]) for p in cluster.peers}


def chosen_ports(
    cluster: SurveyedCluster, processes: Sequence[int], free: Mapping[str, Sequence[int]]
) -> list[int]:
    """A free port for each process of each host; hosts that share a machine get different ports.
    `free`: the replies to `port_requests`."""
    ports: list[int] = []
    taken = defaultdict[str, set[int]](set)
    for peer, number in zip(cluster.peers, processes, strict=True):
        of_machine = taken[cluster.facts[peer.name].boot_id]
        of_host = [port for port in free[peer.name] if port not in of_machine][:number]
        of_machine.update(of_host)
        ports += of_host
    return ports
