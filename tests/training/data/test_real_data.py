"""Real data that a package ships: Fashion-MNIST of Debian's dataset-fashion-mnist."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from places import ROOT
from standins.options import program

from bootstrap.provision.local_environment import RUNTIME, environment_folder
from bootstrap.workflows.data import shard
from railhead.documents.options.runs import ShardOptions
from training.data.shards import manifest
from training.data.store import Folder

FASHION = Path("/usr/share/datasets/fashion-mnist")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FASHION.is_dir(), reason="dataset-fashion-mnist is not installed"),
]


def test_every_image_of_fashion_mnist_is_read(
    runtime_python: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By `fab data shard`, with the runtime of the tests in the place of that of this machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    python = environment_folder(RUNTIME) / "bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec "{runtime_python}" "$@"\n')
    python.chmod(0o755)
    for split, count in (("train", 60_000), ("test", 10_000)):
        place = tmp_path / split
        shard(ShardOptions(str(FASHION), str(place), split), program(preset="fashion-mnist"))
        assert f"{count} records in 16 shards" in capsys.readouterr().out
        assert manifest.verify(Folder(place)).records == count


def test_thirty_steps_of_the_preset_learn_fashion_mnist(
    runtime_python: str, tmp_path: Path
) -> None:
    """It is evaluated on the 10,000 test images; a guess is right for 10 % of them."""
    command = [runtime_python, "-m", "training", "--preset", "fashion-mnist", "--set", "steps=30"]
    command += ["--data", f"train={FASHION}", "--results", str(tmp_path)]
    around = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        command, cwd=ROOT, env=around, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    evaluation = json.loads((tmp_path / "evaluation.json").read_text())
    assert evaluation["samples"] == 10_000 and evaluation["accuracy"] > 0.5, evaluation
