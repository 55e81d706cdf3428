"""Horovod with Keras 3: two ranks make the models that one process makes, and the rest of
Horovod's interface works or is refused.

One launch of two ranks does everything. A sample runs in the suite, with RAILHEAD_KERAS_CAMPAIGN
set all of it: `make campaign-horovod SEEDS=0:3`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from places import ROOT, TESTS
from standins.forks import FORKED, with_tensorflow
from standins.horovod_ranks.checks import CHECKS, IN_SUITE
from standins.horovod_ranks.trainings import TRAININGS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("runtime_python"),
    pytest.mark.timeout(900),  # the first test waits for all of the launch
    pytest.mark.skipif(not shutil.which("mpirun"), reason="mpirun is not installed"),
]
SAMPLE = [*(name for name, training in TRAININGS.items() if training.in_suite), *IN_SUITE]
CAMPAIGN = bool(os.environ.get("RAILHEAD_KERAS_CAMPAIGN"))
NAMES = [*TRAININGS, *CHECKS] if CAMPAIGN else SAMPLE
KERAS_PATH = os.environ.get("RAILHEAD_KERAS_PATH", "")  # a folder with another Keras

RANKS = TESTS / "standins/horovod_ranks"
# Of Horovod's repository, with the arguments that make them short.
EXAMPLES = {
    "tensorflow2/tensorflow2_keras_mnist.py": (),
    "tensorflow2/tensorflow2_mnist.py": (),
    "elastic/tensorflow2/tensorflow2_keras_mnist_elastic.py": (),
    "tensorflow2/tensorflow2_keras_synthetic_benchmark.py": (
        *("--model", "MobileNet", "--batch-size", "2"),
        *("--num-batches-per-iter", "2", "--num-iters", "2"),
    ),
}


def run(python: str, folder: Path, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a program of RANKS in two ranks."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [KERAS_PATH, str(ROOT), str(TESTS)])),
        "CUDA_VISIBLE_DEVICES": "-1",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "HOROVOD_STALL_CHECK_TIME_SECONDS": "30",  # a rank that waits for ever fails
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": "60",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    mpirun = ["mpirun", "--bind-to", "none", "--oversubscribe", "-np", "2"]
    start = python
    if program == "program.py" and not KERAS_PATH:
        environment["RAILHEAD_FORKS"], start = with_tensorflow(python), str(FORKED)
    argv = [*mpirun, start, str(RANKS / program), str(folder), *words]
    return subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=800
    )


@pytest.fixture(scope="module")
def ranks(runtime_python: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """The report of each rank."""
    folder = tmp_path_factory.mktemp("horovod")
    process = run(runtime_python, folder, "program.py", *NAMES)
    paths = [folder / f"rank-{rank}.json" for rank in range(2)]
    assert process.returncode == 0 and all(map(Path.is_file, paths)), process.stderr[-5000:]
    return [json.loads(path.read_text()) for path in paths]


@pytest.mark.parametrize("name", NAMES)
def test_horovod_works_with_keras_3(name: str, ranks: list[dict[str, Any]]) -> None:
    failures = [report[name]["failure"] for report in ranks]
    assert failures == ["", ""], "\n".join(failures)


def test_the_patches_are_announced(ranks: list[dict[str, Any]]) -> None:
    assert all(report["announced"] for report in ranks)


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The examples of Horovod's repository; they are not stored here."""
    if programs := os.environ.get("RAILHEAD_PROGRAMS"):
        return Path(programs) / "horovod/horovod/examples"
    clone = tmp_path_factory.mktemp("clone") / "horovod"
    options = ("--quiet", "--depth", "1", "--branch", "v0.28.1")
    url = "https://github.com/horovod/horovod"
    subprocess.run(["git", "clone", *options, url, str(clone)], check=True, timeout=300)
    return clone / "examples"


if CAMPAIGN:

    @pytest.mark.parametrize("name", EXAMPLES)
    def test_public_examples_run_unchanged(
        name: str, examples: Path, runtime_python: str, tmp_path: Path
    ) -> None:
        process = run(runtime_python, tmp_path, "example.py", str(examples / name), *EXAMPLES[name])
        assert process.returncode == 0, process.stderr[-5000:]
        weights = [json.loads((tmp_path / f"weights-{rank}.json").read_text()) for rank in range(2)]
        assert weights[0] == weights[1]
