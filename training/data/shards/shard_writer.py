"""Write samples as shards: shuffled once, spread evenly, whole or not at all."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from .. import DataError
from ..arrays import Arrays
from ..formats.images import EncodedImages
from ..records import FRAME
from ..store import Folder, NothingThereError, Store, open_store
from ..uri import DataSource
from . import manifest
from .manifest import Manifest, Schema, sha256_of
from .shard_files import Shards


def write(samples: Any, uri: str, shards: int, *, seed: int = 0) -> Manifest:
    """Write `samples` to a new folder, or below a new prefix of a bucket.

    The order is shuffled once with `seed`, so that each stretch of a shard is a fair sample of all
    classes: windows and held-out stretches depend on it.

    Raises:
        DataError: there is something already, the disk has no room, or the bucket is refused.
    """
    if isinstance(samples, Shards):
        raise DataError(f"{samples.source.store.uri} holds shards already")
    if samples.labels.ndim != 1:
        raise DataError("shards store one label per sample, not those of task=multi-label")
    if getattr(samples, "factors", None) is not None:
        raise DataError("shards do not store sample_weights")
    data = DataSource(uri)
    if data.location:
        return write_to_bucket(samples, open_store(uri), shards, seed)
    return write_to_folder(samples, data.path, shards, seed)


def write_to_folder(samples: Any, folder: Path, shards: int, seed: int) -> Manifest:
    """Write to a folder beside, then rename it."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} exists: name a new folder")
    check_room(folder, size_of(samples))
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    partial.mkdir(parents=True)
    try:
        written = write_all(samples, partial, shards, seed, lambda path: None)
        manifest.write(Folder(partial), written)
        partial.replace(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    return written


def write_to_bucket(samples: Any, store: Store, shards: int, seed: int) -> Manifest:
    """Write and upload one shard after the other; the manifest comes last."""
    try:
        store.items()
    except NothingThereError:
        pass
    else:
        raise DataError(f"{store.uri} exists: name a new prefix")
    with tempfile.TemporaryDirectory(prefix="railhead-shards-") as name:
        check_room(Path(name), size_of(samples) // shards)

        def upload(path: Path) -> None:
            store.put(path.name, path)
            path.unlink()

        written = write_all(samples, Path(name), shards, seed, upload)
    manifest.write(store, written)
    return written


def write_all(
    samples: Any, folder: Path, shards: int, seed: int, written: Callable[[Path], None]
) -> Manifest:
    """All shards into a folder that nobody else uses; `written` is called after each."""
    order = list(range(len(samples)))
    random.Random(f"shards/{seed}").shuffle(order)
    described = []
    for index in range(shards):
        path = folder / f"shard-{index:05d}-of-{shards:05d}.tfrecord"
        begin, end = (len(order) * edge // shards for edge in (index, index + 1))
        frames = []
        with tf.io.TFRecordWriter(str(path)) as out:
            for number in order[begin:end]:
                record = example(samples, number)
                out.write(record)
                frames.append(len(record) + FRAME)
        described.append(manifest.described(path.name, frames, sha256_of(path)))
        written(path)
    return Manifest(schema_of(samples), tuple(described))


def example(samples: Any, number: int) -> bytes:
    """One sample as a serialized tf.train.Example."""
    if isinstance(samples, EncodedImages):
        value = samples.contents.content(number)  # as it is
    else:
        value = np.ascontiguousarray(samples.values[number], stored_type(samples)).tobytes()
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


def stored_type(samples: Arrays) -> Any:
    """uint8 for pixels, int64 for word numbers, float32 for all else; little-endian."""
    kind = samples.values.dtype
    if kind == np.uint8:
        return np.dtype("uint8")
    return np.dtype("<i8" if kind.kind in "iu" else "<f4")


def schema_of(samples: Any) -> Schema:
    """How the records are to be read."""
    encoded = isinstance(samples, EncodedImages)
    return Schema(
        encoding="image" if encoded else stored_type(samples).name,
        shape=() if encoded else tuple(samples.values.shape[1:]),
        label="int64" if samples.labels.dtype.kind in "biu" else "float32",
        classes=tuple(samples.classes),
        vocabulary=samples.inputs.vocabulary,
        lowest_label=float(samples.labels.min()),
        highest_label=float(samples.labels.max()),
        columns=tuple(samples.columns),
    )


def size_of(samples: Any) -> int:
    """About how many bytes all shards have."""
    if isinstance(samples, EncodedImages):
        size = samples.contents.size()
    else:
        size = samples.values.size * stored_type(samples).itemsize
    return int(size) + 100 * len(samples)  # framing, labels and names of features


def check_room(folder: Path, size: int) -> None:
    """Refuse to begin if the shards do not fit on the disk."""
    place = folder.absolute()
    while not place.exists():
        place = place.parent
    if (free := shutil.disk_usage(place).free) < size:
        raise DataError(f"no space for {folder}: {size / 1e6:.0f} MB needed, {free / 1e6:.0f} free")
