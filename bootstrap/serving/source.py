"""What is deployed: the model of a run, or a folder or file of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.files import existing_path
from bootstrap.inventory.hosts import Inventory
from bootstrap.runs.run import Run
from bootstrap.serving.model import Model, copy_on_chief, local_model, no_model, send_model
from bootstrap.serving.place import Place


@dataclass(frozen=True)
class Source:
    """The model of `run`, or what is at `path`. A notebook has neither where there is no run."""

    run: Run | None
    path: Path | None = None

    @property
    def run_id(self) -> str | None:
        """The id of the run, if it is the model of one."""
        return self.run.run_id if self.run else None

    @property
    def runtime(self) -> str | None:
        """The digest of the run's runtime, where it is recorded."""
        found = local_state.document_of_run(self.run.run_id).get("runtime", {}) if self.run else {}
        return found.get("digest") if isinstance(found, dict) else None

    def model_here(self) -> Model | None:
        """The model, if it is on this machine."""
        found = self.path or (self.run.results if self.run else None)
        return local_model(found) if found else None

    def place_model(self, place: Place) -> str:
        """The folder on a host that has the model, sent there unless it has it.

        Raises:
            UsageError: there is no model, neither here nor there.
        """
        if model := self.model_here():
            return place.absolute(send_model(place.session, model))
        folder = None
        if self.run:
            folder = copy_on_chief(place.session, self.run.folder, self.run.run_id)
        if folder is None:
            raise self.no_model_error(place.host)
        return place.absolute(folder)

    def no_model_error(self, host: str) -> UsageError:
        """The error for a source without a model."""
        if self.run:
            return no_model(self.run.run_id, host)
        return UsageError(f"--model {self.path}: no SavedModel and no .keras file")


def source_of(run_id: str | None, model: str | None, inventory: Inventory | None = None) -> Source:
    """The run with this id, else the last one of these hosts; or what --model names.

    Raises:
        UsageError: no such run is recorded, or there is no such file.
    """
    if model is not None:
        path = existing_path(model)
        if path is None:
            raise UsageError(f"--model {model}: there is no such file or folder")
        return Source(None, path)
    if run_id is not None:
        record = local_state.recorded_run(run_id)
        return Source(Run(record["run_id"], Path(record["results"])))
    chosen = inventory or local_state.last_cluster()
    last, results = local_state.find_run(chosen, None)
    evaluated = local_state.document_of_run(last).get("evaluates")
    if isinstance(evaluated, str):  # it has no model of its own
        return source_of(evaluated, None)
    return Source(Run(last, results))


def run_data(run_id: str | None) -> dict[str, str]:
    """The data of a run, as its chief reads it: {name: path or URI}; {} without a run.

    Raises:
        UsageError: the record of the run is damaged.
    """
    if run_id is None:
        return {}
    try:
        return {
            str(item["name"]): str(item["paths"][0] if item["paths"] else item["uri"])
            for item in local_state.document_of_run(run_id).get("data", ())
        }
    except (KeyError, TypeError, IndexError):
        raise UsageError(
            f"the record of run {run_id} is damaged: its data is not known",
            hint="the same command with --file x.png",
        ) from None
