"""Checkpoints: what goes on from them, and what is refused."""

from __future__ import annotations

import functools
import json
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
from samples.trainings import MIRRORED, cut, losses, prepared, run, same
from standins.case_runner import case, refused, replaced

from training.checkpoints import checkpoint
from training.checkpoints.state import CHECK_EVERY
from training.config import ConfigError
from training.registry import MODELS
from training.variables import is_seed, moving

KEPT = tempfile.TemporaryDirectory()
DROPOUT: dict[str, Any] = dict(synthetic_samples=100, shift=1, epochs=3, checkpoint_steps=2)


@functools.cache
def finished(parent: str) -> Any:
    """A short training with all its checkpoints, made once."""
    return run(Path(parent) / "finished", checkpoint_steps=2, checkpoint_keep=99, steps=6)


def unfinished(folder: Path, *steps: int) -> None:
    """The checkpoints of a training that was killed after the last of these steps."""
    cut(finished(KEPT.name).folder, folder, *steps)


@case
def an_interrupted_training_ends_as_the_uninterrupted_one(folder: Path) -> None:
    with patch.dict(MODELS, linear="samples.layers_with_state"):
        whole = run(folder / "whole", checkpoint_keep=99, **DROPOUT)
        cut(folder / "whole", folder / "cut", 10)  # 7 steps per epoch: the fourth of the second
        rest = run(folder / "cut", **DROPOUT)
    assert "from step 10" in rest.line
    np.testing.assert_allclose(losses(rest), losses(whole)[1:], rtol=1e-5)
    same(rest, whole)


@case
def a_training_goes_on_with_another_number_of_replicas(folder: Path) -> None:
    settings: dict[str, Any] = dict(checkpoint_steps=3, warmup_epochs=0.0, optimizer="sgd")
    whole = run(folder / "whole", **settings, global_batch=40, checkpoint_keep=99)
    cut(folder / "whole", folder / "cut", 3)
    rest = run(folder / "cut", mirrored=True, **settings)
    assert "global batch 40" in rest.line, "that of the checkpoint, not 2 times batch_size"
    np.testing.assert_allclose(losses(rest), losses(whole), rtol=1e-5)
    same(rest, whole)


@case
def moving_averages_go_on_as_each_replica_had_them(folder: Path) -> None:
    """In the middle of an epoch they differ; other replicas than before start from their mean. At
    the end all have common ones, those of the exported model."""
    settings: dict[str, Any] = dict(checkpoint_steps=2, global_batch=32)
    with patch.dict(MODELS, linear="samples.layers_with_state"):
        whole = run(folder / "whole", mirrored=True, checkpoint_keep=99, **settings)
        cut(folder / "whole", folder / "cut", 10)  # the third of epoch 2
        cut(folder / "whole", folder / "other", 10)
        rest = run(folder / "cut", mirrored=True, **settings)
        same(rest, whole, 1e-7)
        rows = np.load(folder / "other/checkpoints/step-00000010/state.npz")["moving"]
        alone = run(folder / "other", **{**settings, "steps": 10})
    assert np.abs(rows[0] - rows[1]).max() > 1e-3
    averages = np.concatenate([v.numpy() for v in moving(alone.training.model)])
    np.testing.assert_allclose(averages, rows.mean(axis=0), rtol=1e-6)
    assert any("the mean of 2" in text for text in alone.messages)
    for weight in whole.training.model.weights:
        first, second = MIRRORED.experimental_local_results(weight.value)
        np.testing.assert_array_equal(first, second, weight.path)


