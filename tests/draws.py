"""Of several slow variants of one test each run takes one: RAILHEAD_DRAW_SEED=N repeats a draw.

The draw is made inside the test, not as its parameter: xdist's workers must collect the same tests.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
SEED = int(os.environ.get("RAILHEAD_DRAW_SEED") or random.SystemRandom().randrange(10**6))


def drawn(variants: Sequence[T]) -> T:
    """One of them; the seed is printed, and pytest shows it where the test fails."""
    variant = variants[SEED % len(variants)]
    print(f"RAILHEAD_DRAW_SEED={SEED} takes {variant!r}")
    return variant
