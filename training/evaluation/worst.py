"""The pictures on which a model is most wrong, as PNG files for the report of a run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from ..config import TrainConfig
from ..data.shards.shard_files import Shards
from ..input_pipeline import batches, next_batch, plan_for
from ..tasks import Task

FOLDER = "worst"
MOST = 12  # pictures
LOOKED_AT = 2000  # samples: one process computes them alone, the others wait meanwhile
CHANNELS = (1, 3, 4)
SMALLEST = 8  # pixels per side: smaller arrays are not pictures


def write_worst(
    model: Any, samples: Any, config: TrainConfig, task: Task, names: tuple[str, ...], folder: Path
) -> dict[str, Any]:
    """Write the wrong predictions with the highest loss, as `worst/1.png` and so on in `folder`.

    Returns `worst`, a list of picture, label, prediction and loss, and `worst_of`, the number of
    samples that were looked at; an empty dict if inputs are not pictures or have no classes.
    """
    shutil.rmtree(folder / FOLDER, ignore_errors=True)
    if not is_image(samples.inputs.shape) or task.metric != "accuracy":
        return {}
    worst, count = _worst(model, samples, config, task)
    (folder / FOLDER).mkdir(parents=True)
    entries = []
    for number, (loss, label, prediction, image) in enumerate(worst, 1):
        path = f"{FOLDER}/{number}.png"
        (folder / path).write_bytes(_png(image))
        entry = {"picture": path, "label": _name(names, label), "loss": loss}
        entries.append({**entry, "prediction": _name(names, prediction)})
    return {"worst": entries, "worst_of": count}


def is_image(shape: tuple[int, ...]) -> bool:
    """Whether inputs of this shape can be shown: [height, width, channels]."""
    return len(shape) == 3 and shape[2] in CHANNELS and min(shape[:2]) >= SMALLEST


def _worst(
    model: Any, samples: Any, config: TrainConfig, task: Task
) -> tuple[list[tuple[float, int, int, Any]], int]:
    """(loss, label, prediction, image) of the worst wrong predictions, the worst one first; and
    how many samples were looked at."""
    if isinstance(samples, Shards):
        samples = samples.at_hand(LOOKED_AT)
    if not len(samples):
        return [], 0
    size = max(8, config.batch_size // 8 * 8)  # shards are read in 8 lanes
    plan = plan_for(samples, config, replicas=1, global_batch=size, training=False)
    worst: list[tuple[float, int, int, Any]] = []
    count = 0
    feed = iter(batches(samples, plan, config, [0]))
    for _ in range(plan.steps):
        inputs, labels, weights, *_ = next_batch(feed, samples)
        outputs = tf.cast(model(inputs, training=False), tf.float32)
        losses, guesses = task.losses(labels, outputs), task.predictions(outputs)
        wrong = np.flatnonzero((guesses.numpy() != labels.numpy()) & (weights.numpy() > 0))
        rows = zip(
            losses.numpy()[wrong], labels.numpy()[wrong], guesses.numpy()[wrong], wrong, strict=True
        )
        worst += [(float(x), int(y), int(z), inputs[row].numpy()) for x, y, z, row in rows]
        worst = sorted(worst, key=lambda item: -item[0])[:MOST]
        count += int(weights.numpy().sum())
        if count >= LOOKED_AT:
            break
    return worst, count


def _name(names: tuple[str, ...], number: int) -> str:
    return names[number] if number < len(names) else str(number)


def _png(image: Any) -> bytes:
    """An image [height, width, channels] in 0..1 as a PNG file."""
    pixels = np.clip(np.nan_to_num(image) * 255.0, 0, 255).astype(np.uint8)
    data: bytes = tf.io.encode_png(pixels).numpy()
    return data
