"""A patch of Keras 3's random layers, such as Dropout, for strategies with several replicas: each
replica draws for itself, as in Keras 2.

`module` is keras.src.random.seed_generator.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

from .patch import Patch, source_has

SEEDS = "keras.src.random.seed_generator"


def draw_apart(module: Any) -> None:
    """A draw depends on the number of the replica: the state of a layer is the same on all."""
    next_seed = module.SeedGenerator.next

    @functools.wraps(next_seed)
    def next(self: Any, ordered: bool = True) -> Any:
        seed = next_seed(self, ordered)
        tf = importlib.import_module("tensorflow")
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return seed
        replica = tf.cast(context.replica_id_in_sync_group, seed.dtype)
        return seed + tf.stack([replica, tf.zeros_like(replica)])

    module.SeedGenerator.next = next


DRAWS: tuple[Patch, ...] = (
    Patch(
        SEEDS,
        ("multiworker", "mirrored"),
        "",
        "each replica draws its own dropout masks",
        draw_apart,
        source_has("SeedGenerator.next", "replica", expected=False),
    ),
)
