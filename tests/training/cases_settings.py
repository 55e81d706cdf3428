"""Settings of a step and of a training: each changes what it says, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers
from samples.trainings import DEFAULTS, losses, own_model, run, same
from standins.case_runner import case

from training import input_pipeline
from training.config import resolve
from training.data import splits


@case
def accumulation_and_xla_make_the_same_model(folder: Path) -> None:
    wanted = run(folder / "plain")
    same(run(folder / "parts", accumulation=3), wanted)
    same(run(folder / "xla", xla="on"), wanted)
    same(run(folder / "both", accumulation=5, xla="on", mirrored=True, global_batch=16), wanted)


def regularized(inputs: Any, outputs: int, config: Any) -> Any:
    flat = [layers.Input(inputs.shape), layers.Flatten()]
    return keras.Sequential([*flat, layers.Dense(outputs, kernel_regularizer="l2")])


@case
def a_regularizer_counts_once_per_step(folder: Path) -> None:
    settings: dict[str, Any] = dict(optimizer="sgd", global_batch=16, learning_rate=0.1)
    settings["steps"] = 6
    with own_model(regularized):
        wanted = run(folder / "plain", **settings)
        same(run(folder / "parts", accumulation=3, **settings), wanted)
        same(run(folder / "both", accumulation=2, mirrored=True, **settings), wanted)


def normalized(inputs: Any, outputs: int, config: Any) -> Any:
    flat = [layers.Input(inputs.shape), layers.Flatten(), layers.BatchNormalization()]
    return keras.Sequential([*flat, layers.Dense(outputs)])


@case
def moving_averages_move_once_per_step_and_not_by_padding(folder: Path) -> None:
    """The layer sees the inputs themselves: their means do not depend on how a batch is cut."""
    with own_model(normalized):
        wanted = run(folder / "plain")
        parts = run(folder / "parts", accumulation=3)
        settings: dict[str, Any] = dict(global_batch=199, checkpoint_steps=1, checkpoint_keep=3)
        run(folder / "idle", kill_at=2, mirrored=True, **settings)  # 200 samples
    np.testing.assert_allclose(parts.weights[2], wanted.weights[2], atol=1e-6)
    assert not any("accumulation" in text for text in wanted.messages)
    assert any("accumulation=3: moving averages" in text for text in parts.messages)
    one, two = [
        np.load(folder / f"idle/checkpoints/step-0000000{step}/state.npz")["moving"]
        for step in (1, 2)
    ]
    moved = [bool((row != before).any()) for before, row in zip(one, two, strict=True)]
    assert moved == [False, True], "position 199 is of the second replica"


@case
def clipping_limits_the_whole_gradient(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        steps=1, optimizer="sgd", learning_rate=1.0, warmup_epochs=0.0, decay="none"
    )
    moved = []
    for clip in (0.0, 1e-3):
        start = run(folder / f"{clip}-0", **{**settings, "learning_rate": 1e-30}).weights
        end = run(folder / f"{clip}-1", clip_norm=clip, mirrored=True, global_batch=16, **settings)
        changes = [b - a for a, b in zip(start, end.weights, strict=True)]
        moved.append(float(np.sqrt(sum((change**2).sum() for change in changes))))
    assert moved[0] > 0.01
    np.testing.assert_allclose(moved[1], 1e-3, rtol=1e-2)


@case
def every_precision_learns(folder: Path) -> None:
    for precision in ("mixed_bfloat16", "mixed_float16"):
        for mirrored in (False, True):
            place = folder / f"{precision}-{mirrored}"
            found = run(place, precision=precision, mirrored=mirrored, epochs=3, clip_norm=5.0)
            assert losses(found)[-1][0] < losses(found)[0][0], precision


@case
def seeds_reach_the_shuffle(folder: Path) -> None:
    first = []
    for seed in (0, 0, 1):
        config = resolve({**DEFAULTS, "seed": seed})
        dataset = splits.load(config, {})
        plan = input_pipeline.plan_for(
            dataset.train, config, replicas=1, global_batch=16, training=True
        )
        batches = iter(input_pipeline.batches(dataset.train, plan, config, [0]))
        first.append(next(batches)[1].numpy().tolist())
    assert first[0] == first[1] != first[2]


@case
def epochs_and_trainings_end_when_the_settings_say(folder: Path) -> None:
    found = run(folder / "a", steps_per_epoch=5, epochs=3)
    assert found.training.position.step == 15 and len(found.epochs) == 3
    found = run(folder / "b", steps=20)
    assert found.training.position.step == 20 and len(found.epochs) == 2
    found = run(folder / "c", epochs=9, learning_rate=1e-30, early_stopping=2)
    assert len(found.epochs) == 3, "the first is the best; two more are waited for"


def moved(folder: Path, **settings: Any) -> float:
    """How far the weights move from where they start, with plain descent."""
    chosen = {"optimizer": "sgd", "decay": "none", "steps": 1, **settings}
    still = run(folder / "still", **{**chosen, "learning_rate": 1e-30, "clip_norm": 0.0}).weights
    end = run(folder / "moved", **chosen).weights
    return float(np.sqrt(sum(((b - a) ** 2).sum() for a, b in zip(still, end, strict=True))))


@case
def a_step_is_as_long_in_every_precision(folder: Path) -> None:
    settings: dict[str, Any] = dict(steps=3, learning_rate=0.1, warmup_epochs=0.0)
    for mirrored in (False, True):
        lengths = [
            moved(
                folder / f"{precision}-{mirrored}",
                precision=precision,
                mirrored=mirrored,
                **settings,
            )
            for precision in ("float32", "mixed_bfloat16", "mixed_float16")
        ]
        np.testing.assert_allclose(lengths[1:], lengths[0], rtol=0.05)


@case
def losses_are_scaled_in_float16_alone(folder: Path) -> None:
    for precision in ("float32", "mixed_bfloat16", "mixed_float16"):
        optimizer = run(folder / precision, precision=precision, steps=1).training.optimizer
        scale = float(optimizer.scale_loss(1.0))
        assert scale >= 1024 if precision == "mixed_float16" else scale == 1, precision


@case
def xla_compiles_the_gradients_where_the_setting_says(folder: Path) -> None:
    for xla in ("off", "on"):
        step = run(folder / xla, xla=xla, steps=1).training.step
        functions = step.get_concrete_function().graph.as_graph_def().library.function
        compiled = [one for one in functions if one.attr["_XlaMustCompile"].b]
        assert bool(compiled) == (xla == "on")


@case
def the_warm_up_and_the_decay_are_those_of_the_steps(folder: Path) -> None:
    settings: dict[str, Any] = dict(mirrored=True, learning_rate=0.01)
    sudden = moved(folder / "sudden", warmup_epochs=0.0, **settings)
    warming = moved(folder / "warming", warmup_epochs=1.0, **settings)
    np.testing.assert_allclose(warming, sudden / 2, rtol=1e-3)  # from the rate of one replica
    settings = dict(steps=6, warmup_epochs=0.0, decay="linear", learning_rate=0.3)
    training = run(folder / "decay", **settings).training
    assert float(training.optimizer.learning_rate) == 0


@case
def early_stopping_is_the_same_on_all_replicas_and_after_a_resume(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        epochs=9, learning_rate=1e-30, early_stopping=3, checkpoint_steps=12
    )
    whole = run(folder / "whole", mirrored=True, **settings)
    assert len(whole.epochs) == 4
    run(folder / "cut", kill_at=12, mirrored=True, **settings)
    rest = run(folder / "cut", mirrored=True, **settings)
    assert rest.training.position == whole.training.position
