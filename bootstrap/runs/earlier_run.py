"""`fab train --resume RUN`: the program, settings and data of an earlier run, from its record."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bootstrap.errors import Command, Hint, UsageError
from bootstrap.inventory import local_state
from bootstrap.runs.request import RunRequest, program_of, read_request
from bootstrap.runs.run import Run
from railhead.documents.options.option import Option, options_in
from railhead.documents.options.runs import ProgramOptions

OPTIONS = options_in(ProgramOptions)


@dataclass(frozen=True)
class EarlierRun:
    """A run that was started from this computer: its document, and its options as given.

    `folder`: where relative paths of the options start.
    """

    run: Run
    cluster: str
    document: Mapping[str, Any]
    args: ProgramOptions
    folder: Path


def earlier_run(run_id: str) -> EarlierRun:
    """The record of the run with this id.

    Raises:
        UsageError: none is recorded here, or its record is damaged or of an older version.
    """
    entry = local_state.recorded_run(run_id)
    hint = "type its command again, without --resume"
    if not entry.get("given"):
        raise UsageError(
            f"run {run_id} was started by a version of Railhead that did not record its options",
            hint=hint,
        )
    try:
        _check(entry)
        return EarlierRun(
            Run(run_id, Path(entry["results"])),
            entry["cluster"],
            entry["document"],
            program_of(entry["given"]),
            Path(entry["given"]["folder"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UsageError(f"the record of run {run_id} is damaged: {what}", hint=hint) from None


def _check(entry: Mapping[str, Any]) -> None:
    """Raises KeyError or TypeError where what `--resume` uses is missing or of another type."""
    _each(dict, [entry["document"], entry["given"], entry["given"]["options"]])
    document, program = entry["document"], entry["document"]["program"]
    _each(str, [entry["cluster"], entry["given"]["folder"], document["bundle"], program["kind"]])
    data = document.get("data", [])
    _each(list, [data])
    _each(
        dict, [*data, document["env"], program["settings"] if program["kind"] == "training" else {}]
    )
    _each(str, document["env"].values())
    for item in data:
        _each(str, [item["name"]])
        _each((list, type(None)), [item["paths"]])
        _each((str, type(None)), [item["distribution"]])


def _each(kind: type | tuple[type, ...], values: Iterable[Any]) -> None:
    if wrong := [value for value in values if not isinstance(value, kind)]:
        raise TypeError(f"{wrong[0]!r} is in a wrong place")


def resumed_request(
    earlier: EarlierRun, given: ProgramOptions
) -> tuple[RunRequest, ProgramOptions]:
    """The request for a run that goes on from this one, and its options.

    Raises:
        UsageError: an option contradicts the run, or its program is not where it was.
    """
    if evaluated := earlier.document.get("evaluates"):
        raise UsageError(
            f"run {earlier.run.run_id} evaluates run {evaluated}: it has no checkpoints",
            hint=Command("evaluate", evaluated),
        )
    _refuse_contradictions(earlier, given)
    args = _args(earlier)
    with working_folder(earlier):
        return read_request(args, resumes=earlier.run.run_id), args


def changed_program(earlier: EarlierRun, request: RunRequest) -> list[str]:
    """One line if the program is not as it was; none if it is."""
    if request.bundle.digest == earlier.document["bundle"]:
        return []
    run_id = earlier.run.run_id
    return [f"the program has changed since run {run_id}: its present files are used"]


def changed_data(earlier: EarlierRun, data: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each local data that has another content than in the run. `data`: of run.json.

    A host's share of data depends on the number of hosts; it is not compared.
    """
    before = {item["name"]: item for item in earlier.document.get("data", ())}
    run_id = earlier.run.run_id
    return [
        f"data {item['name']} has changed since run {run_id}: its present files are used"
        for item in data
        if item["paths"]
        and item["distribution"] != "shard"
        and item["paths"][:1] != (before[item["name"]]["paths"] or ())[:1]
    ]


def _args(earlier: EarlierRun) -> ProgramOptions:
    """The options of the run; values that could have changed since come from its document."""
    document = earlier.document
    paths: dict[str, Any] = {
        one.name: str(earlier.folder / value)
        for one in OPTIONS
        if one.rule.path and (value := getattr(earlier.args, one.name)) is not None
    }
    args = replace(earlier.args, **{**paths, "env_file": None, "env": document["env"]})
    if document["program"]["kind"] == "script":
        return args
    return replace(args, preset=None, settings=setting_texts(document))


def setting_texts(document: Mapping[str, Any]) -> dict[str, str]:
    """The settings of a run document as `--set` takes them."""
    settings = document["program"]["settings"]
    return {name: "none" if value is None else str(value) for name, value in settings.items()}


def _refuse_contradictions(earlier: EarlierRun, given: ProgramOptions) -> None:
    """UsageError for the first option that was given and is not the earlier run's."""
    for one in OPTIONS:
        value, before = getattr(given, one.name), getattr(earlier.args, one.name)
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
    if isinstance(value, Mapping):
        value = [f"{name}={text}" for name, text in value.items()]
    return ", ".join(value) if isinstance(value, (tuple, list)) else str(value)


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
    """In the folder where the run was started: its options may name files there."""
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
