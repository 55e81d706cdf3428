"""One dict of hyperparameters as the arguments and variables of a script, beside the two programs
of Amazon that do it: sagemaker-training 5.1.4 and sagemaker-train 1.27.0 (of sagemaker 3.27.0)."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from file_lock import locked

from bootstrap.errors import UsageError
from bootstrap.runs.request import hyperparameters, spelled
from railhead.documents.options.option import from_values
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.sagemaker import values, values_in, variables

PACKAGES = {  # with the sha256 of each
    "sagemaker-training==5.1.4": "4b6147670ccee4b14cbd86dbfdf416fcfffe486b3ef7ac8d1caf6bc361386121",
    "sagemaker-train==1.27.0": "b5974e537b6436ebac906de81dd3dd7bc49097d9aed8791649bb631a586682de",
}
GIVEN: dict[str, Any] = {
    "epochs": 3,
    "augment": False,
    "b": 4,
    "layers": [64, "x", None],
    "learning-rate": 0.1,
    "nested": {"z": 1, "a": {"c": True}},
    "nothing": None,
    "text": "a b",
    "quoted": 'say "no"',
    "number": "3",
    "flag": "-b 4",
    "empty": "",
}
# Each dict of the file: what the toolkit makes of it, as SDK 2 sends it.
OF_TOOLKIT = """
import json, os, pathlib, sys
config = pathlib.Path(os.environ["SAGEMAKER_BASE_DIR"], "input/config")
config.mkdir(parents=True)
(config / "resourceconfig.json").write_text(json.dumps({"current_host": "a", "hosts": ["a"]}))
(config / "inputdataconfig.json").write_text("{}")
from sagemaker_training import environment
found = []
for given in json.load(open(sys.argv[1])):
    sent = {name: json.dumps(value) for name, value in given.items()}
    (config / "hyperparameters.json").write_text(json.dumps(sent))
    one = environment.Environment()
    found.append([one.to_cmd_args(), one.to_env_vars()])
json.dump(found, open(sys.argv[2], "w"))
"""
# The same of ModelTrainer: a file of variables that bash reads, then the driver's command.
OF_MODEL_TRAINER = """
import json, os, subprocess, sys
from sagemaker.train.container_drivers.common.utils import safe_serialize
from sagemaker.train.container_drivers.distributed_drivers import basic_script_driver
from sagemaker.train.container_drivers.scripts import environment
os.environ |= {"TRAINING_JOB_NAME": "job", "SM_ENTRY_SCRIPT": "x.py"}
resources = {"current_host": "a", "current_instance_type": "m", "hosts": ["a"]}
resources["network_interface_name"] = "eth0"
found = []
for given in json.load(open(sys.argv[1])):
    sent = {name: safe_serialize(value) for name, value in given.items()}
    file = sys.argv[2] + ".env"
    environment.set_env(resources, {}, sent, file)
    argv = ["bash", "-ec", ". " + file + "; env -0"]
    items = subprocess.run(argv, check=True, capture_output=True, text=True).stdout.split("\\0")
    variables = dict(item.split("=", 1) for item in items if "=" in item)
    os.environ["SM_HPS"] = variables["SM_HPS"]
    found.append([basic_script_driver.create_commands()[2:], variables])
