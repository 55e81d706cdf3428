"""Scripts that would be trained by each rank alone are refused before a host is contacted."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.options import program

from bootstrap.errors import UsageError
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.plan.cluster import Options
from bootstrap.runs.keras.alone import alone_as
from bootstrap.runs.request import read_request
from bootstrap.workflows.train import TrainOptions, train

TF = "import tensorflow as tf\n"
FIT = "model.fit(x, y)\n"
LIBRARY = {"lib/__init__.py": "", "lib/loop.py": "import horovod.tensorflow as hvd\n"}
# The launcher, the source, other files, and a part of what to do; "": it may join others.
SCRIPTS: dict[str, tuple[str, str, dict[str, str], str]] = {
    "plain Keras": ("tensorflow", TF + FIT, {}, "MultiWorkerMirroredStrategy"),
    "plain Keras with Horovod": ("horovod", "import keras, numpy\n" + FIT, {}, "hvd.init()"),
    "one of another launcher": (
        "tensorflow", TF + "import horovod.tensorflow as hvd\n", {}, "--launcher horovod"
    ),
    "a strategy with Horovod": (
        "horovod", TF + "s = tf.distribute.MultiWorkerMirroredStrategy()\n", {},
        "--launcher tensorflow",
    ),
    "plain JAX": ("jax", "import jax, optax\n", {}, "jax.distributed.initialize()"),
    "plain PyTorch": ("torch", "import torch\n", {}, "init_process_group()"),
    "a module without a group": (
        "tensorflow", TF + "from lib import loop\n",
        {"lib/__init__.py": "", "lib/loop.py": "import pandas\n"}, "--independent",
    ),
    "a strategy": ("tensorflow", TF + "tf.distribute.MultiWorkerMirroredStrategy()\n", {}, ""),
    "a server": ("tensorflow", TF + "tf.train.Server(spec)\n", {}, ""),
    "its own variable": ("horovod", TF + "import os\nos.environ['TF_CONFIG'] = c\n", {}, ""),
    "Horovod in a module": ("horovod", TF + "from lib import loop\n", LIBRARY, ""),
    "MPI": ("horovod", TF + "from mpi4py import MPI\n", {}, ""),
    "keras.distribution": ("jax", "import keras\nkeras.distribution.initialize()\n", {}, ""),
    "a group of PyTorch": ("torch", "import torch\ntorch.distributed.is_available()\n", {}, ""),
    "another package": ("torch", "import torch, transformers\n", {}, ""),
    "a child": ("tensorflow", TF + "import subprocess\n", {}, ""),
    "a module by its name": ("tensorflow", TF + "import importlib\n", {}, ""),
    "Python 2": ("tensorflow", TF + "print 'x'\n", {}, ""),
    "a module of Python 2": (
        "tensorflow", TF + "import lib\n", {"lib/__init__.py": "print 'x'\n"}, ""
    ),
    "no framework": ("horovod", "print('hello')\n", {}, ""),
}  # fmt: skip


@pytest.mark.parametrize(("launcher", "text", "files", "todo"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_shows_whether_its_ranks_can_join_each_other(
    launcher: str, text: str, files: dict[str, str], todo: str
) -> None:
    contents = {"train.py": text, **files}

    def read(path: str) -> bytes | None:
        return contents[path].encode() if path in contents else None

    answer = alone_as("train.py", read, launcher)
    assert todo in answer and bool(answer) is bool(todo)


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "train.py").write_text(TF + FIT)
    monkeypatch.chdir(tmp_path)
    return "train.py"


@pytest.mark.parametrize(
    ("launcher", "hosts"), [("tensorflow", "a,b"), ("horovod", "a,b"), ("horovod", "a*2")]
)
def test_it_is_refused_where_there_are_several_ranks_before_contact(
    script: str, launcher: str, hosts: str, tmp_path: Path
) -> None:
    request = read_request(program(script=script, launcher=launcher), {})
    with pytest.raises(UsageError, match="train.py has nothing by which 2 ranks") as caught:
        train(parse_hosts(hosts), TrainOptions(request, Options(), tmp_path / "results"))
    assert caught.value.hint == request.alone and not (tmp_path / "results").exists()


def test_one_that_means_it_is_not(script: str) -> None:
    given = program(script=script, launcher="tensorflow", independent=True)
    request = read_request(given, {})
    assert request.alone == "" and request.options.independent


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"script": "train.py"}, "--independent: launcher horovod is for ranks that join"),
        ({"launcher": "tensorflow"}, "--independent is for --script"),
    ],
)
def test_ranks_that_join_by_their_launcher_are_not_independent(
    script: str, given: dict[str, str], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        read_request(program(**given, independent=True), {})
