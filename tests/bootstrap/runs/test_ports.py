"""The ports of a run's processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bootstrap.runs import start


def test_hosts_that_share_a_machine_get_different_ports() -> None:
    """Each offers the same ones, the lowest that are free on it."""

    def offers(request: Any) -> Any:
        return SimpleNamespace(ports=tuple(range(7000, 7000 + request.count)))

    peers = [SimpleNamespace(name=name) for name in ("h1", "h2", "h3")]
    sessions = {peer.name: SimpleNamespace(call=offers) for peer in peers}
    cluster: Any = SimpleNamespace(peers=peers, sessions=sessions)
    ports = start._ports(cluster, [2, 1, 3])
    assert len(ports) == len({*ports}) == 6