json.dump(found, open(sys.argv[2], "w"))
"""
PROGRAMS = {2: OF_TOOLKIT, 3: OF_MODEL_TRAINER}


@pytest.fixture(scope="module")
def packages(shared_caches: Path) -> Path:
    """The folder with the packages, fetched once; the rest of what they need is ours."""
    folder = shared_caches / "railhead/test-sagemaker/5.1.4-1.27.0"
    with locked(folder.with_name("lock")):
        if not folder.exists():
            partial = folder.with_name("part")
            shutil.rmtree(partial, ignore_errors=True)
            uv = [str(Path(sys.executable).with_name("uv")), "pip", "install", "--quiet"]
            where = ["--python", sys.executable, "--target", str(partial)]
            more = ["--no-deps", "--require-hashes", "-r", "-"]
            lines = "".join(f"{name} --hash=sha256:{x}\n" for name, x in PACKAGES.items())
            argv = [*uv, *where, *more]
            done = subprocess.run(argv, input=lines, text=True, capture_output=True)
            if "error sending request" in done.stderr or "Failed to fetch" in done.stderr:
                pytest.skip("the packages of SageMaker cannot be fetched")
            assert done.returncode == 0, done.stderr
            partial.rename(folder)
    return folder


def spelling(arguments: dict[str, Any], sdk: int) -> tuple[list[str], dict[str, str]]:
    """Ours: the arguments and variables, by the way of a run of the Python interface."""
    options = from_values(ProgramOptions, {"args": arguments, "sagemaker": sdk}, UsageError)
    whole = hyperparameters(options)
    assert whole is not None
    return list(spelled(whole, options)), variables(values(whole, sdk), sdk)


def random_value(of: random.Random, sdk: int, depth: int = 0) -> Any:
    quote = "'" if sdk == 2 else ""  # ModelTrainer ends its variable there
    text = "".join(of.choices('ab01 -=,:{}[]"\\\n$`é.#' + quote, k=of.randint(0, 6)))
    plain = [of.choice([True, False, None]), of.randint(-9, 9), of.random(), text, 1e-5, 2.0]
    if depth > 1:
        return of.choice(plain)
    inner = [random_value(of, sdk, depth + 1) for _ in range(of.randint(0, 3))]
    return of.choice([*plain, inner, {f"k{i}": value for i, value in enumerate(inner)}])


@pytest.mark.parametrize("sdk", [2, 3])
def test_one_dict_is_spelled_as_by_the_real_packages(
    packages: Path, tmp_path: Path, sdk: int
) -> None:
    of = random.Random(sdk)
    names = ("epochs", "b", "learning-rate", "a_b", "X", "z9")
    dicts = [GIVEN, *({n: random_value(of, sdk) for n in names} for _ in range(60))]
    (tmp_path / "given").write_text(json.dumps(dicts))
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(packages)}
    environment |= {"SAGEMAKER_BASE_DIR": str(tmp_path / "ml"), "HOME": str(tmp_path)}
    argv = [sys.executable, "-c", PROGRAMS[sdk], str(tmp_path / "given"), str(tmp_path / "found")]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for arguments, (words, theirs) in zip(
        dicts, json.loads((tmp_path / "found").read_text()), strict=True
    ):
        ours = spelling(arguments, sdk)
        assert ours[0] == words, arguments
        assert ours[1] == {n: v for n, v in theirs.items() if n.startswith("SM_HP")}, arguments


def test_the_two_spellings_of_one_dict() -> None:
    """What both packages wrote, for those who read it; the order of SDK 3 is that of the dict."""
    of_2, variables_2 = spelling(GIVEN, 2)
    of_3, variables_3 = spelling(GIVEN, 3)
    pairs_2, pairs_3 = (dict(zip(w[::2], w[1::2], strict=True)) for w in (of_2, of_3))
    assert {pairs_2["--augment"], pairs_3["--augment"]} == {"False", "false"}
    assert (pairs_2["-b"], pairs_3["--b"]) == ("4", "4")
    assert pairs_2["--nested"] == "a={'c': True},z=1"
    assert json.loads(pairs_3["--nested"]) == GIVEN["nested"]
    assert (pairs_2["--nothing"], pairs_3["--nothing"]) == ("", "null")
    assert variables_2["SM_HP_LEARNING-RATE"] == variables_3["SM_HP_LEARNING_RATE"] == "0.1"
    assert json.loads(variables_2["SM_HPS"]) == GIVEN
    assert json.loads(variables_3["SM_HPS"]) == {**GIVEN, "number": 3}


@pytest.mark.parametrize(
    "wrong", [{"a=b": 1}, {"a": "x\0y"}, {(1, 2): 3}], ids=["a name", "a value", "a key"]
)
def test_what_no_argument_or_variable_can_be_is_refused(wrong: dict[Any, Any]) -> None:
    with pytest.raises(UsageError):
        spelling(wrong, 3)


def test_a_value_that_json_lacks_is_its_text() -> None:
    words, _ = spelling({"data": Path("/a b"), "shape": (1, 2)}, 3)
    assert words == ["--data", "/a b", "--shape", "[1, 2]"]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ([], {}),
        (["--a", "1", "--b", "x"], {"a": 1, "b": "x"}),
        (["--a=1", "--b=", "--c=x=y"], {"a": 1, "b": "", "c": "x=y"}),
        (["--flag", "--n", "-3"], {"flag": True, "n": -3}),
        (["--list", "[1, 2]", "--text", "[1, 2"], {"list": [1, 2], "text": "[1, 2"}),
        (["--a=1", "file.txt", "--b", "2", "more"], {"a": 1, "b": 2}),
        (["file.txt", "--", "-v", "--a", "1"], {}),
        # As sagemaker-training 5.1.4 writes {"b": 4, "flag": False, "on": True}.
        (["-b", "4", "--flag", "False", "--on", "True"], {"b": 4, "flag": False, "on": True}),
        (["--none", "None", "--n", "-3", "-v"], {"none": None, "n": -3, "v": True}),
    ],
)
def test_hyperparameters_are_the_options_among_arguments(
    args: list[str], expected: dict[str, Any]
) -> None:
    assert values_in(args, 2) == expected


def test_the_texts_of_python_are_no_values_of_sdk_3() -> None:
    words = ["--a", "False", "--b", "false", "--c", "null", "--d", "None"]
    assert values_in(words, 3) == {"a": "False", "b": False, "c": None, "d": "None"}
