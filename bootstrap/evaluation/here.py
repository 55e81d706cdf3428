"""`fab evaluate RUN --here`: the evaluation on this computer, without hosts."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from railhead.documents.codec import decode, encode
from railhead.documents.lenient import finite
from railhead.documents.outputs import EvaluationOutput
from railhead.documents.runs.evaluation import Reported
from railhead.documents.runs.run import BuiltIn, Script, metric_number

from ..console import log
from ..console.output import note_output, print_lines, print_result
from ..data.inputs import DataInput
from ..errors import RailheadError, UsageError
from ..host.run.thresholds import judged
from ..inventory.files import atomic_write
from ..provision.local_environment import runtime_here, variables_here
from ..runs.earlier_run import EarlierRun, setting_texts
from ..runs.launch import new_run_id
from ..runs.request import RunRequest
from ..untrusted.decode import json_line
from .recorded import require_passed
from .request import FOLDER, NAME

FILE = "evaluation.json"
RECORD = "@railhead "
END_SECONDS = 5.0  # seconds for a program to exit after SIGTERM


def evaluate(earlier: EarlierRun, request: RunRequest) -> Path:
    """Evaluate with a runtime of this computer; returns the folder of the results.

    Raises:
        UsageError: there is no runtime for this computer; data is on the hosts, or a script would
            read it from a bucket.
        BelowThreshold: a threshold was missed.
    """
    folder = earlier.run.results / FOLDER / new_run_id()
    if isinstance(request.program, Script):
        reported = _of_script(request.program, request, folder)
    else:
        reported = _of_training(request.program, request, folder)
    judgement = judged(reported, request.options.thresholds)
    values = encode(reported.judged(judgement))
    atomic_write(folder / FILE, json.dumps(values, indent=1) + "\n")
    note_output(EvaluationOutput(run_id=earlier.run.run_id, evaluation=values))
    print_result(f"results: {folder}")
    require_passed(judgement)
    return folder


def _of_training(program: BuiltIn, request: RunRequest, folder: Path) -> Reported:
    """The built-in evaluation; returns its evaluation.json."""
    options = [_data_option(item) for item in request.data if item.spec.name != NAME]
    settings = [item for text in setting_texts(program) for item in ("--set", text)]
    argv = [str(runtime_here()), "-m", "training", "--results", str(folder)]
    argv += ["--evaluate", str(_model_file(request)), *settings]
    argv += [item for text in options for item in ("--data", text)]
    for line in _lines(argv, request.bundle.root, {}):
        print_lines(line)
    return decode(Reported, json.loads((folder / FILE).read_text()))


def _model_file(request: RunRequest) -> Path:
    """The model among the data of an evaluation."""
    (model,) = (item.files for item in request.data if item.spec.name == NAME)
    assert model
    return model.root / model.files[0].path


def _of_script(program: Script, request: RunRequest, folder: Path) -> Reported:
    """The user's script as one rank; returns the last record `evaluation` and the last value of
    each --metric."""
    folder.mkdir(parents=True)
    variables = {f"RAILHEAD_DATA_{i.spec.name.upper()}": _data_folder(i) for i in request.data}
    variables |= {"RAILHEAD_RESULTS": str(folder), "RAILHEAD_RANK": "0", "RAILHEAD_SIZE": "1"}
    variables |= {"TF_CPP_MIN_LOG_LEVEL": "1", "RAILHEAD_LOCAL_RANK": "0"}
    variables |= {**request.options.env, **request.secrets}
    if request.options.keras.version == 2:
        variables["TF_USE_LEGACY_KERAS"] = "1"
    evaluation = Reported()
    metrics: dict[str, float | None] = {}
    argv = [str(runtime_here()), program.path, *program.args]
    for line in _lines(argv, request.bundle.root, variables):
        if line.startswith(RECORD):
            record = json_line(line.removeprefix(RECORD))
            if record.pop("kind", "") == "evaluation":
                evaluation = Reported(record)
            continue
        print_lines(line)
        for metric in request.options.metrics:
            match = re.search(metric.pattern, line)
            if match and (value := metric_number(match)) is not None:
                metrics[metric.name] = finite(value)
    return evaluation.after(metrics)


def _data_option(item: DataInput) -> str:
    """The data as --data of `python -m training`."""
    _refuse_on_hosts(item)
    uri = item.spec.uri
    path = str(Path(uri).expanduser().resolve()) if item.spec.kind == "local" else uri
    mode = f",{item.spec.mode}" if item.spec.mode else ""
    return f"{item.spec.name}={path}{mode}"


def _data_folder(item: DataInput) -> str:
    """The folder in which a script finds an input."""
    _refuse_on_hosts(item)
    if item.files is None:
        raise UsageError(f"--data {item.spec.name}: with --here, a script can only read folders")
    return str(item.files.root)


def _refuse_on_hosts(item: DataInput) -> None:
    if item.spec.kind == "host":
        raise UsageError(f"--data {item.spec.name}: {item.spec.uri} is on the hosts, not here")


def _lines(argv: Sequence[str], folder: Path, variables: Mapping[str, str]) -> Iterator[str]:
    """The lines that a program prints, at once; RailheadError if it fails."""
    with log.started(
        argv,
        cwd=folder,
        env={**variables_here("RAILHEAD_"), "PYTHONUNBUFFERED": "1", **variables},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout
        try:
            with process.stdout:
                for line in process.stdout:
                    yield line.rstrip("\n")
        except BaseException:  # Ctrl-C or SIGTERM: the program must not continue alone
            _end(process)
            raise
        process.wait()
    if process.returncode < 0:
        raise RailheadError(f"the evaluation was killed by signal {-process.returncode}")
    if process.returncode:
        raise RailheadError(f"the evaluation failed with exit code {process.returncode}")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
