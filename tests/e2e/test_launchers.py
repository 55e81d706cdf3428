"""`fab train --launcher jax` on two local hosts: both ranks together train what one process does.

`make campaign-torch SEEDS=0:1` does the same with PyTorch, whose runtime has 3 GB.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e import kept_environments, launcher_runs


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_ranks_of_jax_train_what_one_process_does(tmp_path: Path, shared_caches: Path) -> None:
    row = kept_environments.JAX
    with launcher_runs.operator_of(tmp_path, shared_caches, row) as operator:
        script = operator.write("code/train.py", launcher_runs.JAX)
        train = ("train", "--launcher", "jax", "--script", "code/train.py")
        operator.fab(*train, seconds=600).ended(0, "jax over 2 ranks on 2 hosts", "succeeded")
        one = launcher_runs.alone(operator, row, script, "jax")
        assert launcher_runs.values_in(operator.last / "weights-0.json", 2) == pytest.approx(
            one, abs=1e-5
        )
        operator.fab(*train, "--env", "DIES=1").ended(1, "rank 1 on h2")
        culprit = operator.result()["culprit"]
        assert (culprit["rank"], culprit["host"], culprit["signal"]) == (1, "h2", 9)
        operator.fab("train", "--launcher", "jax").ended(2, "is for --script")
