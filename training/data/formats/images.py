"""Image files: one folder per class, or Cassava's train.csv beside a folder of images.

FOLDER/CLASS/*.jpg                          labels are the names of the folders, sorted
FOLDER/train/CLASS/*.jpg, validation/, test/
FOLDER/train.csv + FOLDER/train_images/     columns image_id and label (or images/)
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from training.config import TrainConfig
from training.data import SPLITS, DataError, Inputs
from training.data.arrays import check_labels

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif")
IMAGE_FOLDERS = ("images", "train_images")


class Contents(Protocol):
    """Encoded images: where their bytes are."""

    def __len__(self) -> int: ...

    def part(self, numbers: Any) -> Contents:
        """The images of these ascending numbers."""

    def size(self) -> int:
        """The bytes of all of them."""

    def name(self, number: int) -> str:
        """Where an image is, for a message."""

    def content(self, number: int) -> bytes:
        """The bytes of one image."""

    def reader(self) -> Callable[[Any], Any]:
        """A function of a graph, from numbers int64 [batch] to bytes string [batch]."""


@dataclass(frozen=True)
class Files:
    """Each image is a file."""

    paths: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.paths)

    def part(self, numbers: Any) -> Files:
        return Files(tuple(self.paths[number] for number in numbers))

    def size(self) -> int:
        return sum(Path(path).stat().st_size for path in self.paths)

    def name(self, number: int) -> str:
        return self.paths[number]

    def content(self, number: int) -> bytes:
        return Path(self.paths[number]).read_bytes()

    def reader(self) -> Callable[[Any], Any]:
        with tf.device("cpu"):
            paths = tf.constant(self.paths)
        return lambda numbers: tf.map_fn(
            tf.io.read_file, tf.gather(paths, numbers), parallel_iterations=16
        )


@dataclass(frozen=True)
class EncodedImages:
    """Images and labels; an image is decoded when it is needed, to RGB of `pixels` x `pixels`."""

    contents: Contents
    labels: Any
    classes: tuple[str, ...]
    pixels: int
    source: str

    def __len__(self) -> int:
        return len(self.contents)

    @property
    def inputs(self) -> Inputs:
        return Inputs((self.pixels, self.pixels, 3))

    def part(self, numbers: Any) -> EncodedImages:
        return replace(self, contents=self.contents.part(numbers), labels=self.labels[numbers])

    def check(self, task: Any) -> int:
        return check_labels(self.labels, self.classes, task, self.source)

    def reader(self) -> Callable[[Any], tuple[Any, Any]]:
        with tf.device("cpu"):
            labels = tf.constant(self.labels)
        read = self.contents.reader()
        return lambda numbers: (decode(read(numbers), self.pixels), tf.gather(labels, numbers))

    def digest(self) -> str:
        found = hashlib.sha256()
        for number, label in enumerate(self.labels):
            content = hashlib.sha256(self.contents.content(number)).hexdigest()
            found.update(f"{content} {label}\n".encode())
        return found.hexdigest()

    def find_fault(self) -> str:
        """Decode one image after the other until one fails."""
        for number in range(len(self)):
            try:
                content = self.contents.content(number)
                tf.io.decode_image(content, channels=3, expand_animations=False)
            except (tf.errors.OpError, ValueError, OSError):
                return f"{self.contents.name(number)} is not an image that can be read"
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


def by_class(folder: Path, config: TrainConfig) -> EncodedImages:
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
    files = Files(tuple(paths))
    return EncodedImages(files, numbers, tuple(classes), config.image_size, str(folder))


def is_class(item: Path) -> bool:
    """Hidden folders are no classes."""
    return item.is_dir() and not item.name.startswith(".")


def from_table(folder: Path, config: TrainConfig) -> EncodedImages:
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
    files = Files(tuple(str(images / row["image_id"]) for row in rows))
    return EncodedImages(files, labels, classes, config.image_size, str(folder))


def by_number(text: str) -> tuple[int, str]:
    """Labels that are numbers in the order of numbers."""
    return (int(text), "") if text.isdecimal() else (1 << 62, text)
