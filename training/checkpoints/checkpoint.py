"""Checkpoints in a folder: written under another name, hashed, renamed when complete; the newest
complete one is loaded.

    checkpoints/step-00000120/state.npz        the arrays of model and optimizer, and of `Beside`
                              manifest.json    written last: position, settings, files with sha256

Nothing here knows TensorFlow: arrays come and go as numpy's.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import json
import os
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, cast

from ..data.assignment import ORDERS
from ..data.shards.manifest import sha256_of
from ..results import TrainingError

FORMAT = "railhead-checkpoint"
VERSION = 1
MANIFEST = "manifest.json"
ARRAYS = "state.npz"
NAME = re.compile(r"step-(\d{8,})")
EXCHANGE = 2  # RENAME_EXCHANGE of renameat2
HERE = -100  # AT_FDCWD


@dataclass(frozen=True)
class Position:
    """The progress of a training: `epoch` counts from 0, `samples` are those trained in it."""

    step: int = 0
    epoch: int = 0
    samples: int = 0
    global_batch: int = 0
    lanes: int = 0
    order: int = ORDERS[-1]  # version of the shuffle of shards
    tallies: tuple[float, ...] = (0.0, 0.0, 0.0)  # of this epoch so far
    best: float | None = None  # lowest held-out loss so far
    waited: int = 0  # epochs since then
    done: bool = False
    rate_scale: float = 1.0  # by how much callbacks have changed the learning rate
    stopped: bool = False  # by a callback


@dataclass(frozen=True)
class Beside:
    """What a checkpoint contains besides the variables that all replicas share.

    `moving`: the moving averages of each replica, [replicas, values]; None if they are the same.
    `best`: the weights of the best epoch so far; empty if they are not kept.
    `callbacks`: the state of the callbacks, as text.
    """

    moving: Any = None
    best: Sequence[Any] = ()
    callbacks: str = ""

    def named(self) -> dict[str, Any]:
        """The arrays by their names in the file."""
        import numpy as np

        arrays = {} if self.moving is None else {"moving": self.moving}
        arrays |= {"callbacks": np.array(self.callbacks)} if self.callbacks else {}
        return arrays | {f"best_{index}": array for index, array in enumerate(self.best)}


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint; `settings` are those of its training, `shapes` those of its arrays."""

    position: Position
    settings: dict[str, Any]
    shapes: list[list[int]]
    arrays: list[Any] = field(repr=False)
    beside: Beside = field(default_factory=Beside, repr=False)


