"""`fab evaluate RUN`: the exported model of a run on held-out data.

On hosts an evaluation is a run like a training, with another program. Its results are in
`evaluations/` of the evaluated run's results.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from railhead.documents.options.runs import ProgramOptions
from railhead.documents.runs.run import BuiltIn, Script

from ..data.inputs import DataInput, read_inputs
from ..data.spec import DataSpec, parse_each
from ..errors import Command, UsageError
from ..runs.earlier_run import EarlierRun, setting_texts, working_folder
from ..runs.keras.choice import KerasChoice
from ..runs.metrics.options import require_metrics
from ..runs.model_files import KERAS, ModelSearch, names_below
from ..runs.request import (
    RunRequest,
    check_settings,
    read_request,
    read_secrets,
    record_of,
    run_options,
    training_repo,
)
from ..runs.strategies import AUTO, DEFAULT_LAUNCHER
from ..ssh.bundle import pack_training

NAME = "model"  # the run document's name for the model; RAILHEAD_DATA_MODEL
FOLDER = "evaluations"


def read_evaluation(
    earlier: EarlierRun, args: ProgramOptions, model: str | None = None
) -> RunRequest:
    """The request for an evaluation; without data in `args`, on the data of the run. `model` names
    one of several .keras files of the run.

    Raises:
        UsageError: the run has no model here, or several, or an option is not valid.
    """
    if evaluated := earlier.document.evaluates:
        why = f"run {earlier.run.run_id} is an evaluation"
        raise UsageError(why, hint=Command("evaluate", evaluated))
    args = _with_launcher(earlier, args)
    if args.is_own and model is not None:
        raise UsageError(
            "--model cannot be used with --script: a script gets all results of the run"
        )
    request = _of_script(earlier, args) if args.is_own else _of_training(earlier, args, model)
    options = replace(request.options, evaluates=earlier.run.run_id)
    return replace(request, options=options)


def _with_launcher(earlier: EarlierRun, args: ProgramOptions) -> ProgramOptions:
    """By default the launcher of the run; the built-in evaluation needs no Horovod, and takes what
    the hosts have."""
    if args.strategy or args.launcher:
        return args
    launcher = earlier.document.launcher
    if launcher == DEFAULT_LAUNCHER and not args.is_own:
        return replace(args, strategy=AUTO)
    return replace(args, launcher=launcher)


def _of_script(earlier: EarlierRun, args: ProgramOptions) -> RunRequest:
    """The user's script; it gets the results of the run as the data `model`."""
    if not earlier.run.results.is_dir():
        raise _no_model(earlier, f"run {earlier.run.run_id} has no results here")
    request = read_request(args, keras=_keras_of(earlier))
    if NAME in {item.spec.name for item in request.data}:
        raise UsageError(f"--data {NAME}: this name is reserved for the results of the run")
    data = request.data or _recorded_data(earlier, script=True)
    return replace(request, data=(*data, *_model(earlier.run.results, script=True)))


def _keras_of(earlier: EarlierRun) -> KerasChoice | None:
    """The Keras that wrote the model, for a script that shows neither."""
    if earlier.args.keras not in ("2", "3"):  # of the built-in training
        return None
    return KerasChoice(int(earlier.args.keras), f"that of run {earlier.run.run_id}", auto=True)


def _of_training(earlier: EarlierRun, args: ProgramOptions, model: str | None) -> RunRequest:
    """The built-in evaluation, with the settings of the run."""
    if args.args or args.metrics:
        raise UsageError("--args and --metric need --script", hint=_with_script(earlier))
    trained = earlier.document.program
    if isinstance(trained, Script):
        raise UsageError(
            f"run {earlier.run.run_id} trained with your script: name a script that evaluates its"
            " model",
            hint=_with_script(earlier),
        )
    path = _keras_file(earlier, model)
    texts = setting_texts(trained)
    options = run_options(args)
    training = earlier.args.training
    repo = training_repo(str(earlier.folder / training) if training else None)
    require_metrics(options.thresholds, check_settings(None, texts, repo)["metrics"])
    program = BuiltIn("evaluation", trained.settings)
    typed = read_inputs(parse_each(args.data, script=False))
    data = (*(typed or _recorded_data(earlier, script=False)), *_model(path, script=False))
    return RunRequest(
        options, program, pack_training(repo), read_secrets(args.secrets), data, record_of(args)
    )


def _keras_file(earlier: EarlierRun, name: str | None) -> Path:
    """The model of the built-in training: the built-in evaluation loads no other format."""
    results, run_id = earlier.run.results, earlier.run.run_id
    search = ModelSearch(f"run {run_id}", Command("evaluate", run_id), name, formats=(KERAS,))
    model = search.choose(name for name in names_below(results) if name.endswith(KERAS))
    if model is None:
        raise _no_model(earlier, f"run {run_id} has no model here: no .keras file in {results}")
    return results / model.path


def _recorded_data(earlier: EarlierRun, *, script: bool) -> tuple[DataInput, ...]:
    """The data of the run, as it was named."""
    with working_folder(earlier):
        inputs = read_inputs(parse_each(earlier.args.data, script=script))
        return tuple(_absolute(item) for item in inputs)


def _absolute(item: DataInput) -> DataInput:
    """The input with a path that does not depend on the current folder."""
    if item.spec.kind != "local":
        return item
    return replace(
        item, spec=replace(item.spec, uri=str(Path(item.spec.uri).expanduser().resolve()))
    )


def _model(path: Path, *, script: bool) -> tuple[DataInput, ...]:
    """The model as an input, which is sent to each host once."""
    distribution, mode = ("replicate", "file") if script else (None, None)
    return read_inputs((DataSpec(NAME, str(path), "local", distribution, mode),))


def _with_script(earlier: EarlierRun) -> Command:
    return Command("evaluate", earlier.run.run_id, script="eval.py")


def _no_model(earlier: EarlierRun, message: str) -> UsageError:
    return UsageError(message, hint=Command("fetch", run=earlier.run.run_id))
