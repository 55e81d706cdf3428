"""Real trainings, one launch per strategy: two replicas make the model that one makes of the same
batches, also after a kill.

They need a runtime's python (TensorFlow, Keras, Horovod): the fixture `runtime_python`.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from standins.forks import FORKED, with_tensorflow
from standins.runs.launches import ELSEWHERE, Outcome, Training, launch
from standins.runtime_cases import Runtime

from training.data.assignment import shuffled
from training.data.splits import stratified

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("runtime_python"),
    pytest.mark.timeout(1000),  # the first test of a launch waits for all of it
]
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
ONE = {**SETTINGS, "batch_size": 64, "learning_rate": 0.2, "warmup_epochs": 0.0}
# Without a warm-up the rate is the multiplied one from the first step, so the models compare.
FLAT = {**SETTINGS, "batch_size": 32, "learning_rate": 0.1, "warmup_epochs": 0.0}
KEEPING = {**FLAT, "checkpoint_steps": 5, "export": "off"}
STOPPING = {**FLAT, "export": "off", "learning_rate": 1e-30, "epochs": 9, "early_stopping": 2}
LAYERS = {**FLAT, "synthetic_samples": 320, "checkpoint_steps": 2, "export": "off"}
UNEVEN = {"data": "shards", "model": "linear", "optimizer": "sgd", "epochs": 2, "export": "off"}
UNEVEN |= {"global_batch": 8, "warmup_epochs": 0.0}
# On Horovod alone, which reads some of OWN once, when it starts.
HALVED = {**LAYERS, "callbacks": "samples.own_code:halving"}
OWN = {**FLAT, "compression": "fp16", "fusion_mb": 8, "cycle_ms": 2.5, "timeline": "on"}
OWN |= {"export": "off"}
LARGE = {"data": "numpy", "model": "linear", "batch_size": 8, "held_out": 0.01, "epochs": 1}
LARGE_LABELS = np.array([*(0, 1) * 31, 1])
RESULTS = {"checkpoints", "evaluation.json", "model.keras", "saved_model", "tensorboard", "worst"}


@pytest.fixture(scope="module")
def data(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shards of uneven lengths in train/ and validation/, and data.npz with a sample too large."""
    folder = tmp_path_factory.mktemp("data")
    failure = runtime.run(Path(__file__).with_name("uneven.py"), "write", str(folder))
    assert not failure, failure
    values = [*([1.0] * 3, [2.0] * 3) * 31, [3e38] * 3]  # numbers; the sum of the last is not one
    pictures = np.array(values, np.float32).reshape(-1, 3, 1)
    np.savez(folder / "data.npz", x=pictures, y=LARGE_LABELS)
    return folder


def source_of(data: Path, mode: str) -> dict[str, str]:
    """The environment of a run with the shards."""
    variables = {
        f"RAILHEAD_DATA_{name.upper()}": str(data / name) for name in ("train", "validation")
    }
    return {**variables, "RAILHEAD_DATA_TRAIN_MODE": mode}


def leaving(folder: Path, step: int, how: str = "leave", **more: str) -> dict[str, str]:
    """The environment of a training that ends right after the checkpoint of a step."""
    ends = {"PROBE_END_AT": str(step), "PROBE_END": how}
    return {"RAILHEAD_CHECKPOINT_DIR": str(folder), **ends, **more}


