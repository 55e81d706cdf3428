"""Image files: one folder per class, or Cassava's train.csv beside a folder of images.

FOLDER/CLASS/*.jpg                          labels are the names of the folders, sorted
FOLDER/train/CLASS/*.jpg, validation/, test/
FOLDER/train.csv + FOLDER/train_images/     columns image_id and label (or images/)
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from training.config import TrainConfig
from training.data import SPLITS, DataError, Inputs
from training.data.arrays import check_labels

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif")
IMAGE_FOLDERS = ("images", "train_images")


@dataclass(frozen=True)
class ImageFiles:
    """Paths and labels; an image is decoded when it is needed, to RGB of `size` x `size`."""

    paths: tuple[str, ...]
    labels: Any
    classes: tuple[str, ...]
    size: int
    source: str

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def inputs(self) -> Inputs:
        return Inputs((self.size, self.size, 3))

    def part(self, numbers: Any) -> ImageFiles:
        paths = tuple(self.paths[number] for number in numbers)
        return ImageFiles(paths, self.labels[numbers], self.classes, self.size, self.source)

    def check(self, task: Any) -> int:
        return check_labels(self.labels, self.classes, task, self.source)

    def reader(self) -> Callable[[Any], tuple[Any, Any]]:
        with tf.device("cpu"):
            paths, labels = tf.constant(self.paths), tf.constant(self.labels)

        def read_batch(numbers: Any) -> tuple[Any, Any]:
            names = tf.gather(paths, numbers)
            files = tf.map_fn(tf.io.read_file, names, parallel_iterations=16)
            return decode(files, self.size), tf.gather(labels, numbers)

        return read_batch

    def digest(self) -> str:
        found = hashlib.sha256()
        for path, label in zip(self.paths, self.labels, strict=True):
            content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            found.update(f"{content} {label}\n".encode())
        return found.hexdigest()

    def find_fault(self) -> str:
        """Decode one image after the other until one fails."""
        for path in self.paths:
            try:
                tf.io.decode_image(tf.io.read_file(path), channels=3, expand_animations=False)
            except (tf.errors.OpError, ValueError):
                return f"{path} is not an image that can be read"
        return ""


def decode(files: Any, size: int) -> Any:
    """Encoded images, string [batch], to float32 [batch, size, size, 3] in 0..1."""

    def one(file: Any) -> Any:
        image = tf.io.decode_image(file, channels=3, expand_animations=False)
        image.set_shape([None, None, 3])
        return tf.image.resize(image, [size, size], antialias=True) / 255.0

    wanted = tf.TensorSpec([size, size, 3], tf.float32)
    return tf.map_fn(one, files, fn_output_signature=wanted, parallel_iterations=16)


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """All images of a folder, by its layout."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder of images")
    if (folder / "train.csv").is_file():
        return {"train": from_table(folder, config)}
    if (folder / "train").is_dir():
        names = [name for name in SPLITS if (folder / name).is_dir()]
        return {name: by_class(folder / name, config) for name in names}
    return {"train": by_class(folder, config)}


def fetch(config: TrainConfig) -> dict[str, Any]:
    """Images are always given."""
    raise DataError("data=images needs a folder: --data train=FOLDER")


def by_class(folder: Path, config: TrainConfig) -> ImageFiles:
    """One folder per class, its name is the label."""
    classes = sorted(item.name for item in folder.iterdir() if is_class(item))
    if len(classes) < 2:
        raise DataError(f"{folder} needs a folder of images for each class, and has {len(classes)}")
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = sorted(str(p) for p in (folder / name).rglob("*") if p.suffix.lower() in ENDINGS)
        if not found:
            raise DataError(f"{folder / name} has no image ({', '.join(ENDINGS)})")
        paths += found
        labels += [label] * len(found)
    numbers = np.array(labels, np.int64)
    return ImageFiles(tuple(paths), numbers, tuple(classes), config.image_size, str(folder))


def is_class(item: Path) -> bool:
    """Hidden folders are no classes."""
    return item.is_dir() and not item.name.startswith(".")


def from_table(folder: Path, config: TrainConfig) -> ImageFiles:
    """Cassava's layout: train.csv names the files and gives their labels."""
    images = next((folder / name for name in IMAGE_FOLDERS if (folder / name).is_dir()), None)
    if images is None:
        raise DataError(f"{folder} has train.csv, but no folder {' or '.join(IMAGE_FOLDERS)}")
    table = folder / "train.csv"
    with table.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"image_id", "label"} <= rows[0].keys():
        raise DataError(f"{table} needs the columns image_id and label, and rows")
    for line, row in enumerate(rows, 2):
        if not (images / (row["image_id"] or "")).is_file():
            raise DataError(f"{table} line {line}: {images / (row['image_id'] or '')} is missing")
    classes = tuple(sorted({row["label"] for row in rows}, key=by_number))
    labels = np.array([classes.index(row["label"]) for row in rows], np.int64)
    paths = tuple(str(images / row["image_id"]) for row in rows)
    return ImageFiles(paths, labels, classes, config.image_size, str(folder))


def by_number(text: str) -> tuple[int, str]:
    """Labels that are numbers in the order of numbers."""
    return (int(text), "") if text.isdecimal() else (1 << 62, text)
