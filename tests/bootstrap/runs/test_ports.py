"""The ports of a run's processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from bootstrap.runs import start


def test_hosts_that_share_a_machine_get_different_ports() -> None:
    """Each offers the same ones, the lowest that are free on it."""

    def offers(request: Any) -> Any:
        return SimpleNamespace(ports=tuple(range(7000, 7000 + request.count)))

    machines = {"h1": "one", "h2": "two", "h3": "one"}
    peers = [SimpleNamespace(name=name) for name in machines]
    facts = {name: SimpleNamespace(boot_id=machine) for name, machine in machines.items()}
    sessions = {p.name: SimpleNamespace(call=offers, host=p) for p in peers}
    cluster: Any = SimpleNamespace(peers=peers, sessions=sessions, facts=facts)
    ports = start._ports(cluster, [2, 1, 3])
    assert ports == [7000, 7001, 7000, 7002, 7003, 7004]
