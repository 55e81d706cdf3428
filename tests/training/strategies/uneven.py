"""Shards of so many records each, written by a runtime's python. Labels follow from the inputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.data.arrays import Arrays
from training.data.shards import columns, manifest
from training.data.shards.shard_writer import write_all
from training.data.store import Folder

COUNTS = {"train": (30, 1, 8, 2), "validation": (1,)}


def write(_: Path, place: str) -> None:
    """Both splits, in folders of `place`."""
    for split, counts in COUNTS.items():
        folder, described = Path(place, split), []
        for number, count in enumerate(counts):
            source = folder / str(number)
            source.mkdir(parents=True)
            x = np.random.RandomState(number).rand(count, 4).astype("float32")
            arrays = Arrays(x, np.arange(count) % 2, ("a", "b"))
            written = write_all(arrays, source, 1, 0, lambda path: None)
            (source / written.shards[0].name).rename(folder / f"shard-{number}")
            values = list(vars(written.shards[0]).values())
            described.append(columns.Shard(f"shard-{number}", *values[1:]))
        manifest.write(Folder(folder), manifest.Manifest(written.schema, tuple(described)))
