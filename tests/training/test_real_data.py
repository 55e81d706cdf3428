"""Real data that a package ships: Fashion-MNIST of Debian's dataset-fashion-mnist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FASHION = Path("/usr/share/datasets/fashion-mnist")

pytestmark = pytest.mark.slow


@pytest.mark.skipif(not FASHION.is_dir(), reason="dataset-fashion-mnist is not installed")
def test_every_image_of_fashion_mnist_is_read(runtime_python: str, tmp_path: Path) -> None:
    for split, count in (("train", 60_000), ("test", 10_000)):
        command = [runtime_python, "-m", "training.data", "shard", str(FASHION)]
        command += [str(tmp_path / split), "--preset", "fashion-mnist", "--split", split]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280)
        assert f"{count} records in 16 shards" in done.stdout, done.stderr[-3000:]
