"""`fab train --resume RUN`: the program, settings and data of an earlier run, from its record."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode
from railhead.documents.lazy import dataclass
from railhead.documents.options.option import Option, options_in, typed_texts
from railhead.documents.options.runs import ProgramOptions
from railhead.documents.runs.run import BuiltIn, RunData, RunDocument, Script
from railhead.documents.runs.run_record import GivenOptions

from ..errors import Command, Hint, UsageError
from ..inventory import local_state
from .request import RunRequest, program_of, read_request
from .results import keras_of
from .run import Run

OPTIONS = options_in(ProgramOptions)


@dataclass(frozen=True)
class EarlierRun:
    """A run that was started from this computer: its document, and its options as typed.

    `folder`: the folder of relative paths in the options.
    """

    run: Run
    cluster: str
    document: RunDocument
    args: ProgramOptions
    folder: Path


def earlier_run(run_id: str) -> EarlierRun:
    """The record of the run with this id.

    Raises:
        UsageError: it is not recorded here, its record is damaged or of an older version, or it was
            started on another computer.
    """
    record = local_state.recorded_run(run_id)
    hint = "type its command again, without --resume"
    if record.elsewhere:
        raise UsageError(
            f"run {run_id} was started on another computer, which has its options",
            hint=Hint(Command("train", resume=run_id), "   # there; here " + hint),
        )
    if not record.given:
        raise UsageError(
            f"run {run_id} was started by a version of Railhead that did not record its options",
            hint=hint,
        )
    try:
        typed = decode(GivenOptions, record.given, what="given")
        document = decode(RunDocument, record.document, what="document")
        run = Run(run_id, Path(record.results))
        args = _with_keras(program_of(typed.options), document, run)
        return EarlierRun(run, record.cluster, document, args, Path(typed.folder))
    except (TypeError, ValueError) as error:
        raise UsageError(f"the record of run {run_id} is damaged: {error}", hint=hint) from None


def _with_keras(args: ProgramOptions, document: RunDocument, run: Run) -> ProgramOptions:
    """The options of a script with the Keras that it ran with: its checkpoints need that Keras."""
    if not isinstance(document.program, Script):
        return args
    # After a second attempt, the fetched run.json has its Keras: the supervisor has written it.
    return replace(args, keras=str(keras_of(run) or document.keras))


def resumed_request(
    earlier: EarlierRun, options: ProgramOptions
) -> tuple[RunRequest, ProgramOptions]:
    """The request for a run that continues the earlier one, and its options.

    Raises:
        UsageError: an option contradicts the run, or its program was moved.
    """
    if evaluated := earlier.document.evaluates:
        raise UsageError(
            f"run {earlier.run.run_id} evaluates run {evaluated}: it has no checkpoints",
            hint=Command("evaluate", evaluated),
        )
    earlier = _with_known_keras(earlier, options)
    _refuse_contradictions(earlier, options)
    args = _args(earlier)
    with working_folder(earlier):
        return read_request(args, resumes=earlier.run.run_id), args


def _with_known_keras(earlier: EarlierRun, options: ProgramOptions) -> EarlierRun:
    """The run with the Keras that wrote its checkpoints. If only its hosts know that, the Keras of
    --keras, otherwise the one that the run began with."""
    is_known = not earlier.document.keras_auto or keras_of(earlier.run) is not None
    if is_known or options.keras not in ("2", "3"):
        return earlier
    return replace(earlier, args=replace(earlier.args, keras=options.keras))


def unsure_keras(earlier: EarlierRun, options: ProgramOptions) -> list[str]:
    """One line if the run may have started again with the other Keras; none otherwise."""
    is_known = not earlier.document.keras_auto or keras_of(earlier.run) is not None
    if is_known or options.keras in ("2", "3"):
        return []
    keras = earlier.document.keras
    return [f"Keras {keras}, with which run {earlier.run.run_id} began; --keras changes it"]


def changed_program(earlier: EarlierRun, request: RunRequest) -> list[str]:
    """One line if the program has changed; none otherwise."""
    change = program_change(earlier.document, request)
    return [f"{change}: its present files are used"] if change else []


def program_change(document: RunDocument, request: RunRequest) -> str:
    """A line that says that the program has changed since a run; "" otherwise."""
    same = request.bundle.digest == document.bundle
    return "" if same else f"the program has changed since run {document.run_id}"


def changed_data(earlier: EarlierRun, data: Sequence[RunData]) -> list[str]:
    """One line for each local data set whose content has changed since the run.

    A host's share of data depends on the number of hosts; it is not compared.
    """
    before = {item.name: item.paths for item in earlier.document.data}
    run_id = earlier.run.run_id
    return [
        f"data {item.name} has changed since run {run_id}: its present files are used"
        for item in data
        if item.paths
        and item.distribution != "shard"
        and item.paths[:1] != (before[item.name] or ())[:1]
    ]


def _args(earlier: EarlierRun) -> ProgramOptions:
    """The options of the run; values that may have changed since then come from its document."""
    document = earlier.document
    paths: dict[str, Any] = {
        one.name: str(earlier.folder / value)
        for one in OPTIONS
        if one.rule.path and (value := getattr(earlier.args, one.name)) is not None
    }
    args = replace(earlier.args, **{**paths, "env_file": None, "env": document.env})
    if isinstance(document.program, Script):
        return args
    return replace(args, preset=None, settings=setting_texts(document.program))


def setting_texts(program: BuiltIn) -> dict[str, str]:
    """The settings of the built-in training as values of `--set`."""
    settings = program.settings.items()
    return {name: "none" if value is None else str(value) for name, value in settings}


def _refuse_contradictions(earlier: EarlierRun, options: ProgramOptions) -> None:
    """UsageError for the first option that was typed and differs from the earlier run."""
    for one in OPTIONS:
        value, before = getattr(options, one.name), getattr(earlier.args, one.name)
        if value == one.default or _same(one, value, before, earlier.folder):
            continue
        raise UsageError(
            f"--{one.flag} {_shown(value)} contradicts run {earlier.run.run_id}, which has "
            f"{_shown(before) if before else 'none'}: --resume continues with the same program and "
            "settings",
            hint=Hint(
                Command("train", resume=earlier.run.run_id),
                "   # or a new run, without --resume",
            ),
        )


def _shown(value: Any) -> str:
    """The value of an option in a message."""
    return ", ".join(typed_texts(value)) or str(value)


def _same(one: Option, value: Any, before: Any, folder: Path) -> bool:
    if isinstance(value, Mapping):
        return bool(value.items() <= before.items())
    if isinstance(value, tuple):
        return {*value} <= {*before}
    if one.rule.path and before is not None:
        return bool(Path(value).resolve() == (folder / before).resolve())
    return bool(value == before)


@contextlib.contextmanager
def working_folder(earlier: EarlierRun) -> Iterator[None]:
    """Change to the folder in which the run was started: its options may name files there."""
    before = Path.cwd()
    try:
        os.chdir(earlier.folder)
    except OSError as error:
        raise UsageError(
            f"run {earlier.run.run_id} was started in {earlier.folder}: {error.strerror}"
        ) from None
    try:
        yield
    finally:
        os.chdir(before)
