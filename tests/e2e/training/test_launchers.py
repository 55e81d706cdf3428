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
    launcher_runs.check_launcher(tmp_path, shared_caches, row, "jax", launcher_runs.JAX)
