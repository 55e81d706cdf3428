"""What hosts answer to a health check, read."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hosts.operator import Cluster as HostCluster
from places import CASES
from standins.connected import connected

from bootstrap.facts.host import HostFacts
from bootstrap.health import measure, run
from bootstrap.health.checks import ClockOffset, HostReadings, TensorFlowReadings
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host
from bootstrap.plan import runtimes
from bootstrap.plan.cluster import SurveyedCluster
from bootstrap.plan.hostfile import Peer
from railhead.documents.agent.commands import CommandResult
from railhead.documents.health import Device

MESSAGES = CASES / "mpirun"
DEVICE = '{"name": "GPU:0", "width": 8192, "seconds": 0.08, "right": true}'
CUDA = "2026-11-21 10:00:00.1: E external/local_xla/xla/stream_executor/cuda/cuda_driver.cc:152] "
NO_CUDA = "failed call to cuInit: UNKNOWN ERROR (303)"

PROBES = {
    "one GPU": (
        CommandResult(0, ("WARNING: something", f'{{"gpus": 1, "devices": [{DEVICE}]}}')),
        TensorFlowReadings(1, (Device("GPU:0", 8192, 0.08, right=True),)),
    ),
    "counted alone": (CommandResult(0, ('{"gpus": 4, "devices": []}',)), TensorFlowReadings(4)),
    "no CUDA": (
        CommandResult(0, (CUDA + NO_CUDA, '{"gpus": 0, "devices": []}')),
        TensorFlowReadings(0, output=NO_CUDA),
    ),
    "no TensorFlow": (
        CommandResult(1, ("Traceback", "ModuleNotFoundError: No module named 'tensorflow'", "")),
        TensorFlowReadings(None, output="ModuleNotFoundError: No module named 'tensorflow'"),
    ),
    "killed": (CommandResult(-9, ()), TensorFlowReadings(None, output="it ended with -9")),
    "a line that clears the screen": (
        CommandResult(1, ("\x1b[2Jno",)),
        TensorFlowReadings(None, output="no"),
    ),
    "an answer that never came": (
        CommandResult(0, ("Segmentation",)),
        TensorFlowReadings(None, output="Segmentation"),
    ),
}


@pytest.mark.parametrize(("reply", "bench"), PROBES.values(), ids=PROBES)
def test_what_the_probe_answered_is_read(reply: CommandResult, bench: TensorFlowReadings) -> None:
    assert measure.read_probe(reply) == bench


class Clockwork:
    """A host whose clock is 5 s ahead of ours, answering after some seconds."""

    def __init__(self, *delays: float) -> None:
        self.now, self.delays = 1000.0, iter(delays)

    def sh(self, text: str) -> str:
        assert text.startswith("date ")
        delay = next(self.delays)
        self.now += delay
        return f"{self.now + 5 - delay / 2:.9f}\n"

    def time(self) -> float:
        return self.now


def test_a_clock_is_read_in_the_middle_of_the_way_there_and_back() -> None:
    host: Any = Clockwork(0.4)
    clock = measure.clock_of(host, host.time)
    assert (round(clock.skew, 6), round(clock.error, 6)) == (5.0, 0.2)


def test_of_three_answers_the_quickest_counts() -> None:
    host: Any = Clockwork(0.4, 0.1, 3)
    clock = measure.best_clock(host, host.time)
    assert (round(clock.skew, 6), round(clock.error, 6)) == (5.0, 0.05)


def test_a_date_without_fractions_is_read_too(debian: HostFacts) -> None:
    class Busybox:
        def sh(self, text: str) -> str:
            return "1000.%N\n"

    host: Any = Busybox()
    times: Iterator[float] = iter((1000.0, 1001.0))
    assert measure.clock_of(host, lambda: next(times)).skew == -0.5


def test_each_host_needs_memory_for_its_own_ranks(debian: HostFacts) -> None:
    facts = dict.fromkeys(("h1", "h2"), replace(debian, disk_free=10**12))
    readings = dict.fromkeys(facts, HostReadings(ClockOffset(0.0, 0.0), 1_500_000_000, None))
    findings = measure.host_findings(facts, readings, {"h1": 1, "h2": 2})
    assert [finding.host for finding in findings] == ["h2"]


def test_on_hosts_without_gpus_nothing_is_queried_before_a_run(debian: HostFacts) -> None:
    cluster: Any = type("Cluster", (), {"facts": {"h1": debian, "h2": replace(debian)}})
    measure.refuse_cpu_fallback(cluster)


PEERS = [Peer(f"h{i}", f"10.0.0.{i}", 22, "ann", slots, "k") for i, slots in ((1, 1), (2, 2))]
REASON_LENGTH = (
    "[1,0]<stdout>:\x1dfine here\x1e[1,1]<stdout>:Traceback\x1e[1,1]<stdout>:no \x1dhorovod"
)
REASON_LENGTH += '\x1e[1,1]<stdout>:@railhead {"kind": "ended", "exit": 1}\x1e[1,1]<stdout>:\x1c'


@pytest.mark.parametrize("name", ["exit", "signal", "abort", "improper"])
def test_the_host_whose_rank_ended_first_is_named_with_its_text(name: str) -> None:
    messages = (MESSAGES / f"{name}.txt").read_text()
    output = measure.first_failure([REASON_LENGTH, *messages.splitlines()], PEERS)
    assert output == ", first on h2\nTraceback\nno horovod"


@pytest.mark.parametrize("name", ["lost", "unreachable", "no-program"])
def test_where_mpirun_names_no_rank_its_own_last_lines_are_reported(name: str) -> None:
    messages = (MESSAGES / f"{name}.txt").read_text()
    output = measure.first_failure([*messages.splitlines()], PEERS)
    assert output.startswith("\n") and 1 < len(output.splitlines()) <= 1 + measure.SHOWN_LINES
    assert "---" not in output and all(line in messages for line in output.splitlines())


class Interrupted:
    """A session in which the user types Ctrl-C."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def call(self, *_: Any, **__: Any) -> None:
        raise KeyboardInterrupt


@pytest.mark.parametrize("reached", [True, False])
def test_ctrl_c_in_the_all_reduce_reports_what_becomes_of_it(
    one_host: HostCluster,
    debian: HostFacts,
    home_of_session: Path,
    monkeypatch: pytest.MonkeyPatch,
    reached: bool,
) -> None:
    monkeypatch.setenv("HOME", str(home_of_session))
    inventory = local_state.load_cluster("health_measure")
    host = inventory.chief if reached else replace(inventory.chief, port=1)
    environment = runtimes.Environment(runtimes.RUNTIMES["tf2.18-cpu"], "3.11", "")
    peers = (Peer(host.name, host.address, 22, "ann", 2, "k"),)
    facts = {host.name: replace(debian, pythons={"3.11": sys.executable})}
    known = SurveyedCluster(replace(inventory, hosts=(host,)), facts, environment, peers, None)
    leftover = one_host.machines[0].home / ".railhead/runs/health"
    (leftover / "work").mkdir(parents=True, exist_ok=True)
    reported: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        run._measure_links(
            connected(known, {host.name: Interrupted(host)}), lambda *lines: reported.extend(lines)
        )
    assert "Ctrl-C: terminating the all-reduce on every host" in reported[1]
    if reached:
        assert reported[2:] == [] and not leftover.exists()
    else:
        assert reported[2].startswith("left to the next check: 1 of 1 hosts cannot be reached")
        assert leftover.exists()
