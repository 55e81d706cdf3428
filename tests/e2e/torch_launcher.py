"""`fab train --launcher torch` on two local hosts; a campaign, because its runtime has 3 GB."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e import launcher_runs


@pytest.mark.timeout(1800)
def test_two_ranks_of_torch_train_what_one_process_does(
    tmp_path: Path, shared_caches: Path
) -> None:
    with launcher_runs.operator_of(tmp_path, shared_caches, "torch2.7") as operator:
        script = operator.write("code/train.py", launcher_runs.TORCH)
        train = ("train", "--launcher", "torch", "--script", "code/train.py")
        operator.fab(*train, seconds=1500).ended(0, "torch over 2 ranks on 2 hosts", "succeeded")
        one = launcher_runs.alone(operator, "torch2.7", script, "torch")
        for rank in (0, 1):
            two = launcher_runs.values_in(operator.last / f"weights-{rank}.json", 2)
            assert two == pytest.approx(one, abs=1e-5)
