"""Finds the model among a run's files, here or on the chief. Pure: it reads only file names.

A SavedModel is a folder with saved_model.pb; a Keras model is a .keras or .h5 file. A folder whose
name is a number is a version, as in TensorFlow Serving: the highest one counts. A checkpoint is not
the model of a run, but --model may name one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from railhead.documents.lazy import dataclass

from ..console.text import clean
from ..errors import Command, Hint, UsageError

KERAS, H5, SAVED_MODEL = FORMATS = (".keras", ".h5", "SavedModel")
SAVED_MODEL_FILE = "saved_model.pb"
WEIGHTS = ".weights.h5"  # weights alone: the program has to build the model
NOT_SEARCHED = ("evaluations", "logs")  # folders at the top of the results
INSIDE = ("assets", "assets.extra", "variables")  # of a SavedModel
SHOWN = 8  # models named in a message

_CHECKPOINT = re.compile(r"checkpoint|ckpt", re.IGNORECASE)


@dataclass(frozen=True)
class ModelFile:
    """A model: its posix path below the folder that was searched ("." is the folder itself), and
    its format, one of FORMATS."""

    path: str
    format: str

    @property
    def name(self) -> str:
        """The path without version and format: the same for all versions and formats of a model."""
        parts, _ = self._split()
        *above, last = parts or ("model",)
        last = last.removesuffix(self.format)
        return "/".join((*above, "model" if last == "saved_model" else last))

    @property
    def version(self) -> int:
        """The innermost folder whose name is a number; 0 if there is none."""
        return self._split()[1]

    @property
    def is_checkpoint(self) -> bool:
        """Whether its path contains a name for checkpoints."""
        return _CHECKPOINT.search(self.path) is not None

    def _split(self) -> tuple[tuple[str, ...], int]:
        """The parts of the path without the version, and the version."""
        parts = PurePosixPath(self.path).parts
        folders = parts if self.format == SAVED_MODEL else parts[:-1]
        for at in reversed(range(len(folders))):
            if folders[at].isascii() and folders[at].isdecimal():
                return (*parts[:at], *parts[at + 1 :]), int(folders[at])
        return parts, 0


@dataclass(frozen=True)
class ModelSearch:
    """How to search for a model: `wanted` is the path of --model; `formats`, the best first.

    For messages: `owner` ("run r1"), and the `command` to which --model with `prefix` and a path is
    added.
    """

    owner: str
    command: Command
    wanted: str | None = None
    prefix: str = ""
    formats: Sequence[str] = (SAVED_MODEL, KERAS, H5)

    def choose(self, names: Iterable[str]) -> ModelFile | None:
        """The model among the files with these names; None if there is none.

        Raises:
            UsageError: there are several, or --model names another one.
        """
        if self.wanted is None:
            return self._only([model for model in models_in(names) if not model.is_checkpoint])
        models = models_in(names)
        wanted = PurePosixPath(self.wanted).as_posix()
        exact = [model for model in models if model.path == wanted]
        inside = [model for model in models if model.path.startswith(f"{wanted}/")]
        if chosen := exact or inside:
            return self._only(chosen)
        if not models:
            return None
        raise self._error(f"--model {self.wanted}: {self.owner} has", models)

    def refuse_checkpoints(self, names: Iterable[str]) -> None:
        """UsageError if these files contain a checkpoint that --model could name."""
        if models := models_in(names):
            raise self._error(f"{self.owner} has checkpoints, and no model:", models)

    def _only(self, models: Sequence[ModelFile]) -> ModelFile | None:
        """The best format of the highest version, if all are the same model."""
        if len({model.name for model in models}) > 1:
            raise self._error(f"{self.owner} has several models:", models)
        ranked = sorted(models, key=lambda m: (self.formats.index(m.format), -m.version))
        return ranked[0] if ranked else None

    def _error(self, begin: str, models: Sequence[ModelFile]) -> UsageError:
        """An error with the choices: the highest version of each model."""
        newest = {(m.name, m.format): m for m in sorted(models, key=lambda m: m.version)}
        paths = sorted((model.path for model in newest.values()), key=_natural)
        more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
        shown = [clean(path) for path in paths[-SHOWN:]]
        command = self.command.plus(model=self.prefix + shown[-1])
        return UsageError(
            f"{begin} {', '.join(shown)}{more}",
            hint=Hint(command, "   # or another one of them"),
        )


def models_in(names: Iterable[str]) -> list[ModelFile]:
    """All models among files with these names: posix paths relative to one folder."""
    models = []
    for name in names:
        path = PurePosixPath(name)
        if any(part.startswith(".") for part in path.parts) or path.parts[0] in NOT_SEARCHED:
            continue
        if path.name == SAVED_MODEL_FILE:
            models.append(ModelFile(path.parent.as_posix(), SAVED_MODEL))
        elif path.suffix in (KERAS, H5) and not path.name.endswith(WEIGHTS):
            models.append(ModelFile(path.as_posix(), path.suffix))
    saved = {model.path for model in models if model.format == SAVED_MODEL}
    inside = {PurePosixPath(path, part) for path in saved for part in INSIDE}
    return [model for model in models if inside.isdisjoint(PurePosixPath(model.path).parents)]


def names_below(folder: Path) -> list[str]:
    """The names of all files below a folder that may be part of a model; no link is entered."""
    ends = (SAVED_MODEL_FILE, KERAS, H5)
    return [
        Path(top, name).relative_to(folder).as_posix()
        for top, _, files in os.walk(folder)
        for name in files
        if name.endswith(ends)
    ]


def _natural(path: str) -> list[tuple[int, int, str]]:
    """A key that sorts numbers by their value: checkpoint-9 before checkpoint-24."""
    return [
        (0, int(part), "") if part.isdecimal() else (1, 0, part)
        for part in re.split(r"([0-9]+)", path)
    ]
