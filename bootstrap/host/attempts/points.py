"""The checkpoints of a run on its chief; its next attempt continues from the newest."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping

from railhead.documents.lazy import dataclass, field

from ..run import checkpoint_files
from ..run.checkpoint_files import FOLDER, MANIFEST, Stamp
from ..upload.changes import Changes, is_log


@dataclass(frozen=True)
class Point:
    """The checkpoint from which an attempt continues. `step`: its step; None for the files of a
    script. `begun`, `completed`: when its writing began and ended, in seconds since 1970. `files`:
    how many there are."""

    step: int | None = 0
    completed: float = 0.0
    files: int = 0
    begun: float = field(default=0.0, compare=False)

    def __str__(self) -> str:
        if not self.files:
            return "from the beginning"
        return "from its checkpoint files" if self.step is None else f"from step {self.step}"


BEGINNING = Point()


@dataclass(frozen=True)
class Checkpoints:
    """The complete files in the checkpoint folder of a run, as `complete_files` lists them. `logs`:
    files that are logs, not checkpoints; `begun`: when the writing of files began."""

    files: Mapping[str, Stamp]
    logs: Collection[str] = ()
    begun: Mapping[str, float] = field(default_factory=dict)

    @property
    def newest(self) -> Point:
        """The newest complete checkpoint; BEGINNING without one."""
        files = {path: stamp for path, stamp in self.files.items() if not is_log(path)}
        if newest := checkpoint_files.newest(files):
            completed = files[f"{newest}/{MANIFEST}"][1] / 1e9
            return Point(checkpoint_files.step_of(newest), completed, len(files), completed)
        script_files = [path for path in files if path not in self.logs] or [*files]
        if not script_files:
            return BEGINNING
        last = max(script_files, key=lambda path: files[path][1])
        completed = files[last][1] / 1e9
        return Point(None, completed, len(files), self.begun.get(last, completed))

    def interval(self, since: float) -> float | None:
        """Seconds between the two newest checkpoints after `since` (seconds since 1970); None if
        there are fewer."""
        manifests = [ns for path, (_, ns) in self.files.items() if path.endswith(f"/{MANIFEST}")]
        times = sorted(ns / 1e9 for ns in manifests if ns / 1e9 > since)
        return times[-1] - times[-2] if len(times) > 1 else None


def checkpoints(run_folder: str, changes: Changes | None = None) -> Checkpoints:
    """List the checkpoint folder of a run. `changes`: what its watcher has seen."""
    files = checkpoint_files.complete_files(os.path.join(run_folder, FOLDER))
    if changes is None:
        return Checkpoints(files)
    changes.look()
    return Checkpoints(files, changes.logs(), changes.begun())