class Checkpoints:
    """The checkpoints of one training; the last `keep` and the best one stay."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep

    def names(self) -> list[str]:
        """The folders of checkpoints, oldest first."""
        if not self.folder.is_dir():
            return []
        names = [item.name for item in self.folder.iterdir() if NAME.fullmatch(item.name)]
        return sorted(names, key=lambda name: int(name.rpartition("-")[2]))

    def write(
        self,
        position: Position,
        settings: dict[str, Any],
        arrays: Iterable[Any],
        beside: Beside | None = None,
    ) -> Path:
        """Write a checkpoint, completely or not at all; then remove the surplus ones.

        Each of `arrays` is written before the next one is taken: an iterator needs memory for only
        one of them.
        """
        name = f"step-{position.step:08d}"
        partial = self.folder / f".{name}.partial"
        self._remove_partial()
        partial.mkdir(parents=True)
        file, shapes = write_arrays(partial / ARRAYS, arrays, (beside or Beside()).named())
        document = {
            "format": FORMAT,
            "version": VERSION,
            "position": asdict(position),
            "settings": settings,
            "shapes": shapes,
            "files": [file],
        }
        with synced(partial / MANIFEST) as manifest:
            manifest.write(json.dumps(document).encode())
        final = self.folder / name
        put_in_place(partial, final)
        self._remove_old()
        return final

    def newest(self) -> tuple[Checkpoint | None, list[str]]:
        """The newest complete checkpoint, and why newer ones were ignored."""
        faults: list[str] = []
        for name in reversed(self.names()):
            try:
                return read(self.folder / name), faults
            except (OSError, ValueError, KeyError, TypeError) as error:
                faults.append(f"checkpoint {self.folder / name} is incomplete: {error}")
        return None, faults

    def clear(self) -> None:
        """Remove all checkpoints."""
        for name in self.names():
            shutil.rmtree(self.folder / name)

    def check_room(self, size: int) -> None:
        """Refuse to start if the checkpoints, of `size` bytes each, do not fit on the disk."""
        self._remove_partial()
        place = self.folder
        while not place.exists():
            place = place.parent
        needed = size * (self.keep + 2)  # the best, and the next while it is written
        free = shutil.disk_usage(place).free
        if free < needed:
            raise TrainingError(
                f"no space for checkpoints in {self.folder}: {self.keep + 2} of "
                f"{size / 1e6:.0f} MB need {needed / 1e6:.0f} MB, {free / 1e6:.0f} MB are free"
            )

    def _remove_partial(self) -> None:
        """Remove what a kill or a full disk has left of checkpoints: one is written at a time."""
        for partial in self.folder.glob(".step-*.partial"):
            shutil.rmtree(partial, ignore_errors=True)

    def _remove_old(self) -> None:
        names = self.names()
        best = min((n for n in names if n not in names[-self.keep :]), key=self._loss, default=None)
        newest = [self._loss(name) for name in names[-self.keep :]]
        for name in names[: -self.keep]:
            if name != best or self._loss(name) >= min(newest):
                shutil.rmtree(self.folder / name)

    def _loss(self, name: str) -> float:
        """The held-out loss that this checkpoint itself reached; infinite for all others."""
        try:
            position = json.loads((self.folder / name / MANIFEST).read_text())["position"]
        except (OSError, ValueError, KeyError):
            return float("inf")
        reached = position["best"] is not None and position["waited"] == 0
        return float(position["best"]) if reached and not position["samples"] else float("inf")


def read(folder: Path) -> Checkpoint:
    """Read and verify one checkpoint.

    Raises:
        OSError, ValueError, KeyError, TypeError: it is incomplete, or not one of Railhead's.
    """
    import numpy as np

    document = json.loads((folder / MANIFEST).read_text())
    if document["format"] != FORMAT or document["version"] != VERSION:
        raise ValueError(f"format {document['format']!r}, version {document['version']!r}")
    for file in document["files"]:
        path = folder / ARRAYS
        if file["name"] != ARRAYS or path.stat().st_size != file["bytes"]:
            raise ValueError(f"{file['name']} has another size than its manifest says")
        if sha256_of(path) != file["sha256"]:
            raise ValueError(f"{file['name']} has another sha256 than its manifest says")
    with np.load(folder / ARRAYS, allow_pickle=False) as stored:
        arrays = [stored[f"arr_{index}"] for index in range(len(document["shapes"]))]
        count = sum(name.startswith("best_") for name in stored.files)
        best = [stored[f"best_{index}"] for index in range(count)]
        moving = stored["moving"] if "moving" in stored.files else None
        callbacks = str(stored["callbacks"]) if "callbacks" in stored.files else ""
        beside = Beside(moving, best, callbacks)
    fields = {"order": ORDERS[0], **document["position"]}  # older ones do not name it
    fields["tallies"] = tuple(float(value) for value in fields["tallies"])
    return Checkpoint(Position(**fields), document["settings"], document["shapes"], arrays, beside)


class Hashed:
    """A file that is written from beginning to end and hashed meanwhile, so that it need not be
    read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.sha256, self.bytes = file, hashlib.sha256(), 0

    def write(self, data: Any) -> int:
        """Write the next bytes."""
        self.file.write(data)
        self.sha256.update(data)
        self.bytes += len(data)
        return len(data)

    def flush(self) -> None:
        """Nothing to do: `synced` flushes the file."""


def write_arrays(
    path: Path, arrays: Iterable[Any], named: dict[str, Any]
) -> tuple[dict[str, Any], list[list[int]]]:
    """Write arrays as `np.savez` does; returns the manifest's entry of the file and the shapes of
    `arrays`."""
    import numpy as np

    shapes = []
    with synced(path) as file:
        hashed = Hashed(file)
        with zipfile.ZipFile(cast(IO[bytes], hashed), "w") as archive:

            def add(name: str, array: Any) -> list[int]:
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
                return list(array.shape)

            for index, array in enumerate(arrays):
                shapes.append(add(f"arr_{index}", array))
            for name, array in named.items():
                add(name, array)
    entry = {"name": path.name, "bytes": hashed.bytes, "sha256": hashed.sha256.hexdigest()}
    return entry, shapes


@contextlib.contextmanager
def synced(path: Path) -> Iterator[IO[bytes]]:
    """A new file, which is on the disk at the end of the block."""
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def put_in_place(partial: Path, final: Path) -> None:
    """Give a complete folder its name. If the name is in use, the two are exchanged at once: a
    kill leaves one of them."""
    if not final.exists():
        partial.rename(final)
    elif not exchanged(partial, final):  # such as on NFS
        shutil.rmtree(final)
        partial.rename(final)
    else:
        shutil.rmtree(partial)
    sync_folder(final.parent)


def exchanged(path: Path, other: Path) -> bool:
    """Exchange two paths in one step; False if the system cannot."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:  # glibc before 2.28
        return False
    return bool(rename(HERE, os.fsencode(path), HERE, os.fsencode(other), EXCHANGE) == 0)


def sync_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
