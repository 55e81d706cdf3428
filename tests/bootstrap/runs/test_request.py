"""The options of `fab train`: validated into a run request, or refused with the rule."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from samples.forks import copy_with_a_model
from standins.options import program
from standins.runs.run_documents import settings_of

from bootstrap.errors import UsageError
from bootstrap.plan.hostfile import Link, Peer
from bootstrap.runs.launch import StopPolicy, run_document
from bootstrap.runs.request import program_of, read_request
from bootstrap.workflows.train import program_summary
from railhead.documents.options.option import from_values
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.runs.run import Runtime, Script


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A script in its own folder, from where the command is typed."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/train.py").write_text("print('hello')\n")
    monkeypatch.chdir(tmp_path / "mine")
    return "train.py"


def test_the_built_in_training_gets_settings_resolved_by_its_own_check() -> None:
    request = read_request(program(preset="smoke", settings=("seed=7",)), {})
    assert request.program.kind == "training"
    assert request.program.settings["seed"] == 7
    assert request.program.settings["epochs"] >= 1
    assert "training/__main__.py" in {file.path for file in request.bundle.files}
    assert request.options.outputs == ("**",)


def test_a_copy_of_the_training_checks_its_settings_and_is_sent(tmp_path: Path) -> None:
    place = copy_with_a_model(tmp_path)
    request = read_request(program(training=str(place), settings=("model=mine",)), {})
    assert settings_of(request.program)["model"] == "mine"
    built_in = read_request(program(), {})
    sent = {file.path for file in request.bundle.files}
    assert sent == {file.path for file in built_in.bundle.files} | {"training/models/mine.py"}
    assert request.bundle.root == tmp_path
    assert "mine" not in program_summary(built_in) and str(place) in program_summary(request)


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("__main__.py", None, "not a folder named training with a __main__.py"),
        ("config.py", "import tensorflow", "No module named 'tensorflow'"),
        ("config.py", "x = (", "was never closed"),
        ("__main__.py", "print('{}')", "its output is not that of --check --json"),
        ("__main__.py", "print('[1]')", "its output is not that of --check --json"),
    ],
)
def test_a_copy_that_cannot_check_its_settings_is_refused(
    tmp_path: Path, file: str, content: str | None, expected: str
) -> None:
    place = copy_with_a_model(tmp_path)
    (place / file).unlink()
    if content is not None:
        (place / file).write_text(content)
    with pytest.raises(UsageError, match=expected) as caught:
        read_request(program(training=str(place)), {})
    assert "Traceback" not in str(caught.value) and "training" in caught.value.hint


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"training": "/nowhere/training"}, "--training /nowhere/training: not a folder named"),
        ({"preset": "digts"}, "'digts'. Did you mean digits"),
        ({"preset": "digts"}, "Choices: digits, linear, smoke, synthetic"),
        ({"settings": ("epohcs=3",)}, "epohcs.*epochs"),
        ({"settings": ("epochs=0",)}, "epochs"),
        ({"settings": ("optimizer=lion",)}, "lion.*adam, adamw, sgd"),
        ({"settings": ("optimizer=",)}, "''.*adam, adamw, sgd"),
        ({"settings": ("epochs",)}, "epochs"),
        ({"launcher": "mpi"}, "launcher 'mpi': one of horovod, tensorflow"),
        ({"strategy": "miror"}, "strategy 'miror': one of .* Did you mean mirrored"),
        ({"strategy": "mirrored", "launcher": "horovod"}, "mirrored is for launcher tensorflow"),
        ({"ps": "2"}, "--ps is for --strategy parameter-server"),
        ({"keras": ""}, "--keras: '' is not one of auto, 2, 3"),
        ({"keras": "2"}, "keras 2 is for --script"),
        ({"args": "--epochs 3"}, "--args needs --script"),
        ({"args": ""}, "--args needs --script"),
        ({"workdir": "."}, "--workdir needs --script"),
        ({"env": ("A",)}, "--env 'A': write NAME=value"),
        ({"env": ("=x",)}, "--env '=x': write NAME=value"),
        ({"env": ("A B=x",)}, "'A B' is not the name of a variable"),
        ({"env_file": "/nowhere/env"}, "--env-file /nowhere/env: No such file"),
        ({"env_file": "/"}, "--env-file /: Is a directory"),
        ({"env_file": "/dev/zero"}, "--env-file /dev/zero: must be a regular file"),
        ({"secrets": ("TOKEN",)}, "--secret TOKEN: not set here, or empty"),
        ({"secrets": ("A", "EMPTY", "B")}, "--secret EMPTY, B: not set"),
        ({"secrets": ("A",), "env": ("A=x",)}, "A is given twice"),
    ],
)
def test_an_invalid_option_is_refused_before_any_host_is_contacted(
    args: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected) as caught:
        read_request(program(**args), {"A": "1", "EMPTY": ""})
    assert caught.value.code == 2
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"preset": "digits"}, "--preset, --set and --training are for the built-in training"),
        ({"settings": ("epochs=3",)}, "a script takes --args"),
        ({"training": "training"}, "a script takes --args"),
        ({"args": "it's"}, "is not closed"),
        ({"workdir": "/nowhere"}, "/nowhere"),
        ({"script": "trian.py"}, "no script trian.py"),
    ],
)
def test_options_that_contradict_a_script_are_refused(
    script: str, args: dict[str, Any], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        read_request(program(**{"script": script, **args}), {})


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("train.ipynb", '{"cells": []}', "jupyter nbconvert --to script train.ipynb"),
        ("train.sh", "#!/bin/sh\nexport A=1\npython3 -u src/fit.py --epochs 3\n", "src/fit.py"),
        ("train.bash", "make all\n", "train.py"),
        ("train.yaml", "a: 1\n", "train.py"),
    ],
)
def test_what_python_would_not_run_is_refused(script: str, name: str, text: str, hint: str) -> None:
    Path(name).write_text(text)
    with pytest.raises(UsageError, match="a script is a Python program") as caught:
        read_request(program(script=name), {})
    assert hint in str(caught.value.hint)


@pytest.fixture
def package(script: str) -> None:
    Path("trainer").mkdir()
    for name in ("__init__", "task", "__main__"):
        Path(f"trainer/{name}.py").write_text("")


@pytest.mark.parametrize(
    ("module", "path"), [("trainer.task", "trainer/task.py"), ("trainer", "trainer/__main__.py")]
)
def test_a_module_is_sent_with_the_folder_of_its_first_package(
    package: None, module: str, path: str
) -> None:
    request = read_request(program(module=module, args="--a b"), {})
    assert request.program == Script("script", path, ("--a", "b"), module=module)
    assert "train.py" in {file.path for file in request.bundle.files}
    assert request.record and request.record.options["script"] is None
    assert request.record.options["module"] == module


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ({"module": "trainer.tsk"}, "there is no trainer/tsk.py"),
        ({"module": "trainer/task.py"}, "write a name such as trainer.task"),
        ({"module": "..task"}, "write a name such as"),
        ({"module": "trainer.task", "script": "train.py"}, "name one of them"),
        ({"module": "task", "workdir": "trainer/nowhere"}, "there is no trainer/nowhere/task.py"),
    ],
)
def test_a_module_that_is_not_one_is_refused(
    package: None, args: dict[str, str], expected: str
) -> None:
    with pytest.raises(UsageError, match=expected):
        read_request(program(**args), {})


def test_a_home_is_not_sent_with_a_module(package: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(Path.cwd()))
    with pytest.raises(UsageError, match="would be uploaded as a whole"):
        read_request(program(module="trainer.task"), {})


def test_a_script_is_shipped_with_its_folder_and_its_arguments(script: str) -> None:
    Path("data.csv").write_text("1,2\n")
    request = read_request(program(script=script, args="--name 'a b' '' -- 3"), {})
    assert request.program == Script("script", "train.py", ("--name", "a b", "", "--", "3"))
    assert [file.path for file in request.bundle.files] == ["data.csv", "train.py"]
    assert request.options.script


ENV_FILE = """# a comment
A=1

