"""--sagemaker: a script that was written for SageMaker finds its variables and folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hosts.ranks import lay_out, rank, script
from standins.runs.run_documents import run_document

from bootstrap.host.rank.rank_data import RankPlace
from bootstrap.host.rank.rank_sagemaker import environment
from railhead.documents.runs.run import RunHost, Script

# What scripts of SageMaker's TensorFlow examples do, without TensorFlow.
SCRIPT = """
import argparse, json, os

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--learning_rate", type=float, default=0.01)
parser.add_argument("--model_dir", type=str)
parser.add_argument("--sm-model-dir", type=str, default=os.environ.get("SM_MODEL_DIR"))
parser.add_argument("--train", type=str, default=os.environ.get("SM_CHANNEL_TRAIN"))
parser.add_argument("--eval", type=str, default=os.environ["SM_CHANNEL_EVAL"])
parser.add_argument("--hosts", type=list, default=json.loads(os.environ.get("SM_HOSTS")))
parser.add_argument("--current-host", type=str, default=os.environ.get("SM_CURRENT_HOST"))
parser.add_argument("--gpus", type=int, default=os.environ["SM_NUM_GPUS"])
parser.add_argument("--data-dir", default=os.environ["SM_OUTPUT_DATA_DIR"])
args, unknown = parser.parse_known_args()
assert args.model_dir == args.sm_model_dir
assert open(os.path.join(args.train, "x.txt")).read() == "x"
assert os.listdir(os.path.join(os.environ["SM_INPUT_DIR"], "data", "eval")) == ["x.txt"]
if args.current_host == args.hosts[0]:
    open(os.path.join(args.sm_model_dir, "model.txt"), "w").write(str(args.learning_rate))
    open(os.path.join(args.data_dir, "loss.txt"), "w").write("0.1")
