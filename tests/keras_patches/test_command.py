"""`python -m railhead.keras_patches SCRIPT` under any launcher, without the rest of Railhead."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from standins.stores.servers import free_ports

from railhead.keras_patches.__main__ import is_first, strategy_of

FIT = """
import sys, numpy, keras, tensorflow as tf
with tf.distribute.MultiWorkerMirroredStrategy().scope():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(numpy.eye(4), numpy.ones((4, 1)), batch_size=4, epochs=2, verbose=0)
numpy.save(sys.argv[1], model.get_weights()[0])
"""


def started(python: str, words: list[str], folder: Path, **environ: str) -> subprocess.Popen[str]:
    """The command in a folder, from a copy that has this package and the documents alone."""
    package = folder / "site/railhead"
    if not package.exists():
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        for name in ("keras_patches", "documents"):
            (package / name).symlink_to(ROOT / "railhead" / name)
    argv = [python, "-m", "railhead.keras_patches", *words]
    settings = {**os.environ, "PYTHONPATH": str(folder / "site"), **environ}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(argv, cwd=folder, env=settings, text=True, **pipes)  # type: ignore[call-overload, no-any-return]


def tf_config(kind: str, index: int | str, **others: list[str]) -> dict[str, str]:
    cluster, task = {"worker": ["a:1", "b:1"], **others}, {"type": kind, "index": index}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


@pytest.mark.parametrize(
    ("environ", "strategy", "first"),
    [
        ({}, "multiworker", True),
        (tf_config("worker", 0), "multiworker", True),
        (tf_config("worker", 1), "multiworker", False),
        (tf_config("chief", 0, chief=["c:1"], ps=["d:1"]), "parameter-server", True),
        (tf_config("ps", 0, chief=["c:1"], ps=["d:1"]), "parameter-server", False),
        ({"TF_CONFIG": "no JSON", "SLURM_PROCID": "0"}, "multiworker", True),
        ({"TF_CONFIG": '{"cluster": null, "task": []}'}, "multiworker", True),
        (tf_config("worker", "0"), "multiworker", True),
        ({"OMPI_COMM_WORLD_RANK": "0"}, "horovod", True),
        ({"PMI_RANK": "0"}, "horovod", True),
        ({"PMI_RANK": "0", "SLURM_PROCID": "0"}, "multiworker", True),
        ({"HOROVOD_RANK": "3"}, "horovod", False),
    ],
)
def test_the_launcher_says_which_patches_are_needed_and_who_is_first(
    environ: dict[str, str], strategy: str, first: bool
) -> None:
    assert (strategy_of(environ), is_first(environ)) == (strategy, first)


@pytest.mark.parametrize("words", [["work/train.py"], ["-m", "work.train"]])
def test_a_program_runs_as_python_runs_it(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/train.py").write_text(
        "import sys\nprint(__name__, sys.argv[1:])\nsys.exit(7)\n"
    )
    process = started(sys.executable, [*words, "--epochs", "-3"], tmp_path)
    assert process.communicate()[0] == "__main__ ['--epochs', '-3']\n"
    assert process.returncode == 7


@pytest.mark.parametrize("words", [["nowhere.py"], ["-m", "nowhere.train"]])
def test_a_program_that_is_not_there_is_a_mistake_of_the_user(
    tmp_path: Path, words: list[str]
) -> None:
    process = started(sys.executable, words, tmp_path)
    errors = process.communicate()[1]
    assert process.returncode == 2 and words[-1] in errors and "Traceback" not in errors


def test_a_script_imports_from_its_own_folder_alone(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    for folder, name in ((tmp_path, "cwd"), (tmp_path / "work", "neighbour")):
        (folder / f"{name}.py").write_text("")
    script = tmp_path / "work/train.py"
    script.write_text(
        "from importlib.util import find_spec as f\nprint(*map(bool, map(f, ('cwd', 'neighbour'))))"
    )
    (tmp_path / "link.py").symlink_to(script)
    process = started(sys.executable, ["link.py"], tmp_path)
    assert process.communicate()[0] == "False True\n"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_processes_of_another_launcher_train_one_model(
    runtime_python: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(FIT)
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    workers = []
    for index in (0, 1):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        words, environ = ["train.py", f"{index}.npy"], {"TF_CONFIG": json.dumps(config)}
        workers.append(started(runtime_python, words, tmp_path, **environ))
    errors = [process.communicate()[1] for process in workers]
    assert [process.returncode for process in workers] == [0, 0], errors[0][-3000:]
    assert (tmp_path / "0.npy").read_bytes() == (tmp_path / "1.npy").read_bytes()
    notices = ["(--strategy multiworker)" in text for text in errors]
    assert notices == [True, False]
