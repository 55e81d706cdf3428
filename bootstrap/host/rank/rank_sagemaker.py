"""The variables and folders that a training script finds on Amazon SageMaker, for --sagemaker.

The names are those of SageMaker's training toolkit. Results go to this run's results: what a script
writes into SM_MODEL_DIR is `model/` there.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railhead.documents.runs.run import RunDocument, Script

from .rank_data import RankPlace

SHORT = re.compile("-[A-Za-z]")  # sagemaker-training 5.1.4 gives a name of one letter one dash
OF_PYTHON = {"True": True, "False": False, "None": None}


def variables(
    run: RunDocument, program: Script, place: RankPlace, channels: Mapping[str, str]
) -> dict[str, str]:
    """All SM_ variables of a rank; creates the folders that they name.

    `program` has the arguments that the script gets, `channels` the folder of each data name.
    """
    training_env = environment(run, program, place, channels)
    for name in ("model_dir", "output_data_dir", "output_intermediate_dir", "input_config_dir"):
        os.makedirs(training_env[name], exist_ok=True)
    write_inputs(training_env)
    values = {f"SM_{name.upper()}": text_of(value) for name, value in training_env.items()}
    values |= {f"SM_CHANNEL_{name.upper()}": path for name, path in channels.items()}
    values |= {f"SM_HP_{k.upper()}": text_of(v) for k, v in training_env["hyperparameters"].items()}
    return {
        **values,
        "SM_CHANNELS": json.dumps(sorted(channels)),
        "SM_HPS": json.dumps(training_env["hyperparameters"]),
        "SM_USER_ARGS": json.dumps(program.args),
        "SM_TRAINING_ENV": json.dumps(training_env),
        "TRAINING_JOB_NAME": run.run_id,
    }


def arguments(program: Script, folder: str) -> tuple[str, ...]:
    """The script's arguments. SageMaker's TensorFlow containers add --model_dir; here only for a
    script that names it, because others may refuse an unknown argument."""
    args = program.args
    with open(os.path.join(folder, "work", program.path), errors="replace") as file:
        named = "--model_dir" in file.read()
    if named and not any(arg.partition("=")[0] == "--model_dir" for arg in args):
        args += ("--model_dir", os.path.join(folder, "results", "model"))
    return args


def environment(
    run: RunDocument, program: Script, place: RankPlace, channels: Mapping[str, str]
) -> dict[str, Any]:
    """The content of SM_TRAINING_ENV."""
    folder, host = place.folder, place.host[0]
    names = [known.name for known in run.present.values()]
    here = run.hosts[host].name
    interface = run.hosts[host].interface or "eth0"
    results, inputs = os.path.join(folder, "results"), os.path.join(folder, "input")
    modes = {"file": "File", "stream": "Pipe"}
    return {
        "channel_input_dirs": dict(channels),
        "current_host": here,
        "hosts": names,
        "hyperparameters": hyperparameters(program.args),
        "input_config_dir": os.path.join(inputs, "config"),
        "input_data_config": {
            item.name: {"TrainingInputMode": modes[item.mode or "file"]} for item in run.data
        },
        "input_dir": inputs,
        "is_master": host == 0,
        "job_name": run.run_id,
        "log_level": 20,
        "master_hostname": names[0],
        "model_dir": os.path.join(results, "model"),
        "module_dir": os.path.join(folder, "work"),
        "module_name": os.path.splitext(os.path.basename(program.path))[0],
        "network_interface_name": interface,
        "num_cpus": len(os.sched_getaffinity(0)),
        "num_gpus": len(glob.glob("/dev/nvidia[0-9]*")),
        "output_data_dir": os.path.join(results, "output", "data"),
        "output_dir": os.path.join(results, "output"),
        "output_intermediate_dir": os.path.join(results, "output", "intermediate"),
        "resource_config": {
            "current_host": here,
            "hosts": names,
            "network_interface_name": interface,
        },
        "user_entry_point": program.path,
    }


def hyperparameters(args: Sequence[str]) -> dict[str, Any]:
    """The hyperparameters in arguments: `--epochs 3 --lr=0.1 -b 4 --flag`. A value is a number, a
    list or an object where it is JSON, otherwise text; without a value it is true."""
    values: dict[str, Any] = {}
    name = ""
    for arg in args:
        if arg == "--":
            break
        if arg.startswith("--") or SHORT.fullmatch(arg):
            name, equals, value = arg.lstrip("-").partition("=")
            values[name] = value_of(value) if equals else True
            name = "" if equals else name
        elif name:
            values[name], name = value_of(arg), ""
    return values


def value_of(text: str) -> Any:
    """A hyperparameter's value. The toolkit writes those of Python into the command line, as in
    `--augment False`, and JSON into the variables."""
    if text in OF_PYTHON:
        return OF_PYTHON[text]
    try:
        return json.loads(text)
    except ValueError:
        return text


def text_of(value: Any) -> str:
    """A value as a variable has it: texts as they are, none as an empty one, others as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def write_inputs(training_env: Mapping[str, Any]) -> None:
    """Fill SM_INPUT_DIR: a link to each channel in data/, and the files of config/."""
    documents = {
        "hyperparameters.json": {k: text_of(v) for k, v in training_env["hyperparameters"].items()},
        "inputdataconfig.json": training_env["input_data_config"],
        "resourceconfig.json": training_env["resource_config"],
    }
    for name, document in documents.items():
        path = os.path.join(training_env["input_config_dir"], name)
        with placed(path) as part, open(part, "w") as file:
            json.dump(document, file)
    data = os.path.join(training_env["input_dir"], "data")
    os.makedirs(data, exist_ok=True)
    for name, path in training_env["channel_input_dirs"].items():
        with placed(os.path.join(data, name)) as part:
            os.symlink(path, part)


@contextlib.contextmanager
def placed(path: str) -> Iterator[str]:
    """Yields a temporary path; what the block creates there is then moved to `path`, because ranks
    of one host create the same files at the same time."""
    part = f"{path}.part-{os.getpid()}"
    yield part
    os.replace(part, path)