@pytest.fixture(scope="module")
def single(
    runtime_python: str, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """The trainings of one process, whose CPU is two devices."""
    trainings = {
        "alone": Training(ONE),  # one replica, trained on the whole batches
        "mirrored": Training(FLAT, "mirrored"),
        "uneven": Training(UNEVEN, environment=source_of(data, "file")),
        "diverging": Training({**ONE, "learning_rate": 1e38}),
        "apart": Training(ONE, size=2),
    }
    folder = tmp_path_factory.mktemp("single")
    return launch(folder, "one-device", trainings, PROBE_TWO_REPLICAS="1")


@pytest.fixture(scope="module")
def alone(single: dict[str, Outcome]) -> Outcome:
    """One replica trained on the whole batches."""
    return single["alone"]


@pytest.fixture(scope="module")
def horovod(
    runtime_python: str, data: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """The trainings of two ranks of Horovod; the last one is killed."""
    folder = tmp_path_factory.mktemp("horovod")
    kept, layers = folder / "kept", {"PROBE_LAYERS": "1"}
    trainings = {
        "own": Training(OWN, "auto", environment={"PROBE_SUMS": "1"}),
        "same": Training(FLAT),
        "uneven": Training(UNEVEN, environment=source_of(data, "stream")),
        "stopping": Training(STOPPING),
        "cut": Training(HALVED, environment=leaving(folder / "layers", 2, **layers)),
        "layers": Training(
            HALVED, environment={"RAILHEAD_CHECKPOINT_DIR": str(folder / "layers"), **layers}
        ),
        "large": Training(LARGE, environment={"RAILHEAD_DATA_TRAIN": str(data / "data.npz")}),
        "killed": Training(KEEPING, environment=leaving(kept, 20, "kill")),
    }
    bound = "60"  # seconds for which a rank waits for another one
    outcomes = launch(
        folder, "horovod", trainings, processes=2, HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=bound
    )
    assert max(item.name for item in kept.iterdir()) == "step-00000020"
    rest = {
        "apart": Training(ONE, size=3),
        "rest": Training(KEEPING, environment={"RAILHEAD_CHECKPOINT_DIR": str(kept)}),
    }
    return {**outcomes, **launch(folder / "again", "horovod", rest)}


@pytest.fixture(scope="module")
def multiworker(
    runtime_python: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """The trainings of a chief and a worker."""
    folder = tmp_path_factory.mktemp("multiworker")
    layers = {"PROBE_LAYERS": "1"}
    trainings = {
        "same": Training(FLAT),
        "cut": Training(LAYERS, environment=leaving(folder / "layers", 2, **layers)),
        "layers": Training(
            LAYERS, environment={"RAILHEAD_CHECKPOINT_DIR": str(folder / "layers"), **layers}
        ),
        "killed": Training(KEEPING, environment=leaving(folder / "kept", 20)),
        "rest": Training(KEEPING, environment={"RAILHEAD_CHECKPOINT_DIR": str(folder / "kept")}),
    }
    return launch(folder, "multiworker", trainings, processes=2, chiefs=1)


def assert_weights(outcome: Outcome, alone: Outcome, processes: int, steps: int = 32) -> None:
    """Each process has the model of one replica."""
    assert outcome.code == 0, outcome.outputs
    assert sorted(outcome.ranks) == list(range(processes))
    for report in outcome.ranks.values():
        assert report["iterations"] == alone.ranks[0]["iterations"] == steps
        for weight, expected in zip(report["weights"], alone.ranks[0]["weights"], strict=True):
            assert weight == pytest.approx(expected, abs=1e-5)


def assert_same_model(outcome: Outcome, alone: Outcome, processes: int) -> None:
    assert_weights(outcome, alone, processes)
    for report in outcome.ranks.values():
        assert report["rates"] == pytest.approx([0.1, 0.2]), "a warm-up ends at size times the rate"
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
    for epoch, figures in zip(epochs, alone.records("epoch"), strict=True):
        assert_figures(epoch, figures)
    last = outcome.records("progress")[-1]
    assert (last["step"], last["steps"], last["seconds_left"]) == (32, 32, 0)


def assert_figures(epoch: dict[str, Any], expected: dict[str, Any]) -> None:
    for name in ("epoch", "loss", "accuracy", "val_loss", "val_accuracy"):
        assert epoch[name] == pytest.approx(expected[name], abs=1e-4), name


def test_one_device_trains_and_leaves_its_results(alone: Outcome) -> None:
    assert alone.code == 0, alone.outputs
    losses = [record["loss"] for record in alone.records("epoch")]
    assert losses[1] < losses[0]
    assert json.loads((alone.results / "evaluation.json").read_text())["threshold"] == 0.05
    assert_results(alone, alone)


def test_mirrored_makes_the_same_model(single: dict[str, Outcome], alone: Outcome) -> None:
    assert_same_model(single["mirrored"], alone, processes=1)


@needs_mpirun
def test_horovod_makes_the_same_model_on_every_rank(
    horovod: dict[str, Outcome], alone: Outcome
) -> None:
    assert_same_model(horovod["same"], alone, processes=2)
    texts = [record["text"] for record in horovod["same"].records("message")]
    assert not horovod["same"].records("message", process=1), "the second rank of a host is silent"
    assert len(texts) == 2


@needs_mpirun
def test_the_newest_tensorflow_makes_the_same_model_with_horovod(
    newest_python: str, alone: Outcome, tmp_path: Path
) -> None:
    trainings = {"same": Training(FLAT)}
    outcome = launch(tmp_path, "horovod", trainings, processes=2, python=newest_python)["same"]
    assert_same_model(outcome, alone, processes=2)


SUMMARIES = """
import keras, sys, tensorflow as tf
with tf.summary.create_file_writer(sys.argv[1] + "/own").as_default():
    tf.summary.scalar("loss", 1.0, step=1)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
callbacks = [keras.callbacks.TensorBoard(sys.argv[1])]
model.fit(tf.ones([2, 1]), tf.ones([2, 1]), verbose=0, callbacks=callbacks)
"""


def test_scripts_write_summaries_with_the_newest_tensorflow(
    newest_python: str, tmp_path: Path
) -> None:
    (tmp_path / "write.py").write_text(SUMMARIES)
    environment = {**os.environ, "RAILHEAD_FORKS": with_tensorflow(newest_python)}
    program = [FORKED, tmp_path / "write.py", tmp_path]
    subprocess.run(program, env=environment, check=True)
    written = {path.parent.name for path in tmp_path.rglob("events.out.tfevents.*")}
    assert written == {"own", "train"}


@needs_mpirun
def test_uneven_shards_and_a_rank_without_validation_train_as_one(
    single: dict[str, Outcome], horovod: dict[str, Outcome]
) -> None:
    """41 records in shards of 30, 1, 8 and 2: the last step has one for one rank, none for the
    other; so has the validation, whose only record is on the first."""
    assert single["uneven"].code == 0, single["uneven"].outputs
    assert_weights(horovod["uneven"], single["uneven"], processes=2, steps=12)
    assert horovod["uneven"].records("evaluation")[0]["samples"] == 1


def test_multiworker_makes_the_same_model_and_one_file(
    multiworker: dict[str, Outcome], alone: Outcome
) -> None:
    outcome = multiworker["same"]  # one of both is the chief
    assert_same_model(outcome, alone, processes=2)
    assert not (outcome.folder.parent / ELSEWHERE).exists()
    assert outcome.records("epoch", process=1) == outcome.records("evaluation", process=1) == []


def test_a_loss_that_is_not_a_number_ends_the_run_and_reports_why(
    single: dict[str, Outcome],
) -> None:
    outcome = single["diverging"]
    assert outcome.code == 1
    assert "is not a number on rank 0: lower learning_rate" in outcome.outputs[0]
    assert "Traceback" not in outcome.outputs[0]


@pytest.mark.parametrize(
    ("strategy", "processes"), [pytest.param("horovod", 1, marks=needs_mpirun), ("multiworker", 2)]
)
def test_two_killed_ranks_continue_at_the_same_sample(
    request: pytest.FixtureRequest, alone: Outcome, strategy: str, processes: int
) -> None:
    """Horovod with one rank instead of two, in a new process."""
    outcomes: dict[str, Outcome] = request.getfixturevalue(strategy)
    assert outcomes["killed"].code != 0 and not outcomes["killed"].ranks
    rest = outcomes["rest"]
    assert_weights(rest, alone, processes)
    assert "global batch 64, 16 steps per epoch, learning rate 0.2, from step 20" in rest.outputs[0]
    (last,) = rest.records("epoch")
    assert_figures(last, alone.records("epoch")[1])


@needs_mpirun
def test_horovod_with_its_own_settings_learns_the_same(
    horovod: dict[str, Outcome], alone: Outcome
) -> None:
    outcome = horovod["own"]
    assert outcome.code == 0, outcome.outputs
    gradient, tally = outcome.ranks[1]["sums"]
    assert tally == 2 * 2049 != gradient, "counts have all their digits, gradients 11 bits"
    assert "strategy horovod: mpirun started 2 processes" in outcome.outputs[0]
    weights = [outcome.ranks[rank]["weights"] for rank in (0, 1)]
    assert weights[0] == weights[1]
    for weight, expected in zip(weights[0], alone.ranks[0]["weights"], strict=True):
        assert weight == pytest.approx(expected, abs=0.02), "gradients have 11 bits"
        assert weight != pytest.approx(expected, abs=1e-7), "they were not compressed"
    assert (outcome.results / "timeline.json").stat().st_size


@needs_mpirun
def test_ranks_stop_early_at_the_same_epoch(horovod: dict[str, Outcome]) -> None:
    outcome = horovod["stopping"]
    assert outcome.code == 0, outcome.outputs
    assert [record["epoch"] for record in outcome.records("epoch")] == [1, 2, 3]
    assert [outcome.ranks[rank]["iterations"] for rank in (0, 1)] == [48, 48]


@pytest.mark.parametrize("strategy", [pytest.param("horovod", marks=needs_mpirun), "multiworker"])
def test_ranks_have_dropouts_of_their_own_and_common_moving_averages(
    request: pytest.FixtureRequest, strategy: str
) -> None:
    """With Horovod also a rate, which a callback of rank 0 halves."""
    outcome: Outcome = request.getfixturevalue(strategy)["layers"]
    assert outcome.code == 0, outcome.outputs
    assert outcome.ranks[0]["weights"] == outcome.ranks[1]["weights"], "with moving averages"
    assert (outcome.results / "model.keras").exists()


@pytest.mark.parametrize("strategy", [pytest.param("horovod", marks=needs_mpirun), "multiworker"])
def test_a_resume_continues_with_each_ranks_moving_averages_and_draws(
    request: pytest.FixtureRequest, strategy: str
) -> None:
    outcomes: dict[str, Outcome] = request.getfixturevalue(strategy)
    killed = [outcomes["cut"].killed(rank) for rank in (0, 1)]
    outcome = outcomes["layers"]
    first, second = outcome.ranks[0], outcome.ranks[1]
    assert "from step 2" in outcome.outputs[0]
    assert killed[0] != killed[1] and [first["averages"], second["averages"]] == killed
    (first_seeds,), (second_seeds,) = first["seeds"], second["seeds"]
    assert first_seeds[1] == second_seeds[1] and first_seeds[0] != second_seeds[0]


def test_parameter_servers_learn_and_end_with_the_chief(
    runtime_python: str, tmp_path: Path
) -> None:
    settings = {"data": "synthetic", "model": "linear", "shift": 0, "epochs": 2, "export": "off"}
    settings |= {"learning_rate": 0.01, "checkpoint_steps": 100}
    outcome = launch(
        tmp_path, "parameter-server", {"only": Training(settings, size=4)}, processes=4
    )["only"]
    assert outcome.code == 0, outcome.outputs
    losses = [record["loss"] for record in outcome.records("epoch")]
    assert losses[-1] < losses[0]
    assert outcome.records("progress")[-1]["step"] == 2 * 64
    evaluation = json.loads((outcome.results / "evaluation.json").read_text())
    assert evaluation["samples"] == 409
    assert (outcome.results / "checkpoints/step-00000128/manifest.json").exists()


@needs_mpirun
def test_a_bad_sample_names_the_rank_that_has_it(horovod: dict[str, Outcome]) -> None:
    outcome = horovod["large"]
    assert outcome.code == 1
    named = re.search(r"the loss of step (\d+) is not a number on rank (\d+): ", outcome.outputs[0])
    assert named, outcome.outputs
    (held_out,) = stratified(LARGE_LABELS, 1, random.Random("held-out/0"))
    number = 62 - (held_out < 62)
    position = list(shuffled(62, epoch=0, seed=0)).index(number)
    step, rank = position // 16, position % 16 % 2
    assert (int(named[1]), int(named[2])) == (step + 1, rank)


@pytest.mark.parametrize(
    ("launched", "message"),
    [
        ("single", "strategy one-device joined 1 process(es), but the run has 2"),
        pytest.param(
            "horovod",
            "strategy horovod joined 1 process(es), but the run has 3",
            marks=needs_mpirun,
        ),
    ],
)
def test_worlds_apart_are_refused(
    request: pytest.FixtureRequest, launched: str, message: str
) -> None:
    outcome: Outcome = request.getfixturevalue(launched)["apart"]
    assert outcome.code == 1
    assert message in outcome.outputs[0]
