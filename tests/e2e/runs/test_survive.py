"""A run survives random faults: a sample of `make campaign-survive-light`.

The seed is printed; RAILHEAD_SURVIVE_SEED repeats it.
"""

from __future__ import annotations

import os
import random

from e2e import faults, survive
from e2e.local_hosts import Operator

SEED = int(os.environ.get("RAILHEAD_SURVIVE_SEED") or random.randrange(10_000))


def test_a_run_survives_random_faults_and_no_step_counts_twice(operator: Operator) -> None:
    chosen = random.Random(SEED)
    kinds = [chosen.choice(faults.CONTINUES) for _ in range(2)]
    print(f"RAILHEAD_SURVIVE_SEED={SEED}: {', '.join(kinds)}")
    survive.count(operator, kinds, chosen, chosen.choice(survive.PROGRAMS))
