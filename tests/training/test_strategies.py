"""Real trainings, one per strategy: two replicas make the model that one makes of the same batches.

They need a runtime's python (TensorFlow, Keras, Horovod): the fixture `runtime_python`.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from standins.run_documents import run_json
from standins.servers import free_ports

from training.data.assignment import shuffled

ROOT = Path(__file__).parents[2]
PROBE = Path(__file__).with_name("probe.py")

# Shards of so many records each. The labels follow from the inputs.
UNEVEN = """
import sys
from pathlib import Path
import numpy as np
from training.data import manifest
from training.data.arrays import Arrays
from training.data.shard_writer import write_all
from training.data.store import Folder
folder, described = Path(sys.argv[1]), []
for number, count in enumerate(map(int, sys.argv[2:])):
    part = folder / str(number)
    part.mkdir(parents=True)
    x = np.random.RandomState(number).rand(count, 4).astype("float32")
    arrays = Arrays(x, np.arange(count) % 2, ("a", "b"))
    made = write_all(arrays, part, 1, 0, lambda path: None)
    (part / made.shards[0].name).rename(folder / f"shard-{number}")
    described.append(manifest.Shard(f"shard-{number}", *list(vars(made.shards[0]).values())[1:]))
manifest.write(Folder(folder), manifest.Manifest(made.schema, tuple(described)))
"""

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("runtime_python")]
ELSEWHERE = "results-of-the-last-worker"
needs_mpirun = pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed")

# 1024 samples are 16 batches of 64, or of 32 on each of two replicas: the same global batches.
# Plain descent, for Adam's division would blow rounding errors up.
SETTINGS = {
    "data": "synthetic",
    "synthetic_samples": 1024,
    "shift": 0,
    "model": "linear",
    "optimizer": "sgd",
    "epochs": 2,
    "min_accuracy": 0.05,
}
TWO = {**SETTINGS, "batch_size": 32, "learning_rate": 0.1}
ONE = {**SETTINGS, "batch_size": 64, "learning_rate": 0.2, "warmup_epochs": 0.0}
# Without a warm-up the rate is the multiplied one from the first step, so the models compare.
FLAT = {**TWO, "warmup_epochs": 0.0}
RESULTS = {"checkpoints", "evaluation.json", "model.keras", "saved_model", "tensorboard", "worst"}


@dataclass(frozen=True)
class Outcome:
    """What one training left: exit code, output per process, results, and each rank's words."""

    code: int
    outputs: list[str]
    results: Path
    ranks: dict[int, dict[str, Any]]

    def records(self, kind: str, process: int = 0) -> list[dict[str, Any]]:
        lines = self.outputs[process].splitlines()
        found = [line.partition("@railhead ")[2] for line in lines if "@railhead " in line]
        return [record for record in map(json.loads, found) if record["kind"] == kind]


def train(
    folder: Path,
    strategy: str,
    settings: dict[str, Any],
    *,
    processes: int = 1,
    chiefs: int = 0,
    **extra: str,
) -> Outcome:
    """Train as a run's ranks would, and wait for all of them; `chiefs` of the workers are chief."""
    hosts = [{"name": "h1", "peer_address": "127.0.0.1", "slots": processes, "port": 1}]
    program = {"kind": "training", "settings": settings}
    document = run_json(strategy=strategy, program=program, hosts=hosts)
    run_file = folder / "run.json"
    run_file.write_text(json.dumps(document))
    environment = {
        **{name: value for name, value in os.environ.items() if name != "TF_CONFIG"},
        "RAILHEAD_RUN_FILE": str(run_file),
        "RAILHEAD_RESULTS": str(folder / "results"),
        "RAILHEAD_SIZE": str(processes),
        "RAILHEAD_HOST": "h1",
        "PROBE_FOLDER": str(folder),
        "PYTHONPATH": str(ROOT),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        **extra,
    }
    codes, outputs = run_together(commands(strategy, processes, chiefs), folder, environment)
    values = {
        int(path.stem[5:]): json.loads(path.read_text()) for path in folder.glob("rank-*.json")
    }
    return Outcome(max(codes, key=abs), outputs, folder / "results", values)


def commands(
    strategy: str, processes: int, chiefs: int = 0
) -> list[tuple[list[str], dict[str, str]]]:
    """What to start, each with its own part of the environment."""
    probe = [os.environ["RAILHEAD_TEST_PYTHON"], str(PROBE)]
    if strategy in ("horovod", "auto"):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        mpirun = ["mpirun", "--bind-to", "none", "--map-by", "slot", "--oversubscribe"]
        return [([*mpirun, "-np", str(processes), *probe], root)]
    if strategy == "multiworker":
        own = tf_configs({"chief": chiefs, "worker": processes - chiefs})
        own[-1]["RAILHEAD_RESULTS"] = ELSEWHERE  # relative to the folder where it runs
        return [(probe, environment) for environment in own]
    if strategy == "parameter-server":
        own = tf_configs({"chief": 1, "ps": 1, "worker": 2})
        return [(probe, environment) for environment in own]
    return [(probe, {})]


