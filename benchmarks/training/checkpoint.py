"""What a checkpoint costs of the time between two. Limit: 5 %."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from benchmarks.training.loop import CASES, epoch, images, settings, training_of
from training.config import TrainConfig

LIMIT = 0.05
DEFAULT_SECONDS = TrainConfig().checkpoint_minutes * 60


def run(model: str, folder: Path) -> bool:
    """Measure and print; whether the limit is kept at the default interval."""
    case = CASES[model]
    config = settings(case, checkpoint_minutes=TrainConfig().checkpoint_minutes)
    training = training_of(config, images(case, folder), folder / "results")
    epoch(training)()
    taken = []
    for _ in range(5):
        begin = time.perf_counter()
        training._save()
        taken.append(time.perf_counter() - begin)
    size = sum(f.stat().st_size for f in (folder / "results/checkpoints").glob("step-*/*"))
    count = len(list((folder / "results/checkpoints").glob("step-*")))
    share = median(taken) / DEFAULT_SECONDS
    print(
        f"{model}: {median(taken):.2f} s for {size / count / 1e6:.0f} MB, {100 * share:.2f} % of "
        f"the {DEFAULT_SECONDS:.0f} s between two; shorter than {median(taken) / LIMIT:.0f} s "
        "is more than the limit"
    )
    return share <= LIMIT
