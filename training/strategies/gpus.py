"""Which GPUs a process uses, and how it takes their memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ..results import TrainingError


def gpu_for(local_rank: int, gpus: Sequence[Any]) -> Any:
    """This rank's own GPU; None if the host has no GPU at all."""
    if not gpus:
        return None
    if local_rank >= len(gpus):
        raise TrainingError(
            f"each rank needs its own GPU: local rank {local_rank} is one too many for this "
            f"host's {len(gpus)}; give the host fewer slots"
        )
    return gpus[local_rank]


def claim_gpus(gpus: Sequence[Any]) -> None:
    """Use these GPUs only, and take their memory as it is needed, not all of it at once."""
    tf.config.set_visible_devices(list(gpus), "GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