def tf_configs(counts: dict[str, int]) -> list[dict[str, str]]:
    """The variable of each process of a cluster with so many of each role, in this order."""
    addresses = iter([f"127.0.0.1:{port}" for port in free_ports(sum(counts.values()))])
    cluster = {
        role: [next(addresses) for _ in range(count)] for role, count in counts.items() if count
    }
    tasks = [(role, index) for role, found in cluster.items() for index in range(len(found))]
    return [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}
        for role, index in tasks
    ]


def run_together(
    started: list[tuple[list[str], dict[str, str]]], folder: Path, environment: dict[str, str]
) -> tuple[list[int], list[str]]:
    """Run all commands at once; none outlives the test."""
    processes = [
        subprocess.Popen(
            command,
            cwd=folder,
            env={**environment, **own},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command, own in started
    ]
    try:
        outputs = [process.communicate(timeout=300)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], outputs


@pytest.fixture(scope="module")
def alone(runtime_python: str, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    """One replica trained on the whole batches."""
    return train(tmp_path_factory.mktemp("alone"), "one-device", ONE)


def assert_same_model(outcome: Outcome, alone: Outcome, processes: int) -> None:
    assert outcome.code == 0, outcome.outputs
    assert sorted(outcome.ranks) == list(range(processes))
    for output in outcome.ranks.values():
        assert output["rates"] == pytest.approx([0.1, 0.2]), (
            "the warm-up ends at size times the rate"
        )
        assert output["iterations"] == alone.ranks[0]["iterations"] == 32
        for found, wanted in zip(output["weights"], alone.ranks[0]["weights"], strict=True):
            assert found == pytest.approx(wanted, abs=1e-5)
    replicas = [
        number for rank in sorted(outcome.ranks) for number in outcome.ranks[rank]["replicas"]
    ]
    assert replicas == [0, 1]
    assert_results(outcome, alone)


def assert_results(outcome: Outcome, alone: Outcome) -> None:
    """Rank 0's files and records, with the figures of all ranks together."""
    assert {path.name for path in outcome.results.iterdir()} == RESULTS
    evaluation, expected = (
        json.loads((folder / "evaluation.json").read_text())
        for folder in (outcome.results, alone.results)
    )
    confusion = evaluation.pop("confusion")
    assert sum(map(sum, confusion)) == evaluation["samples"] == 204
    for name in ("accuracy", "loss"):
        assert evaluation[name] == pytest.approx(expected[name], abs=1e-4)
    (record,) = outcome.records("evaluation")
    shown = {name: value for name, value in evaluation.items() if name in record}
    assert record == pytest.approx({"kind": "evaluation", **shown}, abs=1e-4)
    epochs = outcome.records("epoch")
    assert [record["epoch"] for record in epochs] == [1, 2]
    for found, wanted in zip(epochs, alone.records("epoch"), strict=True):
        for name in ("loss", "accuracy", "val_loss", "val_accuracy"):
            assert found[name] == pytest.approx(wanted[name], abs=1e-4), name
    last = outcome.records("progress")[-1]
    assert (last["step"], last["steps"], last["seconds_left"]) == (32, 32, 0)


def test_one_device_trains_and_leaves_its_results(alone: Outcome) -> None:
    assert alone.code == 0, alone.outputs
    losses = [record["loss"] for record in alone.records("epoch")]
    assert losses[1] < losses[0]
    assert json.loads((alone.results / "evaluation.json").read_text())["threshold"] == 0.05
    assert_results(alone, alone)


def test_mirrored_makes_the_same_model(tmp_path: Path, alone: Outcome) -> None:
    outcome = train(tmp_path, "mirrored", FLAT, PROBE_TWO_REPLICAS="1")
    assert_same_model(outcome, alone, processes=1)


@needs_mpirun
def test_horovod_makes_the_same_model_on_every_rank(tmp_path: Path, alone: Outcome) -> None:
    outcome = train(tmp_path, "horovod", FLAT, processes=2)
    assert_same_model(outcome, alone, processes=2)
    assert len(outcome.records("message")) == 2, "the second rank of a host is silent"


@needs_mpirun
def test_uneven_shards_and_a_rank_without_validation_train_as_one(tmp_path: Path) -> None:
    """41 records in shards of 30, 1, 8 and 2: the last step has one for one rank, none for the
    other; so has the validation, whose only record is on the first."""
    python, environ = os.environ["RAILHEAD_TEST_PYTHON"], {**os.environ, "PYTHONPATH": str(ROOT)}
    for name, counts in (("train", "30 1 8 2"), ("validation", "1")):
        command = [python, "-c", UNEVEN, str(tmp_path / name), *counts.split()]
        subprocess.run(command, env=environ, check=True, capture_output=True)
    own: dict[str, Any] = {
        f"RAILHEAD_DATA_{name.upper()}": str(tmp_path / name) for name in ("train", "validation")
    }
    settings = {"data": "shards", "model": "linear", "optimizer": "sgd", "epochs": 2}
    settings |= {"global_batch": 8, "warmup_epochs": 0.0, "export": "off"}
    found = {}
    for strategy, processes, mode in (("one-device", 1, "file"), ("horovod", 2, "stream")):
        (tmp_path / strategy).mkdir()
        own["RAILHEAD_DATA_TRAIN_MODE"] = mode
        outcome = train(tmp_path / strategy, strategy, settings, processes=processes, **own)
        assert outcome.code == 0, outcome.outputs
        found[strategy] = outcome
    alone, two = found.values()
    assert two.ranks[1]["iterations"] == alone.ranks[0]["iterations"] == 12
    for one, other in zip(two.ranks[1]["weights"], alone.ranks[0]["weights"], strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    assert two.records("evaluation")[0]["samples"] == 1


def test_multiworker_makes_the_same_model_and_one_file(tmp_path: Path, alone: Outcome) -> None:
    outcome = train(tmp_path, "multiworker", FLAT, processes=2, chiefs=1)  # the other is a worker
    assert_same_model(outcome, alone, processes=2)
    assert not (tmp_path / ELSEWHERE).exists()
    assert outcome.records("epoch", process=1) == outcome.records("evaluation", process=1) == []


def test_a_loss_that_is_no_number_ends_the_run_and_reports_why(tmp_path: Path) -> None:
    outcome = train(tmp_path, "one-device", {**ONE, "learning_rate": 1e38})
    assert outcome.code == 1
    assert "is not a number on rank 0: lower learning_rate" in outcome.outputs[0]
    assert "Traceback" not in outcome.outputs[0]


@pytest.mark.parametrize(
    ("strategy", "processes"),
    [pytest.param("horovod", 1, marks=needs_mpirun), ("multiworker", 2)],
)
def test_two_killed_ranks_go_on_at_the_same_sample(
    tmp_path: Path, alone: Outcome, strategy: str, processes: int
) -> None:
    keeping = {**FLAT, "checkpoint_steps": 5}
    kept = tmp_path / "kept"
    place: dict[str, Any] = {"RAILHEAD_CHECKPOINT_DIR": str(kept)}
    killed = train(tmp_path, strategy, keeping, processes=2, PROBE_KILL_AT="20", **place)
    assert killed.code != 0
    assert max(item.name for item in kept.iterdir()) == "step-00000020"
    rest = train(tmp_path, strategy, keeping, processes=processes, **place)
    assert rest.code == 0, rest.outputs
    assert "global batch 64, 16 steps per epoch, learning rate 0.2, from step 20" in rest.outputs[0]
    for rank in range(processes):
        assert rest.ranks[rank]["iterations"] == 32
        for found, wanted in zip(
            rest.ranks[rank]["weights"], alone.ranks[0]["weights"], strict=True
        ):
            assert found == pytest.approx(wanted, abs=1e-5)
    (last,), wanted_last = rest.records("epoch"), alone.records("epoch")[1]
    for name in ("epoch", "loss", "accuracy", "val_loss", "val_accuracy"):
        assert last[name] == pytest.approx(wanted_last[name], abs=1e-4), name


@needs_mpirun
def test_horovod_with_its_own_settings_learns_the_same(tmp_path: Path, alone: Outcome) -> None:
    own = {"compression": "fp16", "fusion_mb": 8, "cycle_ms": 0.5, "timeline": "on"}
    outcome = train(tmp_path, "auto", {**FLAT, **own}, processes=2, PROBE_SUMS="1")
    assert outcome.code == 0, outcome.outputs
    gradient, tally = outcome.ranks[1]["sums"]
    assert tally == 2 * 2049 != gradient, "counts have all their digits, gradients 11 bits"
    assert "strategy horovod: mpirun started 2 processes" in outcome.outputs[0]
    weights = [outcome.ranks[rank]["weights"] for rank in (0, 1)]
    assert weights[0] == weights[1]
    for found, wanted in zip(weights[0], alone.ranks[0]["weights"], strict=True):
        assert found == pytest.approx(wanted, abs=0.02), "gradients have 11 bits"
        assert found != pytest.approx(wanted, abs=1e-7), "they were not compressed"
    assert (outcome.results / "timeline.json").stat().st_size


@needs_mpirun
def test_ranks_stop_early_at_the_same_epoch(tmp_path: Path) -> None:
    still = {"learning_rate": 1e-30, "epochs": 9, "early_stopping": 2}
    outcome = train(tmp_path, "horovod", {**FLAT, **still}, processes=2)
    assert outcome.code == 0, outcome.outputs
    assert [record["epoch"] for record in outcome.records("epoch")] == [1, 2, 3]
    assert [outcome.ranks[rank]["iterations"] for rank in (0, 1)] == [48, 48]


@pytest.mark.parametrize("strategy", [pytest.param("horovod", marks=needs_mpirun), "multiworker"])
def test_ranks_have_dropouts_of_their_own_and_common_moving_averages(
    tmp_path: Path, strategy: str
) -> None:
    """Also after a resume, which goes on with draws of each rank's own."""
    settings = {**FLAT, "synthetic_samples": 320, "epochs": 2, "checkpoint_steps": 2}
    place: dict[str, Any] = {"RAILHEAD_CHECKPOINT_DIR": str(tmp_path / "kept")}
    place |= {"PROBE_LAYERS": "1"}
    if strategy == "horovod":
        train(tmp_path, strategy, settings, processes=2, PROBE_KILL_AT="2", **place)
    outcome = train(tmp_path, strategy, settings, processes=2, **place)
    assert outcome.code == 0, outcome.outputs
    first, second = outcome.ranks[0], outcome.ranks[1]
    assert first["weights"] == second["weights"], "moving averages are among them"
    if strategy == "horovod":
        assert "from step 2" in outcome.outputs[0]
        killed = [json.loads((tmp_path / f"killed-{rank}.json").read_text()) for rank in (0, 1)]
        assert killed[0] != killed[1] and [first["averages"], second["averages"]] == killed
        (one,), (other,) = first["seeds"], second["seeds"]
        assert one[0] != other[0] and one[1] == other[1]
    assert (outcome.results / "model.keras").exists()


def test_parameter_servers_learn_and_end_with_the_chief(tmp_path: Path) -> None:
    settings = {"data": "synthetic", "model": "linear", "shift": 0, "epochs": 4, "export": "off"}
    settings |= {"learning_rate": 0.01, "checkpoint_steps": 100}
    outcome = train(tmp_path, "parameter-server", settings, processes=4)
    assert outcome.code == 0, outcome.outputs
    losses = [record["loss"] for record in outcome.records("epoch")]
    assert losses[-1] < losses[0]
    assert outcome.records("progress")[-1]["step"] == 4 * 64
    evaluation = json.loads((outcome.results / "evaluation.json").read_text())
    assert evaluation["samples"] == 409
    assert (outcome.results / "checkpoints/step-00000256/manifest.json").exists()


@needs_mpirun
def test_a_bad_sample_names_the_rank_that_has_it(tmp_path: Path) -> None:
    large = "3e38,3e38,3e38,1"  # numbers, whose sum is not
    rows = ["a,b,c,label", *("1,1,1,0\n2,2,2,1" for _ in range(31)), large]
    (tmp_path / "data.csv").write_text("\n".join(rows))
    data = {"data": "csv", "model": "linear", "batch_size": 8, "held_out": 0.01, "epochs": 1}
    folder = str(tmp_path / "data.csv")
    outcome = train(tmp_path, "horovod", data, processes=2, RAILHEAD_DATA_TRAIN=folder)
    assert outcome.code == 1
    named = re.search(r"the loss of step (\d+) is not a number on rank (\d+): ", outcome.outputs[0])
    assert named, outcome.outputs
    (held_out,) = random.Random("held-out/0").sample(range(63), 1)
    number = 62 - (held_out < 62)
    position = list(shuffled(62, epoch=0, seed=0)).index(number)
    step, rank = position // 16, position % 16 % 2
    assert (int(named[1]), int(named[2])) == (step + 1, rank)


@pytest.mark.parametrize(
    ("strategy", "processes", "message"),
    [
        ("one-device", 2, "strategy one-device joined 1 process(es), but the run has 2"),
        pytest.param(
            "horovod",
            1,
            "strategy horovod joined 1 process(es), but the run has 3",
            marks=needs_mpirun,
        ),
    ],
)
def test_worlds_apart_are_refused(
    tmp_path: Path, strategy: str, processes: int, message: str
) -> None:
    size = message.rpartition(" ")[2]
    outcome = train(tmp_path, strategy, ONE, processes=processes, RAILHEAD_SIZE=size)
    assert outcome.code == 1
    assert message in outcome.outputs[0]
