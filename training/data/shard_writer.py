"""Write samples as shards: shuffled once, spread evenly, whole or not at all."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from training.data import DataError, manifest
from training.data.arrays import Arrays
from training.data.formats.images import ImageFiles
from training.data.manifest import Manifest, Schema, Shard, sha256_of
from training.data.shard_files import Shards


def write(samples: Any, folder: Path, shards: int, *, seed: int = 0) -> Manifest:
    """Write `samples` to a new folder.

    The order is shuffled once with `seed`, so that each stretch of a shard is a fair sample of all
    classes: windows and held-out stretches depend on it.

    Raises:
        DataError: the folder exists, or the disk has no room.
    """
    if isinstance(samples, Shards):
        raise DataError(f"{samples.folder} holds shards already")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists: name a new folder")
    check_room(samples, folder)
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        found = write_all(samples, partial, shards, seed)
        manifest.write(partial, found)
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return found


def write_all(samples: Any, folder: Path, shards: int, seed: int) -> Manifest:
    """All shards into a folder that nobody else uses."""
    order = list(range(len(samples)))
    random.Random(f"shards/{seed}").shuffle(order)
    names = [f"shard-{index:05d}-of-{shards:05d}.tfrecord" for index in range(shards)]
    written = []
    for index, name in enumerate(names):
        begin, end = (len(order) * edge // shards for edge in (index, index + 1))
        with tf.io.TFRecordWriter(str(folder / name)) as out:
            for number in order[begin:end]:
                out.write(example(samples, number))
        size = (folder / name).stat().st_size
        written.append(Shard(name, end - begin, size, sha256_of(folder / name)))
    return Manifest(schema_of(samples), tuple(written))


def example(samples: Any, number: int) -> bytes:
    """One sample as a serialized tf.train.Example."""
    if is_files(samples):
        value = Path(samples.paths[number]).read_bytes()
    else:
        value = bytes_of(samples, number)
    label = samples.labels[number]
    kind = (
        tf.train.Feature(int64_list=tf.train.Int64List(value=[int(label)]))
        if samples.labels.dtype.kind in "biu"
        else tf.train.Feature(float_list=tf.train.FloatList(value=[float(label)]))
    )
    data = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    features = tf.train.Features(feature={"input": data, "label": kind})
    serialized: bytes = tf.train.Example(features=features).SerializeToString()
    return serialized


def is_files(samples: Any) -> bool:
    """Whether the samples are image files, which are stored as they are."""
    return isinstance(samples, ImageFiles)


def bytes_of(samples: Arrays, number: int) -> bytes:
    """An array as bytes, little-endian."""
    value: bytes = np.ascontiguousarray(samples.values[number], stored_type(samples)).tobytes()
    return value


def stored_type(samples: Arrays) -> Any:
    """uint8 for pixels, int64 for word numbers, float32 for all else."""
    kind = samples.values.dtype
    if kind == np.uint8:
        return np.dtype("uint8")
    return np.dtype("<i8" if kind.kind in "iu" else "<f4")


def schema_of(samples: Any) -> Schema:
    """How the records are to be read."""
    files = is_files(samples)
    return Schema(
        encoding="image" if files else stored_type(samples).name,
        shape=() if files else tuple(samples.values.shape[1:]),
        label="int64" if samples.labels.dtype.kind in "biu" else "float32",
        classes=tuple(samples.classes),
        vocabulary=samples.inputs.vocabulary,
        lowest_label=float(samples.labels.min()),
        highest_label=float(samples.labels.max()),
    )


def check_room(samples: Any, folder: Path) -> None:
    """Refuse to begin where the shards do not fit on the disk."""
    if is_files(samples):
        size = sum(Path(path).stat().st_size for path in samples.paths)
    else:
        size = samples.values.size * stored_type(samples).itemsize
    size += 100 * len(samples)  # framing, labels and names of features
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if (free := shutil.disk_usage(place).free) < size:
        raise DataError(f"no space for {folder}: {size / 1e6:.0f} MB needed, {free / 1e6:.0f} free")
