"""A changed copy of the built-in training."""

from __future__ import annotations

import shutil
from pathlib import Path

from places import ROOT


def copy_with_a_model(folder: Path, name: str = "mine") -> Path:
    """A copy of training/ in a folder, with the model of the example beside the others."""
    place = folder / "training"
    shutil.copytree(ROOT / "training", place, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "examples/own_model.py", place / f"models/{name}.py")
    registry = place / "registry.py"
    registry.write_text(f'{registry.read_text()}\nMODELS["{name}"] = "training.models.{name}"\n')
    return place
