"""The model that is served: packed from files here, or copied on the chief of its run."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from pathlib import Path

from railhead.documents.lazy import dataclass

from ..errors import UsageError
from ..runs.model_files import KERAS, SAVED_MODEL, SAVED_MODEL_FILE, ModelSearch, names_below
from ..ssh.bundle import Bundle, pack_every_file, pack_file
from ..ssh.session import BLOBS, Session
from ..untrusted.manifest import read_manifest

LIMIT = 4_000_000_000  # bytes of a model
METADATA = "metadata.json"  # in a .keras file
MOST_METADATA = 100_000  # bytes of it
DAMAGED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    RuntimeError,
    EOFError,
    zlib.error,
    zipfile.BadZipFile,
)

_REMOVE_UNUSED = """cd "$HOME/.railhead/models" 2>/dev/null || exit 0
used=$(readlink "$HOME"/.railhead/endpoints/*/versions/*)
for model in *; do
  case "$used" in *"/$model"*) ;; *) rm -rf "./$model" ;; esac
done"""


@dataclass(frozen=True)
class Model:
    """A model on this computer. `bundle`: a SavedModel's files, or the one Keras file."""

    path: Path
    bundle: Bundle

    @property
    def folder(self) -> str:
        """Its folder on a host."""
        return f"~/.railhead/models/{self.bundle.digest[:32]}"


def pack_model(path: Path) -> Model:
    """The model in the folder of a SavedModel, or in a file."""
    if path.is_dir():
        return Model(path, pack_every_file(path, LIMIT))
    return Model(path, pack_file(path))


def find_model(place: Path, search: ModelSearch) -> Path | None:
    """The model in a folder here, or the file itself; None if there is none.

    Raises:
        UsageError: there are several, or none has the given name.
    """
    if place.is_file():
        model, folder = search.choose([place.name]), place.parent
    else:
        model, folder = search.choose(names_below(place)), place
    return folder / model.path if model else None


def needs_trust(model: Path) -> bool:
    """Whether a model could run code, or read and write files of this computer, when it is loaded:
    all but a .keras file of Keras 3, which loads it in a safe mode. The server chooses Keras by the
    same number (training/serving/model.py); Keras 2 does not have a safe mode."""
    if model.suffix != KERAS:
        return True
    try:
        with zipfile.ZipFile(model) as archive:
            if archive.getinfo(METADATA).file_size > MOST_METADATA:
                return True
            return not json.loads(archive.read(METADATA))["keras_version"].startswith("3.")
    except (*DAMAGED, AttributeError):
        return True


def send_model(session: Session, model: Model) -> str:
    """Send a model to a host, unless it is there; returns its folder there, relative to the home.

    The folder is complete if it is there. The contents are not kept twice.
    """
    if session.run(["test", "-d", model.folder]).rc:
        session.send_folder(model.bundle, model.folder)
        session.remove(*(f"{BLOBS}/{file.sha256}" for file in model.bundle.files))
    return model.folder


def remove_unused_models(session: Session) -> None:
    """Remove the models to which no version of an endpoint on the host links."""
    session.run(["sh", "-c", _REMOVE_UNUSED])


def find_on_chief(chief: Session, run_folder: str, search: ModelSearch) -> str | None:
    """The path of a run's model on its chief; None if the run has none, or has not ended.

    Raises:
        UsageError: there are several, or none has the given name, or only checkpoints.
        Hostile: the chief's list of the run's files is not valid.
    """
    text = chief.read(f"{run_folder}/results/manifest.json")
    files = {entry.home: entry.path for entry in read_manifest(text).files} if text else {}
    model = search.choose(files)
    if model is None:
        search.refuse_checkpoints(files)
        return None
    if model.format != SAVED_MODEL:
        return f"{run_folder}/{files[model.path]}"
    inside = SAVED_MODEL_FILE if model.path == "." else f"{model.path}/{SAVED_MODEL_FILE}"
    return f"{run_folder}/{files[inside]}".rpartition("/")[0]


def copy_on_chief(chief: Session, source: str, run_id: str) -> str:
    """Copy the model of a run on its chief, once; returns its folder there."""
    dest = f"~/.railhead/models/run-{run_id}-{hashlib.sha256(source.encode()).hexdigest()[:8]}"
    copy = """[ -d "$2" ] && exit 0
rm -rf "$2.part" && mkdir -p "$2.part" && cp -R "$1" "$2.part/model" || exit 1
if [ -d "$2.part/model" ]; then mv "$2.part/model" "$2" && rmdir "$2.part"
else mv "$2.part/model" "$2.part/${1##*/}" && mv "$2.part" "$2"; fi"""
    result = chief.run(["sh", "-c", copy, "copy_model", source, dest])
    if result.rc:
        raise UsageError(f"the model of run {run_id} could not be copied: {'; '.join(result.tail)}")
    return dest


def no_model(run_id: str, chief: str) -> UsageError:
    """The error for a run that has left no model."""
    return UsageError(
        f"run {run_id} has no model: no SavedModel, no .keras and no .h5 file in its results, "
        f"neither here nor on {chief}",
        hint="in a script: model.export(os.environ['RAILHEAD_RESULTS'] + '/saved_model')",
    )
