"""The checkpoints of a run on its chief: the newest is where its next attempt continues.

Standard library only, Python 3.10.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from ..run import checkpoint_files
from ..run.checkpoint_files import FOLDER, MANIFEST, Stamp


@dataclass(frozen=True)
class Point:
    """Where an attempt continues. `step`: after which one; None for the files of a script. `at`:
    when the checkpoint was complete, in seconds since 1970. `files`: how many there are."""

    step: int | None = 0
    at: float = 0.0
    files: int = 0

    def __str__(self) -> str:
        if not self.files:
            return "from the beginning"
        return "from its checkpoint files" if self.step is None else f"from step {self.step}"


BEGINNING = Point()


@dataclass(frozen=True)
class Checkpoints:
    """The complete files in the checkpoint folder of a run, as `complete_files` lists them."""

    files: Mapping[str, Stamp]

    @property
    def newest(self) -> Point:
        """The newest complete checkpoint; BEGINNING without one."""
        files = {**self.files}
        if not files:
            return BEGINNING
        newest = checkpoint_files.newest(files)
        step = checkpoint_files.step_of(newest) if newest else None
        own = [ns for path, (_, ns) in files.items() if not checkpoint_files.is_fixed(path)]
        times = [files[f"{newest}/{MANIFEST}"][1]] if newest else own
        return Point(step, max(times) / 1e9, len(files))

    def interval(self, since: float) -> float | None:
        """Seconds between the two newest checkpoints after `since`, in seconds since 1970; None
        with fewer."""
        manifests = [ns for path, (_, ns) in self.files.items() if path.endswith(f"/{MANIFEST}")]
        own = sorted(ns / 1e9 for ns in manifests if ns / 1e9 > since)
        return own[-1] - own[-2] if len(own) > 1 else None


def checkpoints(run_folder: str) -> Checkpoints:
    """List the checkpoint folder of a run."""
    return Checkpoints(checkpoint_files.complete_files(os.path.join(run_folder, FOLDER)))
