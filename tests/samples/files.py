"""Small files of the formats that people have, made with TensorFlow and numpy."""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from training import data
from training.config import TrainConfig
from training.data import splits
from training.data.uri import DataSource


def pixels(count: int, *shape: int) -> Any:
    return np.random.RandomState(0).randint(0, 256, (count, *shape)).astype(np.uint8)


def idx(path: Path, array: Any) -> None:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def mnist_folder(folder: Path, ending: str = "") -> Path:
    folder.mkdir()
    for prefix, count in (("train", 50), ("t10k", 7)):
        idx(folder / f"{prefix}-images-idx3-ubyte{ending}", pixels(count, 28, 28))
        idx(folder / f"{prefix}-labels-idx1-ubyte{ending}", pixels(count) % 10)
    return folder


def image_folder(folder: Path, classes: str = "ant bee", count: int = 6) -> Path:
    for label, name in enumerate(classes.split()):
        (folder / name).mkdir(parents=True)
        for number, image in enumerate(pixels(count, 20, 30, 3)):
            encode = tf.io.encode_png if number % 2 else tf.io.encode_jpeg
            ending = "png" if number % 2 else "jpg"
            file = encode(image // 4 + 60 * label).numpy()
            (folder / name / f"{number}.{ending}").write_bytes(file)
    return folder


def load(name: str, folder: Path, mode: str = "file", **settings: Any) -> data.Dataset:
    return splits.load(TrainConfig(data=name, **settings), {"train": DataSource(str(folder), mode)})


def example(**values: Any) -> bytes:
    """A record: bytes, lists of floats and lists of ints by name; `/` is written `__`."""
    features = {}
    for name, value in values.items():
        if isinstance(value, bytes):
            one = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        elif all(isinstance(number, int) for number in value):
            one = tf.train.Feature(int64_list=tf.train.Int64List(value=value))
        else:
            one = tf.train.Feature(float_list=tf.train.FloatList(value=value))
        features[name.replace("__", "/")] = one
    record = tf.train.Example(features=tf.train.Features(feature=features))
    serialized: bytes = record.SerializeToString()
    return serialized


def written(path: Path, records: Iterable[bytes], compression: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path), compression) as out:
        for record in records:
            out.write(record)
    return path
