"""Settings of a step and of a training: each changes what it says, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers
from samples.trainings import DEFAULTS, cut, losses, moved, own_model, prepared, run, same
from standins.case_runner import case

from training import input_pipeline
from training.config import resolve
from training.data import splits


def regularized(inputs: Any, outputs: int, config: Any) -> Any:
    flat = [layers.Input(inputs.shape), layers.Flatten()]
    return keras.Sequential([*flat, layers.Dense(outputs, kernel_regularizer="l2")])


@case
def accumulation_and_xla_make_the_same_model(folder: Path) -> None:
    """Also of a model with a regularizer, which counts once per step."""
    settings: dict[str, Any] = dict(optimizer="sgd", global_batch=16, learning_rate=0.1, steps=6)
    with own_model(regularized):
        plain = run(folder / "plain", **settings)
        xla = run(folder / "xla", xla="on", **settings)
        same(run(folder / "parts", accumulation=3, **settings), plain)
        same(run(folder / "both", accumulation=5, xla="on", mirrored=True, **settings), plain)
    same(xla, plain)
    assert not is_compiled(plain) and is_compiled(xla)


def is_compiled(outcome: Any) -> bool:
    """Whether XLA compiles a part of the step."""
    step = outcome.training.step.get_concrete_function()
    functions = step.graph.as_graph_def().library.function
    return any(function.attr["_XlaMustCompile"].b for function in functions)


def normalized(inputs: Any, outputs: int, config: Any) -> Any:
    flat = [layers.Input(inputs.shape), layers.Flatten(), layers.BatchNormalization()]
    return keras.Sequential([*flat, layers.Dense(outputs)])


@case
def moving_averages_move_once_per_step_and_not_by_padding(folder: Path) -> None:
    """The layer sees the inputs themselves: their means do not depend on how a batch is cut."""
    with own_model(normalized):
        plain = run(folder / "plain")
        parts = run(folder / "parts", accumulation=3)
        settings: dict[str, Any] = dict(global_batch=199, checkpoint_steps=1, checkpoint_keep=3)
        run(folder / "idle", kill_at=2, mirrored=True, **settings)  # 200 samples
    np.testing.assert_allclose(parts.weights[2], plain.weights[2], atol=1e-6)
    assert not any("accumulation" in text for text in plain.messages)
    assert any("accumulation=3: moving averages" in text for text in parts.messages)
    first, second = [
        np.load(folder / f"idle/checkpoints/step-0000000{step}/state.npz")["moving"]
        for step in (1, 2)
    ]
    changed = [bool((row != before).any()) for before, row in zip(first, second, strict=True)]
    assert changed == [False, True], "position 199 is of the second replica"


@case
def clipping_limits_the_whole_gradient(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        steps=1, optimizer="sgd", learning_rate=1.0, warmup_epochs=0.0, decay="none"
    )
    whole = run(folder / "whole", **settings)
    clipped = run(folder / "clipped", clip_norm=1e-3, mirrored=True, global_batch=16, **settings)
    assert moved(whole) > 0.01
    np.testing.assert_allclose(moved(clipped), 1e-3, rtol=1e-2)


@case
def every_precision_learns_in_equal_steps_and_float16_alone_scales_its_losses(folder: Path) -> None:
    """A clipping that saw gradients of a scaled loss would shorten the steps."""
    settings: dict[str, Any] = dict(optimizer="sgd", decay="none", warmup_epochs=0.0, clip_norm=5.0)
    settings |= {"synthetic_samples": 80, "global_batch": 16, "learning_rate": 0.1}
    lengths = []
    for precision, mirrored in (
        ("float32", False),
        ("mixed_bfloat16", False),
        ("mixed_float16", True),
    ):
        place = folder / f"{precision}-{mirrored}"
        outcome = run(place, precision=precision, mirrored=mirrored, **settings)
        assert losses(outcome)[-1][0] < losses(outcome)[0][0], precision
        scale = float(outcome.training.optimizer.scale_loss(1.0))
        assert scale >= 1024 if precision == "mixed_float16" else scale == 1, precision
        lengths.append(moved(outcome))
    np.testing.assert_allclose(lengths[1:], lengths[0], rtol=0.05)


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
def only_training_images_are_moved_and_mirrored(folder: Path) -> None:
    """An evaluation, also one during a training, sees the images as they are."""
    config = resolve({**DEFAULTS, "shift": 2, "flip": "on"})
    samples = splits.load(config, {}).validation
    images, _ = samples.reader()(np.arange(len(samples)))
    originals = {image.tobytes() for image in np.asarray(images)}
    changed = []
    for training in (False, True):
        plan = input_pipeline.plan_for(
            samples, config, replicas=1, global_batch=8, training=training
        )
        batch = next(iter(input_pipeline.batches(samples, plan, config, [0])))[0].numpy()
        changed.append(sum(image.tobytes() not in originals for image in batch))
    assert changed[0] == 0 < changed[1]


@case
def epochs_and_trainings_end_when_the_settings_say(folder: Path) -> None:
    settings: dict[str, Any] = dict(epochs=9, learning_rate=1e-30, early_stopping=2)
    outcome = run(folder / "a", steps_per_epoch=5, **settings)
    assert len(outcome.epochs) == 3, "the first is the best; two more are waited for"
    assert outcome.training.position.step == 15
    outcome = run(folder / "b", steps=20)
    assert outcome.training.position.step == 20 and len(outcome.epochs) == 2


@case
def the_warm_up_and_the_decay_are_those_of_the_steps(folder: Path) -> None:
    settings: dict[str, Any] = dict(mirrored=True, learning_rate=0.01)
    for epochs, rate in ((0.0, 0.02), (1.0, 0.01)):  # a warm-up begins at the rate of one replica
        training = prepared(folder / f"{epochs}", warmup_epochs=epochs, **settings)
        np.testing.assert_allclose(float(training.optimizer.learning_rate), rate, rtol=1e-6)
    settings = dict(steps=3, warmup_epochs=0.0, decay="linear", learning_rate=0.3)
    settings |= {"optimizer": "sgd", "synthetic_samples": 40}
    training = run(folder / "decay", **settings).training
    assert float(training.optimizer.learning_rate) == 0


@case
def early_stopping_is_the_same_on_all_replicas_and_after_a_resume(folder: Path) -> None:
    settings: dict[str, Any] = dict(
        epochs=9, learning_rate=1e-30, early_stopping=3, checkpoint_steps=12, mirrored=True
    )
    whole = run(folder / "whole", checkpoint_keep=99, **settings)
    assert len(whole.epochs) == 4
    cut(folder / "whole", folder / "cut", 24)  # 7 steps per epoch: two epochs were waited
    rest = run(folder / "cut", **settings)
    assert len(rest.epochs) == 1 and rest.training.position == whole.training.position
