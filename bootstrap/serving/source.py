"""The model to deploy: that of a run, or a folder or file on this computer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from railhead.documents.lazy import dataclass

from ..console.output import confirm, print_lines
from ..errors import Command, Hint, UsageError
from ..inventory import local_state
from ..inventory.files import existing_path
from ..inventory.hosts import Inventory
from ..runs.model_files import H5, KERAS, SAVED_MODEL, ModelSearch, names_below
from ..runs.run import Run
from .model import (
    copy_on_chief,
    find_model,
    find_on_chief,
    needs_trust,
    no_model,
    pack_model,
    send_model,
)
from .place import EndpointPlace

SAFE_FIRST = (KERAS, SAVED_MODEL, H5)  # on this computer: Keras loads its files in a safe mode


@dataclass(frozen=True)
class ModelSource:
    """The model of `run` (`name` selects one of several), or the one at `path`. A notebook without
    a run has neither. `trusted`: it may be loaded here without a safe mode."""

    run: Run | None
    path: Path | None = None
    name: str | None = None
    trusted: bool = False

    @property
    def run_id(self) -> str | None:
        """The id of the run, if the model is a run's."""
        return self.run.run_id if self.run else None

    @property
    def runtime(self) -> str | None:
        """The digest of the run's runtime, if it is recorded."""
        document = local_state.recorded_run(self.run.run_id).run if self.run else None
        return document.runtime.digest if document else None

    @property
    def search(self) -> ModelSearch:
        """How to search for the model."""
        if self.run:
            run_id = self.run.run_id
            return ModelSearch(f"run {run_id}", Command("deploy", run_id), self.name)
        return ModelSearch(f"--model {self.path}", Command("deploy"), prefix=f"{self.path}/")

    def found_here(self, *, safe_first: bool = False) -> Path | None:
        """The model, if it is on this computer: a file, or the folder of a SavedModel.

        Raises:
            UsageError: there are several, or none has the given name.
        """
        place = self.path or (self.run.results if self.run else None)
        search = replace(self.search, formats=SAFE_FIRST) if safe_first else self.search
        return find_model(place, search) if place else None

    def place_model(self, place: EndpointPlace) -> str:
        """The folder of the model on a host, sent if the host lacks it; prints which model.

        Raises:
            UsageError: there is no model, on this computer or on the host, or there are several.
        """
        if path := self.found_here():
            print_lines(f"model: {shown(path)}")
            return place.absolute(send_model(place.session, pack_model(path)))
        if self.run is None:
            raise self.no_model_error(place.host)
        on_chief = find_on_chief(place.session, self.run.folder, self.search)
        if on_chief is None:
            raise self.no_model_error(place.host)
        print_lines(f"model: {on_chief} on {place.host}")
        return place.absolute(copy_on_chief(place.session, on_chief, self.run.run_id))

    def confirm_trust(self, path: Path) -> None:
        """Ask before the model at `path` is loaded on this computer, unless it is safe or trusted.

        Raises:
            UsageError: the answer is not yes, or nobody can answer.
        """
        if self.trusted or not needs_trust(path):
            return
        run = [self.run.run_id] if self.run else []
        named_model = self.name or (str(self.path) if self.path else None)
        hint = Hint(
            Command("deploy", *run, model=named_model, here=True, trust_model=True),
            "   # or without --here: on the host",
        )
        question = (
            f"{shown(path)} would be loaded on this computer without a safe mode: it could read "
            "and change your files. Trust it?"
        )
        if not confirm(question, hint=hint):
            raise UsageError("the model is not trusted: nothing was started", hint=hint)

    def no_model_error(self, host: str) -> UsageError:
        """The error for a source without a model."""
        if self.run:
            self.search.refuse_checkpoints(names_below(self.run.results))
            return no_model(self.run.run_id, host)
        return UsageError(f"--model {self.path}: no SavedModel, no .keras and no .h5 file")


def shown(path: Path) -> str:
    """A path for printing: relative to the current folder if it is below it."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def source_of(
    run_id: str | None,
    model: str | None,
    inventory: Inventory | None = None,
    *,
    trusted: bool = False,
) -> ModelSource:
    """The run with this id, otherwise the last run of these hosts; or what --model names: a model
    of the run or, without a run, a file or folder on this computer.

    Raises:
        UsageError: no such run is recorded, or there is no such file.
    """
    path = existing_path(model) if model is not None else None
    if run_id is not None:
        record = local_state.recorded_run(run_id)
        run = Run(record.run_id, Path(record.results))
        return ModelSource(run, name=_name_in(run.results, path) or model, trusted=trusted)
    if model is not None:
        if path is None:
            raise UsageError(
                f"--model {model}: there is no such file or folder",
                hint=Hint(Command("deploy", "RUN", model=model), "   # for a model of a run"),
            )
        return ModelSource(None, path, trusted=trusted)
    chosen = inventory or local_state.last_cluster()
    last, results = local_state.find_run(chosen, None)
    document = local_state.recorded_run(last).run
    if document and document.evaluates:  # such a run has no model
        return source_of(document.evaluates, None, trusted=trusted)
    return ModelSource(Run(last, results), trusted=trusted)


def _name_in(results: Path, path: Path | None) -> str | None:
    """The name among the results of a path that is below them."""
    if path is None or not path.resolve().is_relative_to(results.resolve()):
        return None
    return path.resolve().relative_to(results.resolve()).as_posix()


def run_data(run_id: str | None) -> dict[str, str]:
    """The data of a run, as its chief reads it: {name: path or URI}; {} without a run.

    Raises:
        UsageError: the record of the run is damaged.
    """
    if run_id is None:
        return {}
    record = local_state.recorded_run(run_id)
    document = record.run
    if document is None and record.document is not None:
        raise UsageError(
            f"the record of run {run_id} is damaged: its data is not known",
            hint="the same command with --file x.png",
        )
    data = document.data if document else ()
    return {item.name: item.paths[0] if item.paths else item.uri for item in data}


def predict_hint(endpoint: str, run_id: str | None) -> Hint:
    """The command that works for an endpoint with the model of a run: held-out samples are known
    for the built-in training only."""
    document = local_state.recorded_run(run_id).run if run_id else None
    if document and document.program.kind == "training":
        return Hint(Command("predict", endpoint, samples=10), "   # or --file x.png")
    return Hint(Command("predict", endpoint, file="x.npy"), "   # or .csv, .json, .png, .jpg")
