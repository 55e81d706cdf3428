"""The line about open ports before a run starts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from bootstrap.runs.strategies import STRATEGIES
from bootstrap.workflows.train import open_ports

OTHERS, USERS = "other machines", "other users of b"
FILES, END = "write all files", "end the run"
CASES: dict[str, tuple[str, str, bool, bool, tuple[str, ...]]] = {
    "ad-hoc hosts": ("multiworker", "10.0.0.", False, False, (OTHERS, USERS)),
    "ad-hoc hosts, as root": ("parameter-server", "10.0.0.", True, False, (OTHERS,)),
    "this computer": ("multiworker", "127.0.0.", False, False, (USERS,)),
    "this computer, as root": ("multiworker", "127.0.0.", True, False, ()),
    "a stack, whose firewall keeps others out": ("multiworker", "10.0.0.", False, True, ()),
    "Horovod": ("horovod", "10.0.0.", False, False, (OTHERS, USERS)),
    "Horovod on this computer, as root": ("horovod", "127.0.0.", True, False, ()),
}


@pytest.mark.parametrize("name, network, root, managed, who", CASES.values(), ids=CASES)
def test_the_run_says_who_reaches_the_ports_of_the_run(
    name: str, network: str, root: bool, managed: bool, who: tuple[str, ...]
) -> None:
    peers = [SimpleNamespace(name=n, address=f"{network}{i}") for i, n in enumerate("ab", 1)]
    facts = {"a": SimpleNamespace(root=True), "b": SimpleNamespace(root=root)}
    inventory = SimpleNamespace(is_managed=managed)
    cluster = SimpleNamespace(peers=peers, facts=facts, inventory=inventory)
    options = SimpleNamespace(resolved_strategy=lambda _: STRATEGIES[name])
    lines = open_ports(cast(Any, SimpleNamespace(options=options)), cast(Any, cluster))
    assert len(lines) == bool(who)
    harm = END if name == "horovod" else FILES
    assert all(harm in line and line.count(" can ") == 1 for line in lines)
    assert {text for text in (OTHERS, USERS) if any(text in line for line in lines)} == {*who}
