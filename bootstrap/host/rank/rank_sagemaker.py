"""The variables and folders that a training script finds on Amazon SageMaker, for --sagemaker.

The names are those of SageMaker's training toolkit and, for version 3 of the SDK, of ModelTrainer.
Files that a script writes into SM_MODEL_DIR are in `model/` of this run's results.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from railhead.documents import sagemaker
from railhead.documents.runs.run import RunDocument, Script
from railhead.documents.sagemaker import MODEL_TRAINER, TOOLKIT, Hyperparameters, text_of

from .rank_data import RankPlace

MODEL_DIR = "--model_dir"
PORT = 7777  # of ModelTrainer


def variables(
    run: RunDocument, program: Script, place: RankPlace, channels: Mapping[str, str]
) -> dict[str, str]:
    """All SM_ variables of a rank; creates the folders that they name. `program` has the arguments
    that the script gets, `channels` the folder of each data name."""
    training_env = environment(run, program, place, channels)
    for name in ("model_dir", "output_data_dir", "output_intermediate_dir", "input_config_dir"):
        os.makedirs(training_env[name], exist_ok=True)
    write_inputs(training_env, program.sagemaker_sdk)
    lists = {"channels": sorted(channels), "user_args": program.args, "training_env": training_env}
    values = {
        f"SM_{name.upper()}": text_of(value, program.sagemaker_sdk)
        for name, value in (training_env | lists).items()
    }
    values |= {f"SM_CHANNEL_{name.upper()}": path for name, path in channels.items()}
    values |= sagemaker.variables(training_env["hyperparameters"], program.sagemaker_sdk)
    return {**values, "TRAINING_JOB_NAME": run.run_id}


def arguments(program: Script, folder: str) -> tuple[str, ...]:
    """The script's arguments. SageMaker's TensorFlow containers add --model_dir for the toolkit;
    here only a script that mentions it gets it, because others may refuse an unknown argument."""
    args = program.args
    if program.sagemaker_sdk != TOOLKIT:
        return args
    with open(os.path.join(folder, "work", program.path), errors="replace") as file:
        named = MODEL_DIR in file.read()
    if named and not any(arg.partition("=")[0] == MODEL_DIR for arg in args):
        args += (MODEL_DIR, os.path.join(folder, "results", "model"))
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
    trainer = program.sagemaker_sdk == MODEL_TRAINER
    return {
        **(of_model_trainer(folder, names, here, program) if trainer else {}),
        "channel_input_dirs": dict(channels),
        "current_host": here,
        "hosts": names,
        "hyperparameters": hyperparameters(program),
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


def of_model_trainer(
    folder: str, names: Sequence[str], here: str, program: Script
) -> dict[str, Any]:
    """The keys that only ModelTrainer has."""
    return {
        "current_host_rank": names.index(here),
        "entry_script": program.path,
        "host_count": len(names),
        "input_data_dir": os.path.join(folder, "input", "data"),
        "master_addr": names[0],
        "master_port": PORT,
        "num_neurons": 0,
        "output_failure": os.path.join(folder, "results", "output", "failure"),
        "source_dir": os.path.join(folder, "work"),
    }


def hyperparameters(program: Script) -> Hyperparameters:
    """The hyperparameters among the arguments; with their types if they came as a JSON object."""
    sdk, whole = program.sagemaker_sdk, sagemaker.object_in(program.hyperparameters)
    if whole is None:
        return sagemaker.values_in(program.args, sdk)
    added = [program.args[-2:]] if program.args[-2:-1] == (MODEL_DIR,) else []
    return {name.lstrip("-"): value for name, value in added} | dict(sagemaker.values(whole, sdk))


def write_inputs(training_env: Mapping[str, Any], sdk: int) -> None:
    """Fill SM_INPUT_DIR: a link to each channel in data/, and the files of config/."""
    documents = {
        # As the SDK sends them.
        "hyperparameters.json": {
            name: json.dumps(value) if sdk == TOOLKIT else text_of(value, sdk)
            for name, value in training_env["hyperparameters"].items()
        },
        "inputdataconfig.json": training_env["input_data_config"],
        "resourceconfig.json": training_env["resource_config"],
    }
    for name, document in documents.items():
        path = os.path.join(training_env["input_config_dir"], name)
        with placed(path) as partial, open(partial, "w") as file:
            json.dump(document, file)
    data = os.path.join(training_env["input_dir"], "data")
    os.makedirs(data, exist_ok=True)
    for name, path in training_env["channel_input_dirs"].items():
        with placed(os.path.join(data, name)) as partial:
            os.symlink(path, partial)


@contextlib.contextmanager
def placed(path: str) -> Iterator[str]:
    """Yields a temporary path; what the block creates there is then moved to `path`: ranks of one
    host create the same files at the same time."""
    partial = f"{path}.part-{os.getpid()}"
    yield partial
    os.replace(partial, path)