@case
def each_replica_drops_other_units_also_after_a_resume(folder: Path) -> None:
    """Each has its own seed, all have the same count; a resume draws as if it had not stopped."""
    settings: dict[str, Any] = dict(model="mlp", checkpoint_steps=2, global_batch=32)
    whole = run(folder / "whole", mirrored=True, checkpoint_keep=99, **settings)
    cut(folder / "whole", folder / "cut", 10)
    rest = run(folder / "cut", mirrored=True, **settings)
    same(rest, whole, 1e-6)
    for outcome in (whole, rest):
        variables = [v for v in outcome.training.model.variables if is_seed(v)]
        assert len(variables) == 2, "two layers of dropout"
        for variable in variables:
            copies = MIRRORED.experimental_local_results(variable.value)
            (first, steps), (second, others) = (copy.numpy() for copy in copies)
            assert first + 1 == second and steps == others == outcome.training.position.step


@case
def minutes_between_checkpoints_are_minutes(folder: Path) -> None:
    state = prepared(folder, checkpoint_minutes=2.0).state
    due = []
    for passed in (115.0, 125.0):
        state.written = time.monotonic() - passed
        due.append([state.due(step) for step in (CHECK_EVERY - 1, CHECK_EVERY)])
    assert due == [[False, False], [False, True]]


@case
def a_torn_checkpoint_is_named_and_the_one_before_is_used(folder: Path) -> None:
    unfinished(folder, 4, 6)
    torn = folder / "checkpoints/step-00000006/state.npz"
    torn.write_bytes(torn.read_bytes()[:-1])
    rest = run(folder, checkpoint_steps=2, steps=6)
    assert "from step 4" in rest.line
    assert any(
        "step-00000006 is incomplete: state.npz has another size" in m for m in rest.messages
    )
    same(rest, finished(KEPT.name), 1e-6)


@case
def a_checkpoint_of_another_training_is_refused(folder: Path) -> None:
    unfinished(folder, 2)
    for changes, message in (
        ({"model": "cnn"}, "model was linear, and is cnn"),
        ({"seed": 1}, "seed was 0, and is 1"),
        ({"label": "price"}, "label was label, and is price"),
        ({"label_feature": "y"}, "label_feature was image/class/label, and is y"),
        ({"synthetic_samples": 300}, "samples was 200, and is 300"),
        ({"shuffle_window": 16}, "shuffle_window was 512, and is 16"),
    ):
        with refused("is of another training", message):
            prepared(folder, **changes)
    manifest = folder / "checkpoints/step-00000002/manifest.json"
    document = json.loads(manifest.read_text())
    document["shapes"] = [[1, 2], *document["shapes"][1:]]
    manifest.write_text(json.dumps(document))
    with refused("is of another model"):
        prepared(folder)


@case
def a_resume_without_a_checkpoint_and_an_unfinished_training_are_refused(folder: Path) -> None:
    with refused("there is no checkpoint in", "to continue from"):
        prepared(folder, resume="required")
    unfinished(folder, 2)
    try:
        prepared(folder, resume="refuse")
    except ConfigError as error:
        assert "unfinished training (step 2)" in str(error) and "--resume" in str(error)
    else:
        raise AssertionError("an unfinished training was overwritten")
    fresh = run(folder, resume="fresh", checkpoint_steps=2, steps=2)
    assert "from step" not in fresh.line and fresh.training.position.done
    rest = prepared(folder, resume="refuse")
    assert rest.position.step == 0 and not rest.state.continues, "a finished one is done again"


@case
def a_checkpoint_that_cannot_be_written_costs_only_itself(folder: Path) -> None:
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints/.step-00000002.partial").touch()  # in the place of a folder
    outcome = run(folder, checkpoint_steps=2)
    (message,) = [text for text in outcome.messages if "checkpoint" in text]
    assert message.startswith("no checkpoint was written: ") and len(outcome.epochs) == 2
    assert outcome.training.state.checkpoints.newest()[0].position.done


@case
def no_space_for_checkpoints_is_known_before_the_training(folder: Path) -> None:
    nearly_full = SimpleNamespace(disk_usage=lambda _: SimpleNamespace(free=1000))
    with (
        replaced(checkpoint, shutil=nearly_full),
        refused("no space for checkpoints in", "0 MB are free"),
    ):
        prepared(folder, checkpoint_steps=2)
