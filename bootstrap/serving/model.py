"""Finds the model of a run: in its results here, else on its chief."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bootstrap.errors import UsageError
from bootstrap.ssh.bundle import Bundle, pack_every_file, pack_file
from bootstrap.ssh.session import Session
from bootstrap.untrusted.unpack import Hostile

LIMIT = 4_000_000_000  # bytes of a model
SAVED_MODEL = "saved_model.pb"
# Prints the folder or file of the model below the folder in $1.
_SEARCH = """cd "$1" 2>/dev/null || exit 0
for f in saved_model/saved_model.pb saved_model.pb */saved_model.pb *.keras */*.keras; do
  [ -f "$f" ] || continue
  case $f in *.keras) echo "$f";; */*) echo "${f%/*}";; *) echo .;; esac
  exit 0
done"""

_REMOVE_UNUSED = """cd "$HOME/.railhead/models" 2>/dev/null || exit 0
used=$(readlink "$HOME"/.railhead/endpoints/*/versions/*)
for model in *; do
  case "$used" in *"/$model"*) ;; *) rm -rf "./$model" ;; esac
done"""


@dataclass(frozen=True)
class Model:
    """A model here. `bundle`: a SavedModel's files, or a .keras file in a folder."""

    path: Path
    bundle: Bundle

    @property
    def folder(self) -> str:
        """Its folder on a host."""
        return f"~/.railhead/models/{self.bundle.digest[:32]}"


def local_model(results: Path) -> Model | None:
    """The model in a folder here, or the .keras file; None if there is none."""
    found = _find(results)
    if found is None:
        return None
    if found.is_dir():
        return Model(found, pack_every_file(found, LIMIT))
    return Model(found, pack_file(found))


def _find(results: Path) -> Path | None:
    if results.suffix == ".keras" and results.is_file():
        return results
    if not results.is_dir():
        return None
    saved = [results / "saved_model" / SAVED_MODEL, results / SAVED_MODEL]
    saved += sorted(results.glob(f"*/{SAVED_MODEL}"))
    keras = [*sorted(results.glob("*.keras")), *sorted(results.glob("*/*.keras"))]
    for path in saved:
        if path.is_file():
            return path.parent
    return next((path for path in keras if path.is_file()), None)


def send_model(session: Session, model: Model) -> str:
    """Send a model to a host, unless it has it; returns its folder there, without the home.

    The folder is complete if it is there. The contents are not kept twice.
    """
    if session.run(["test", "-d", model.folder]).rc:
        session.send_folder(model.bundle, model.folder)
        blobs = [f"~/.railhead/blobs/{file.sha256}" for file in model.bundle.files]
        session.call("remove", paths=blobs)
    return model.folder


def remove_unused_models(session: Session) -> None:
    """Remove the models that no version of an endpoint on the host leads to."""
    session.run(["sh", "-c", _REMOVE_UNUSED])


def copy_on_chief(chief: Session, run_folder: str, run_id: str) -> str | None:
    """Copy the model of a run on its chief; returns its folder there, None if the run has none."""
    results = f"{run_folder}/results"
    reply = chief.run(["sh", "-c", _SEARCH, "find_model", results])
    if not reply.tail:
        return None
    name = reply.tail[-1].strip()
    if name.startswith("/") or ".." in name.split("/"):
        raise Hostile("a model's path that is not valid")
    dest = f"~/.railhead/models/run-{run_id}"
    copy = """[ -d "$2" ] && exit 0; mkdir -p "$2.part" && cp -R "$1" "$2.part/model" || exit 1
if [ -d "$2.part/model" ]; then mv "$2.part/model" "$2" && rmdir "$2.part"
else mv "$2.part/model" "$2.part/${1##*/}" && mv "$2.part" "$2"; fi"""
    done = chief.run(["sh", "-c", copy, "copy_model", f"{results}/{name}", dest])
    if done.rc:
        raise UsageError(f"the model of run {run_id} could not be copied: {'; '.join(done.tail)}")
    return dest


def no_model(run_id: str, chief: str) -> UsageError:
    """The error for a run that has left no model."""
    return UsageError(
        f"run {run_id} has no model: no SavedModel and no .keras file in its results, neither here "
        f"nor on {chief}",
        hint="in a script: model.export(os.environ['RAILHEAD_RESULTS'] + '/saved_model')",
    )
