"""Keras 3 over several processes makes the model that one process makes of the same batches.

These are the most telling cases on one TensorFlow; `make campaign-keras` has all, on both.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from draws import drawn
from standins.runs import keras_trainings

RANKS = ("uneven-steps", "overflow", "clipped", "generator")
CHIEF = ("coordinated-creator",)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def folder(runtime_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes left their outcomes."""
    folder = tmp_path_factory.mktemp("keras")
    names, replicas = (*RANKS, *CHIEF), drawn((1, 2))
    output = keras_trainings.launch(runtime_python, folder, names, replicas)
    stems = {path.stem for path in folder.glob("*.npz")}
    assert stems >= {f"{name}-{rank}" for name in RANKS for rank in (0, 1)}, output
    assert stems >= {f"{name}-0" for name in CHIEF}, output
    return folder


@pytest.mark.parametrize("name", [*RANKS, *CHIEF])
def test_several_processes_train_the_model_of_one(folder: Path, name: str) -> None:
    assert keras_trainings.differences(folder, name) == []


def test_a_rank_announces_its_patches_once(folder: Path) -> None:
    for role in ("rank", "alone"):
        (line,) = json.loads((folder / f"notices-{role}.json").read_text())
        assert line.startswith("railhead: Keras 3.") and "--no-keras-patches" in line


def test_a_chief_refuses_what_workers_cannot_do(folder: Path) -> None:
    refusals = json.loads((folder / "refusals.json").read_text())
    assert len(refusals) == 9
    for name, message in refusals.items():
        assert message.startswith("ParameterServerStrategy") and name in message, name
