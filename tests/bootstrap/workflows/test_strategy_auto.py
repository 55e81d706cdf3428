"""`--strategy auto` of a run takes Horovod only where nothing has to be compiled for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan import runtimes
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.hostfile import Peer
from bootstrap.runs.request import read_request
from bootstrap.workflows.train import with_strategy
from railhead.documents.options.runs import ProgramOptions

HOSTS = ("h1", "h2")


@pytest.mark.parametrize(
    ("installed", "plain", "wheel", "strategy"),
    [
        (HOSTS, False, None, "horovod"),
        (HOSTS[:1], False, None, "multiworker"),
        (HOSTS[:1], False, Path("horovod.whl"), "horovod"),
        ((), False, Path("horovod.whl"), "horovod"),
        ((), False, None, "multiworker"),
        (HOSTS, True, None, "multiworker"),
        (HOSTS, True, Path("horovod.whl"), "multiworker"),
    ],
)
def test_auto_takes_horovod_where_it_is_installed_or_has_a_wheel(
    debian: HostFacts, capsys: pytest.CaptureFixture[str],
    installed: tuple[str, ...], plain: bool, wheel: Path | None, strategy: str,
) -> None:  # fmt: skip
    environment = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "", plain=plain)
    there = replace(debian, envs=frozenset({environment.digest}))
    facts = {name: there if name in installed else debian for name in HOSTS}
    peers = tuple(Peer(name, f"10.0.0.{i}", 22, "u", 1, "k") for i, name in enumerate(HOSTS))
    inventory = Inventory("c", tuple(Host(name, name) for name in HOSTS))
    cluster = SurveyedCluster(inventory, facts, environment, peers, wheel)
    request = with_strategy(read_request(ProgramOptions(preset="digits", strategy="auto")), cluster)
    assert request.options.strategy == strategy
    assert f"strategy auto: {strategy}, because" in capsys.readouterr().out
