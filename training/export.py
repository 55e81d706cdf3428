"""The trained model as files: model.keras and a SavedModel, each together with the settings."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .config import TrainConfig
from .data import Dataset
from .results import MODEL

SAVED_MODEL = "saved_model"
SETTINGS = "training.json"


def export(model: Any, dataset: Dataset, config: TrainConfig, folder: Path) -> None:
    """Write all formats; a reader sees each whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    lists = {"classes": list(dataset.names), "columns": list(dataset.train.columns)}
    lists["fill"] = list(getattr(dataset.train, "fill", ()))
    settings = json.dumps({"settings": asdict(config), **lists})
    partial = folder / f".partial.{MODEL}"  # Keras recognises the format by the end of the name
    model.save(partial)
    with zipfile.ZipFile(partial, "a") as archive:  # a .keras file is a zip
        archive.writestr(SETTINGS, settings)
    partial.replace(folder / MODEL)
    if config.export == "on":
        export_saved_model(model, settings, folder)


def export_saved_model(model: Any, settings: str, folder: Path) -> None:
    """A SavedModel for TensorFlow Serving, with training.json among its assets."""
    partial = folder / f".partial.{SAVED_MODEL}"
    shutil.rmtree(partial, ignore_errors=True)
    model.export(str(partial), verbose=False)
    (partial / "assets.extra").mkdir(exist_ok=True)
    (partial / "assets.extra" / SETTINGS).write_text(settings + "\n")
    shutil.rmtree(folder / SAVED_MODEL, ignore_errors=True)
    partial.rename(folder / SAVED_MODEL)
