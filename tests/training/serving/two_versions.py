"""Two versions of a model whose outputs differ, written by a runtime's python. Each has a string
input, several signatures, and one that is slow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import tensorflow as tf


class Adds(tf.Module):  # type: ignore[misc]
    """Adds its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = tf.Variable(float(number))

    def add(self, x: Any) -> dict[str, Any]:
        return {"y": x + self.number}

    def measure(self, text: Any) -> dict[str, Any]:
        return {"length": tf.strings.length(text), "text_bytes": text}

    def sleep(self, seconds: Any) -> dict[str, Any]:
        end = tf.timestamp() + tf.cast(seconds[0], tf.float64)
        now = tf.while_loop(lambda now: now < end, lambda now: [tf.timestamp()], [tf.timestamp()])
        with tf.control_dependencies(now):
            return {"slept": tf.identity(seconds)}


def write(_: Path, place: str) -> None:
    """Versions 1 and 2, in folders of `place`."""
    for number in (1, 2):
        model = Adds(number)
        inputs = {
            "serving_default": (model.add, tf.TensorSpec([None, 2], tf.float32, "x")),
            "measure": (model.measure, tf.TensorSpec([None], tf.string, "text")),
            "sleep": (model.sleep, tf.TensorSpec([None], tf.float32, "seconds")),
        }
        signatures = {
            name: tf.function(function, input_signature=[spec])
            for name, (function, spec) in inputs.items()
        }
        tf.saved_model.save(model, f"{place}/{number}", signatures)
