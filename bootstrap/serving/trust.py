"""Which models are loaded on this computer without a question: `fab deploy --here`."""

from __future__ import annotations

import json
import shlex
import zipfile
import zlib
from pathlib import Path

from bootstrap.console.output import confirm
from bootstrap.errors import UsageError
from bootstrap.runs.model_files import KERAS
from bootstrap.serving.source import Source, shown

METADATA = "metadata.json"  # in a .keras file
LIMIT = 100_000  # bytes of it
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


def needs_trust(model: Path) -> bool:
    """Whether a model could run code, or read and write files of this computer, when it is loaded:
    all but a .keras file of Keras 3, which loads it in a safe mode. The server chooses Keras by the
    same number (training/serving/model.py); Keras 2 has no mode that is safe."""
    if model.suffix != KERAS:
        return True
    try:
        with zipfile.ZipFile(model) as archive:
            if archive.getinfo(METADATA).file_size > LIMIT:
                return True
            return not json.loads(archive.read(METADATA))["keras_version"].startswith("3.")
    except (*DAMAGED, AttributeError):
        return True


def confirm_model(path: Path, source: Source) -> None:
    """Ask before a model is loaded here that needs trust.

    Raises:
        UsageError: the answer is not yes, or nobody can answer.
    """
    if source.trusted or not needs_trust(path):
        return
    named = f" {source.run_id}" if source.run_id else ""
    wanted = source.name or (str(source.path) if source.path else None)
    model = f" --model {shlex.quote(wanted)}" if wanted else ""
    hint = f"fab deploy{named}{model} --here --trust-model   # or without --here: on the host"
    question = (
        f"{shown(path)} would be loaded on this computer without a safe mode: it could read and "
        "change your files. Trust it?"
    )
    if not confirm(question, hint=hint):
        raise UsageError("the model is not trusted: nothing was started", hint=hint)