export B=two words
  C = spaced
D=x=y
E=
F="quotes stay"
"""


@pytest.mark.parametrize(
    ("sagemaker", "args"),
    [
        (None, ("--on", "False", "--b", "4")),
        (2, ("-b", "4", "--on", "False")),
        (3, ("--on", "false", "--b", "4")),
    ],
)
def test_a_mapping_of_python_is_spelled_as_the_run_says(
    script: str, sagemaker: int | None, args: tuple[str, ...]
) -> None:
    given = {"script": script, "args": {"on": False, "b": 4}, "sagemaker": sagemaker}
    request = read_request(from_values(ProgramOptions, given, UsageError))
    made = request.program
    assert isinstance(made, Script) and made.args == args
    assert (made.sagemaker, made.sagemaker_sdk) == (bool(sagemaker), sagemaker or 2)
    assert json.loads(made.hyperparameters or "null") == (given["args"] if sagemaker else None)
    assert request.record
    assert read_request(program_of(request.record.options)).program == made


def test_an_object_that_is_not_whole_is_refused(script: str) -> None:
    with pytest.raises(UsageError, match="not a JSON object"):
        read_request(program(script=script, args='{"epochs": 3', sagemaker="2"))
    assert read_request(program(script=script, args="{x")).program.args == ("{x",)  # type: ignore[union-attr]


def test_a_value_that_no_process_can_have_is_refused(script: str) -> None:
    Path("env").write_bytes(b"A=1\nB=a\0b\n")
    with pytest.raises(UsageError, match="--env-file env, line 2: a text without a NUL"):
        read_request(program(script=script, env_file="env"))


def test_env_overrides_env_file(script: str) -> None:
    Path("env").write_text(ENV_FILE.replace("  C = spaced\n", ""))
    args = program(script=script, env_file="env", env=("A=2", "A=3", "G=g", "A=2"))
    assert read_request(args, {}).options.env == {
        "A": "2", "B": "two words", "D": "x=y", "E": "", "F": '"quotes stay"', "G": "g",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A=1\nhunter2\n", "--env-file env, line 2: write NAME=value"),
        (ENV_FILE, "'C ' is not the name of a variable"),
        ("A=\udcff\n", "--env-file env: not UTF-8 text"),
    ],
)
def test_an_invalid_line_is_named_by_its_number_and_not_shown(
    script: str, text: str, expected: str
) -> None:
    Path("env").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=expected) as caught:
        read_request(program(script=script, env_file="env"), {})
    assert "hunter2" not in str(caught.value)


def test_a_secrets_value_is_in_no_document(script: str) -> None:
    args = program(script=script, secrets=("TOKEN", "TOKEN"), env=("MODE=quick",))
    request = read_request(args, {"TOKEN": "hunter2", "OTHER": "x"})
    assert request.secrets == {"TOKEN": "hunter2"}
    document = run_document(
        run_id="r",
        cluster="c",
        created="now",
        options=request.options,
        program=request.program,
        runtime=Runtime("r", "d"),
        bundle=request.bundle.digest,
        peers=[Peer("h", "10.0.0.1", 22, "ann", 1, "key")],
        links=[Link("eth0", "10.0.0.0/24")],
        ports=[23001],
        stop_policy=StopPolicy(),
        stops=[],
        bucket=None,
    )
    assert document.secrets == ("TOKEN",)
    assert document.env == {"MODE": "quick"}
    assert "hunter2" not in repr(document)
    assert "hunter2" not in repr(replace(request, secrets={}))


def test_secrets_are_read_from_the_callers_environment(
    script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAILHEADS_TEST_TOKEN", "hunter2")
    assert os.environ["RAILHEADS_TEST_TOKEN"] == "hunter2"
    request = read_request(program(script=script, secrets=("RAILHEADS_TEST_TOKEN",)))
    assert request.secrets == {"RAILHEADS_TEST_TOKEN": "hunter2"}
