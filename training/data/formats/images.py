"""A folder of images per class (JPEG, PNG, BMP, GIF), also in `train/`, `validation/`, `test/`; or
`train.csv` (`image_id`, `label`) beside `train_images/`.

FOLDER/CLASS/*.jpg                          labels are the names of the folders, sorted
FOLDER/train/CLASS/*.jpg, validation/, test/
FOLDER/train.csv + FOLDER/train_images/     columns image_id and label (or images/)
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from ...config import TrainConfig
from .. import DataError, Inputs
from ..arrays import check_labels
from .folders import not_used, read_splits, read_text
from .labels import numbered

WEBP = hasattr(tf.io, "decode_webp")  # TensorFlow 2.21 has it, 2.18 has not
ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", *((".webp",) if WEBP else ()))
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
    ignored: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.contents)

    @property
    def inputs(self) -> Inputs:
        return Inputs((self.pixels, self.pixels, 3))

    def part(self, numbers: Any) -> EncodedImages:
        return replace(self, contents=self.contents.part(numbers), labels=self.labels[numbers])

    def renumbered(self, numbers: Sequence[int], classes: tuple[str, ...]) -> EncodedImages:
        return replace(self, labels=np.array(numbers)[self.labels], classes=classes)

    def check(self, task: Any) -> int:
        return check_labels(self.labels, self.classes, task, self.source)

    def reader(self) -> Callable[[Any], tuple[Any, Any]]:
        with tf.device("cpu"):
            labels = tf.constant(self.labels)
        read = self.contents.reader()
        return lambda numbers: (decode(read(numbers), self.pixels), tf.gather(labels, numbers))

    def digest(self) -> str:
        digest = hashlib.sha256()
        for number, label in enumerate(self.labels):
            content = hashlib.sha256(self.contents.content(number)).hexdigest()
            digest.update(f"{content} {label}\n".encode())
        return digest.hexdigest()

    def find_fault(self) -> str:
        """Decode one image after the other until one fails."""
        for number in range(len(self)):
            name = self.contents.name(number)
            try:
                content = self.contents.content(number)
            except OSError as error:
                return f"{name} cannot be read: {error.strerror}"
            if fault := image_fault(content):
                return f"{name} {fault}"
        return ""


def image_fault(content: bytes) -> str:
    """Why an image cannot be decoded; empty where it can."""
    try:
        decoded(content)
    except (tf.errors.OpError, ValueError):
        webp = content[:4] == b"RIFF" and content[8:12] == b"WEBP" and not WEBP
        hint = f": it is WebP, which TensorFlow {tf.__version__} does not read" if webp else ""
        return f"is not an image that can be read{hint}"
    return ""


def decoded(file: Any) -> Any:
    """One encoded image as uint8 [height, width, 3]."""

    def other() -> Any:
        return tf.io.decode_image(file, channels=3, expand_animations=False)

    if not WEBP:
        return other()
    # decode_image refuses to make 3 channels of a WebP file with transparency.
    is_webp = tf.strings.substr(file, 8, 4) == "WEBP"
    return tf.cond(is_webp, lambda: tf.io.decode_webp(file)[..., :3], other)


def decode(files: Any, size: int) -> Any:
    """Encoded images, string [batch], to float32 [batch, size, size, 3] in 0..1."""

    def one(file: Any) -> Any:
        image = decoded(file)
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
    return read_splits(folder, lambda part: by_class(part, config))


def fetch(config: TrainConfig) -> dict[str, Any]:
    """Refused: images need a folder."""
    raise DataError("data=images needs a folder: --data train=FOLDER")


def by_class(folder: Path, config: TrainConfig) -> EncodedImages:
    """One folder per class, its name is the label."""
    classes = sorted(item.name for item in folder.iterdir() if is_class(item))
    if not classes:
        raise DataError(f"{folder} needs a folder of images for each class, and has none")
    paths: list[str] = []
    labels: list[int] = []
    rest = [item for item in folder.iterdir() if item.name not in classes]
    for label, name in enumerate(classes):
        images, others = images_in(folder / name)
        if not images:
            raise DataError(f"{folder / name} has no image ({', '.join(ENDINGS)})")
        paths += map(str, images)
        labels += [label] * len(images)
        rest += others
    numbers, files = np.array(labels, np.int64), Files(tuple(paths))
    ignored = not_used(rest, folder)
    return EncodedImages(files, numbers, tuple(classes), config.image_size, str(folder), ignored)


def images_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """The images of a folder and of folders below it, sorted; and its other files."""
    images, others = [], []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix.lower() in ENDINGS and not hidden:
            images.append(path)
        elif path.is_file():
            others.append(path)
    return images, others


def is_class(item: Path) -> bool:
    """Hidden folders are not classes."""
    return item.is_dir() and not item.name.startswith(".")


def from_table(folder: Path, config: TrainConfig) -> EncodedImages:
    """Cassava's layout: train.csv names the files and gives their labels."""
    images = next((folder / name for name in IMAGE_FOLDERS if (folder / name).is_dir()), None)
    if images is None:
        raise DataError(f"{folder} has train.csv, but no folder {' or '.join(IMAGE_FOLDERS)}")
    table = folder / "train.csv"
    rows = list(csv.DictReader(io.StringIO(read_text(table), newline="")))
    if not rows or not {"image_id", "label"} <= rows[0].keys():
        raise DataError(f"{table} needs the columns image_id and label, and rows")
    for line, row in enumerate(rows, 2):
        if not (images / (row["image_id"] or "")).is_file():
            raise DataError(f"{table} line {line}: {images / (row['image_id'] or '')} is missing")
        if not (row["label"] or "").strip():
            raise DataError(f"{table} line {line}: the label is empty")
    labels, classes = numbered([row["label"] for row in rows])
    paths = [images / row["image_id"] for row in rows]
    rest = (set(folder.iterdir()) - {table, images}) | (set(images.rglob("*")) - set(paths))
    return EncodedImages(
        Files(tuple(map(str, paths))),
        labels,
        classes,
        config.image_size,
        str(folder),
        not_used(rest, folder),
    )
