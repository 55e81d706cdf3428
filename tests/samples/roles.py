"""The processes of a comparison: a rank, one process alone, or one with a replica for each rank."""

from __future__ import annotations

import json
import os
from typing import Any

from railhead.keras_patches import patch, rows

REPLICAS = 2


def install_patches(role: str) -> None:
    """The patches of Keras 3 that ranks have, before Keras is imported."""
    patch.install(rows.patches_for("mirrored" if role == "mirrored" else "multiworker"), print)


def strategy_of(role: str) -> tuple[Any, str]:
    """The strategy of a role, None for `alone`, and the name of its file: the rank's number, or the
    role."""
    import tensorflow as tf

    if role == "mirrored":
        (cpu,) = tf.config.list_physical_devices("CPU")
        parts = [tf.config.LogicalDeviceConfiguration()] * REPLICAS
        tf.config.set_logical_device_configuration(cpu, parts)
        return tf.distribute.MirroredStrategy([f"CPU:{n}" for n in range(REPLICAS)]), role
    if role == "rank":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        return strategy, str(json.loads(os.environ["TF_CONFIG"])["task"]["index"])
    return None, role
