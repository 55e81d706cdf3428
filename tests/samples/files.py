"""Small files of the formats that people have, made with TensorFlow and numpy."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from training import data
from training.config import TrainConfig
from training.data import splits
from training.data.uri import Given


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
    return splits.load(TrainConfig(data=name, **settings), {"train": Given(str(folder), mode)})
