"""Each runtime's lock on each of its Pythons that this machine has: installed, and imported.

It fetches 7 GB in all, so it is done in CI, which says RAILHEAD_IMPORTS=all, once for a lock and a
Python: tests/passed.py notes it. NVIDIA's own libraries are
resolved and not fetched: they are the same files for every Python, 2 to 3 GB for each lock, and no
import loads them where there is no GPU. `make gpu-check` installs and uses them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from passed import Passed
from standins.pythons import python_here

from bootstrap.plan.runtimes import RUNTIMES, TENSORFLOW, Runtime
from bootstrap.provision.uv import ENVIRONMENT

UV = Path(sys.executable).parent / "uv"
# The rest is fetched by nothing but their use: PyTorch is not imported without NVIDIA's libraries.
INSTALLED = [r for r in RUNTIMES.values() if r.framework is TENSORFLOW or r.name == "jax0.6-cpu"]
EACH = [
    pytest.param(runtime, python, id=f"{runtime.name}-{python}")
    for runtime in INSTALLED
    for python in runtime.row.pythons
]
CODES = {
    "tensorflow": """import tensorflow as tf, keras, tf_keras
assert keras.version().startswith("3."), keras.version()
assert tf_keras.__version__.startswith(tf.__version__.rsplit(".", 1)[0]), tf_keras.__version__
assert float(tf.reduce_sum(tf.matmul(tf.ones([8, 8]), tf.ones([8, 8])))) == 512.0
assert keras.Sequential([keras.layers.Dense(2)])(tf.ones([1, 3])).shape == (1, 2)
assert tf_keras.Sequential([tf_keras.layers.Dense(2)])(tf.ones([1, 3])).shape == (1, 2)
print(tf.__version__)""",
    "jax": """import os
os.environ["KERAS_BACKEND"] = "jax"
import jax, keras
assert float(jax.numpy.ones([8, 8]).dot(jax.numpy.ones([8, 8])).sum()) == 512.0
assert keras.Sequential([keras.layers.Dense(2)])(jax.numpy.ones([1, 3])).shape == (1, 2)
print(jax.__version__)""",
}


def run(args: Sequence[object], **variables: str) -> str:
    environment = {**os.environ, **ENVIRONMENT, **variables}
    argv = [str(word) for word in args]
    process = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert process.returncode == 0, f"{argv}\n{process.stderr[-2000:]}"
    return process.stdout


def imported(runtime: Runtime, python: str, folder: Path, cache: Path) -> str:
    """The version of its framework that a Python imports from an environment made from the lock."""
    environment = folder / "env"
    lock = folder / "lock.txt"
    entries = re.split(r"^(?=\w)", runtime.lock.read_text(), flags=re.MULTILINE)
    lock.write_text("".join(entry for entry in entries if not entry.startswith("nvidia-")))
    # One wheel of TensorFlow for GPUs is 2 GB when unpacked: those are not kept.
    kept = ["--no-cache"] if runtime.gpu else ["--cache-dir", cache / "railhead/uv"]
    run([UV, "venv", "--quiet", "--python", python, environment])
    install = [UV, "pip", "sync", "--quiet", "--require-hashes", *kept, "--python", environment]
    run([*install, "--dry-run", runtime.lock])
    run([*install, lock])
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "TF_USE_LEGACY_KERAS": ""}
    return run(
        [environment / "bin/python", "-c", CODES[runtime.framework.module]], **quiet
    ).split()[-1]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("runtime", "python"), EACH)
def test_a_lock_is_installed_and_imported(
    runtime: Runtime, python: str, tmp_path: Path, shared_caches: Path
) -> None:
    here = python_here(python)
    if here is None:
        pytest.skip(f"there is no Python {python} on this machine")
    parts = [runtime.lock.read_text(), python, CODES[runtime.framework.module]]
    passed = Passed(shared_caches, parts)
    if not passed and os.environ.get("RAILHEAD_IMPORTS") != "all":
        pytest.skip("fetches up to 1 GB: RAILHEAD_IMPORTS=all does it")
    if not passed:
        assert imported(runtime, here, tmp_path, shared_caches) == runtime.version
        shutil.rmtree(tmp_path)
        passed.note()