found = {k: v for k, v in os.environ.items() if k.startswith("SM_")}
print("FOUND", json.dumps(found))
"""


def found_in(text: str) -> dict[str, str]:
    line = next(line for line in text.splitlines() if line.startswith("FOUND "))
    seen: dict[str, str] = json.loads(line[6:])
    return seen


@pytest.fixture
def data(tmp_path: Path) -> list[dict[str, Any]]:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.txt").write_text("x")
    same = {"uri": "data", "distribution": "replicate", "mode": "file"}
    paths = [str(tmp_path / "data")] * 2
    return [{"name": name, "paths": paths, **same} for name in ("train", "eval")]


def test_a_script_written_for_sagemaker_runs_unchanged(
    tmp_path: Path, data: list[dict[str, Any]]
) -> None:
    args = ("--epochs", "3", "--learning_rate=0.5", "--name", "a b", "--augment")
    program = {**script(tmp_path, SCRIPT, "code/train.py", *args), "sagemaker": True}
    hosts = [{"name": "a", "slots": 1, "interface": "ens5"}, {"name": "b", "slots": 1}]
    lay_out(tmp_path, program, data=data, hosts=hosts, size=2, run_id="20260101-000000-aaaa")
    for number in (0, 1, 0):
        done = rank(tmp_path, number=number)
        assert done.returncode == 0, done.stdout
    seen = found_in(done.stdout)
    results = tmp_path / "results"
    assert (results / "model/model.txt").read_text() == "0.5"
    assert (results / "output/data/loss.txt").read_text() == "0.1"
    assert json.loads(seen["SM_CHANNELS"]) == ["eval", "train"]
    assert seen["SM_CHANNEL_TRAIN"] == seen["SM_CHANNEL_EVAL"] == str(tmp_path / "data")
    assert (json.loads(seen["SM_HOSTS"]), seen["SM_CURRENT_HOST"]) == (["a", "b"], "a")
    assert seen["SM_MODEL_DIR"] == str(results / "model")
    assert seen["SM_OUTPUT_DIR"] == str(results / "output")
    assert int(seen["SM_NUM_CPUS"]) >= 1 and int(seen["SM_NUM_GPUS"]) >= 0
    assert seen["SM_NETWORK_INTERFACE_NAME"] == "ens5"
    hps = {"epochs": 3, "learning_rate": 0.5, "name": "a b", "augment": True}
    hps["model_dir"] = str(results / "model")
    assert json.loads(seen["SM_HPS"]) == hps
    assert (seen["SM_HP_EPOCHS"], seen["SM_HP_NAME"]) == ("3", "a b")
    assert json.loads(seen["SM_USER_ARGS"]) == [*args, "--model_dir", str(results / "model")]
    training = json.loads(seen["SM_TRAINING_ENV"])
    assert training["hyperparameters"] == hps
    assert training["channel_input_dirs"] == {n: str(tmp_path / "data") for n in ("train", "eval")}
    config = tmp_path / "input/config"
    assert json.loads((config / "hyperparameters.json").read_text())["epochs"] == "3"
    assert json.loads((config / "resourceconfig.json").read_text())["hosts"] == ["a", "b"]


ASKS = """
import json, os, sys
print("FOUND", json.dumps({**os.environ, "args": json.dumps(sys.argv[1:])}))
assert "--model_dir" not in sys.argv or "SM_SOURCE_DIR" not in os.environ
"""


@pytest.mark.parametrize("sdk", [2, 3])
def test_hyperparameters_that_were_given_as_a_dict_keep_their_types(
    tmp_path: Path, sdk: int
) -> None:
    args = {2: ("--flag", "False", "--text", "-b 4"), 3: ("--flag", "false", "--text", "-b 4")}
    hyperparameters = {"flag": False, "text": "-b 4"}
    program = {**script(tmp_path, ASKS, "train.py", *args[sdk]), "sagemaker": True}
    program |= {"sagemaker_sdk": sdk, "hyperparameters": json.dumps(hyperparameters)}
    lay_out(tmp_path, program, hosts=[{"name": "a", "slots": 1}], run_id="r")
    done = rank(tmp_path)
    assert done.returncode == 0, done.stdout
    seen = found_in(done.stdout)
    model = str(tmp_path / "results/model")
    added = {"model_dir": model} if sdk == 2 else {}
    assert json.loads(seen["SM_HPS"]) == {**hyperparameters, **added}
    assert json.loads(seen["SM_TRAINING_ENV"])["hyperparameters"] == {**hyperparameters, **added}
    assert (seen["SM_HP_FLAG"], seen["SM_HP_TEXT"]) == ("false", "-b 4")
    assert json.loads(seen["args"])[:4] == list(args[sdk])
    assert seen.get("SM_SOURCE_DIR") == (str(tmp_path / "work") if sdk == 3 else None)
    sent = json.loads((tmp_path / "input/config/hyperparameters.json").read_text())
    assert sent["text"] == ('"-b 4"' if sdk == 2 else "-b 4")


def test_without_the_option_a_script_finds_no_variable_of_sagemaker(tmp_path: Path) -> None:
    text = "import os; print([k for k in os.environ if k.startswith('SM_')], 'sagemaker' in dir())"
    lay_out(tmp_path, script(tmp_path, text))
    assert rank(tmp_path).stdout.startswith("[] False")


def test_a_module_of_the_script_may_have_the_name_of_one_of_ours(
    tmp_path: Path, data: list[dict[str, Any]]
) -> None:
    for name in ("rank_data", "rank_sagemaker", "sagemaker"):
        script(tmp_path, f"WHO = 'mine, {name}'", f"{name}.py")
    text = "import rank_data, rank_sagemaker, sagemaker\n"
    text += "print(rank_data.WHO, rank_sagemaker.WHO, sagemaker.WHO)"
    program = {**script(tmp_path, text), "sagemaker": True}
    hosts = [{"name": "a", "slots": 1}]
    lay_out(tmp_path, program, data=data, hosts=hosts, run_id="r")
    done = rank(tmp_path)
    assert "mine, rank_data mine, rank_sagemaker mine, sagemaker" in done.stdout


def test_a_host_that_an_elastic_run_is_without_is_not_one_of_sagemakers(tmp_path: Path) -> None:
    hosts = tuple(RunHost(name, "10.0.0.1", None, int(name != "b")) for name in "abc")
    run = run_document(hosts=hosts, size=2, elastic=1)
    place = RankPlace(str(tmp_path), (1, 2), (0, 1), (2, 3))
    variables = environment(run, Script("script", "train.py"), place, {})
    assert (variables["hosts"], variables["current_host"]) == (["a", "c"], "c")
    assert variables["resource_config"]["hosts"] == ["a", "c"]
