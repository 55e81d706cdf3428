"""Loads .keras files, also those of a later Keras than this one: hosts with Python 3.10 have 3.12.

Keras refuses a file for each key that it does not know. Those of LATER are written by Keras 3.13 to
3.15 for every layer of a kind; with these values the layer is the same without them.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import keras

LATER: dict[str, object] = {
    "quantization_config": None,
    "input_axes": None,  # of initializers, as the next one
    "output_axes": None,
    "renorm": False,  # of BatchNormalization, as the next two
    "renorm_clipping": None,
    "renorm_momentum": 0.99,
    "use_gate": False,  # of attention, as the next one
    "sliding_window": None,
}


def load_model(path: Path) -> Any:
    """The model in a file, not compiled; no Python code in it is run.

    Raises:
        ValueError: Keras cannot load it; the message names both versions if the file's is later.
        TypeError, OSError, KeyError, zipfile.BadZipFile: as Keras.
    """
    try:
        return keras.saving.load_model(path, compile=False, safe_mode=True)
    except (TypeError, ValueError) as error:
        saved_by = version_of(path)
        if not is_later(saved_by):
            raise
        first = error
    try:
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder, path.name)
            without_later_keys(path, plain)
            return keras.saving.load_model(plain, compile=False, safe_mode=True)
    except (TypeError, ValueError):
        reason = str(first).strip().splitlines()[0][:200]
        raise ValueError(
            f"it was saved by Keras {saved_by}, and this runtime has {keras.__version__}: {reason}"
        ) from None


def version_of(path: Path) -> str:
    """The Keras that saved a file; "" if unknown."""
    try:
        with zipfile.ZipFile(path) as archive:
            return str(json.loads(archive.read("metadata.json"))["keras_version"])
    except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile):
        return ""


def is_later(version: str) -> bool:
    """Whether a version is later than this Keras, by its first two numbers."""
    try:
        ours, other = (
            [int(number) for number in v.split(".")[:2]] for v in (keras.__version__, version)
        )
    except ValueError:
        return False
    return other > ours


def without_later_keys(path: Path, plain: Path) -> None:
    """Copy a file, without the keys of LATER."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(plain, "w") as target:
        for item in source.infolist():
            if item.filename == "config.json":
                config = without_keys(json.loads(source.read(item)))
                target.writestr(item.filename, json.dumps(config))
            else:
                with source.open(item) as data, target.open(item.filename, "w") as copy:
                    while piece := data.read(1 << 20):
                        copy.write(piece)


def without_keys(value: Any) -> Any:
    """A configuration without the keys of LATER that have the value of LATER."""
    if isinstance(value, dict):
        return {k: without_keys(v) for k, v in value.items() if k not in LATER or v != LATER[k]}
    return [without_keys(item) for item in value] if isinstance(value, list) else value
