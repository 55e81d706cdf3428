"""Processes that train together, as the ranks of runs do: tests/training/strategies/probe.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from places import ROOT, TESTS
from standins.forks import FORKED, with_tensorflow
from standins.runs.run_documents import run_json
from standins.stores.servers import free_ports

PROBE = TESTS / "training/strategies/probe.py"
ELSEWHERE = "results-of-the-last-worker"
Command = tuple[list[str], dict[str, str]]  # what to start, and its part of the environment


@dataclass(frozen=True)
class Training:
    """One training of a launch; `size` is the number of processes that the run says it has."""

    settings: Mapping[str, Any]
    strategy: str = ""  # that of the launch
    size: int = 0  # as many as are started
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outcome:
    """What one training left: exit code, output per process, results, and each rank's report."""

    code: int
    outputs: list[str]
    folder: Path
    ranks: dict[int, dict[str, Any]]

    @property
    def results(self) -> Path:
        """Its results folder."""
        return self.folder / "results"

    def records(self, kind: str, process: int = 0) -> list[dict[str, Any]]:
        lines = self.outputs[process].splitlines()
        texts = [line.partition("@railhead ")[2] for line in lines if "@railhead " in line]
        return [record for record in map(json.loads, texts) if record["kind"] == kind]

    def killed(self, rank: int) -> list[float]:
        """The moving averages of a rank when it was killed."""
        averages: list[float] = json.loads((self.folder / f"killed-{rank}.json").read_text())
        return averages


def launch(
    folder: Path,
    strategy: str,
    trainings: Mapping[str, Training],
    *,
    processes: int = 1,
    chiefs: int = 0,
    python: str = "",
    **extra: str,
) -> dict[str, Outcome]:
    """Train one after the other, in the same processes; `chiefs` of the workers are chief. `python`
    is another runtime's than that of the fixture `runtime_python`."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [job(folder / name, strategy, each, processes) for name, each in trainings.items()]
    (folder / "jobs.json").write_text(json.dumps(jobs))
    environment = {
        **{name: value for name, value in os.environ.items() if name != "TF_CONFIG"},
        "PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}",
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "RAILHEAD_FORKS": with_tensorflow(python or os.environ["RAILHEAD_TEST_PYTHON"]),
        **extra,
    }
    texts = run_together(commands(strategy, processes, chiefs), folder, environment)
    outcomes = {name: outcome(folder / name, processes) for name in trainings}
    assert all(each.outputs for each in outcomes.values()), texts
    return outcomes


def job(folder: Path, strategy: str, training: Training, processes: int) -> dict[str, Any]:
    """A training as probe.py reads it; its folder has the run document."""
    folder.mkdir()
    hosts = [{"name": "h1", "peer_address": "127.0.0.1", "slots": processes, "port": 1}]
    program = {"kind": "training", "settings": training.settings}
    document = run_json(strategy=training.strategy or strategy, program=program, hosts=hosts)
    (folder / "run.json").write_text(json.dumps(document))
    environment = {
        "RAILHEAD_RUN_FILE": str(folder / "run.json"),
        "RAILHEAD_RESULTS": str(folder / "results"),
        "RAILHEAD_SIZE": str(training.size or processes),
        "RAILHEAD_HOST": "h1",
        "PROBE_FOLDER": str(folder),
        **training.environment,
    }
    return {"environment": environment}


def outcome(folder: Path, processes: int) -> Outcome:
    """What the processes left; -1 counts for one that was killed."""
    paths = [folder / f"code-{number}" for number in range(processes)]
    codes = [int(path.read_text()) if path.exists() else -1 for path in paths]
    outputs = [path.read_text() for path in sorted(folder.glob("output-*"))]
    reports = {
        int(path.stem[5:]): json.loads(path.read_text()) for path in folder.glob("rank-*.json")
    }
    return Outcome(max(codes, key=abs), outputs, folder, reports)


def commands(strategy: str, processes: int, chiefs: int = 0) -> list[Command]:
    """What to start; each process has its number."""
    probe = [str(FORKED), str(PROBE), "jobs.json"]
    if strategy == "horovod":
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        mpirun = ["mpirun", "--bind-to", "none", "--map-by", "slot", "--oversubscribe"]
        mpirun += ["-mca", "mpi_yield_when_idle", "1"]  # as runs do
        return [([*mpirun, "-np", str(processes), *probe], root)]
    configs: Sequence[dict[str, str]] = [{}]
    if strategy == "multiworker":
        configs = tf_configs({"chief": chiefs, "worker": processes - chiefs})
        configs[-1]["PROBE_RESULTS"] = ELSEWHERE  # relative to the folder where it runs
    if strategy == "parameter-server":
        configs = tf_configs({"chief": 1, "ps": 1, "worker": 2})
    return [([*probe, str(number)], config) for number, config in enumerate(configs)]


def tf_configs(counts: dict[str, int]) -> list[dict[str, str]]:
    """The variable of each process of a cluster with so many of each role, in this order."""
    addresses = iter([f"127.0.0.1:{port}" for port in free_ports(sum(counts.values()))])
    cluster = {
        role: [next(addresses) for _ in range(count)] for role, count in counts.items() if count
    }
    tasks = [(role, index) for role, places in cluster.items() for index in range(len(places))]
    return [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}
        for role, index in tasks
    ]


def run_together(started: list[Command], folder: Path, environment: dict[str, str]) -> list[str]:
    """Run all commands at once; none outlives the test."""
    processes = [
        subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command, variables in started
    ]
    try:
        return [process.communicate(timeout=900)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
