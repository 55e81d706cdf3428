"""`fab train --launcher torch` on two local hosts; a campaign, because its runtime has 4 GB."""

from __future__ import annotations

from pathlib import Path

import pytest
from e2e import launcher_runs


@pytest.mark.timeout(1800)
def test_two_ranks_of_torch_train_what_one_process_does(
    tmp_path: Path, shared_caches: Path
) -> None:
    source = launcher_runs.TORCH
    launcher_runs.check_launcher(tmp_path, shared_caches, "torch2.10", "torch", source)


@pytest.mark.timeout(1800)
def test_keras_trains_on_torch_on_one_host(tmp_path: Path, shared_caches: Path) -> None:
    launcher_runs.check_keras(tmp_path, shared_caches, "torch2.10", "torch")
