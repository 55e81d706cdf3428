"""A folder of images per class (JPEG, PNG, BMP, GIF), also in `train/`, `validation/`, `test/`; or
`train.csv` (`image_id`, `label`) beside `train_images/`.

FOLDER/CLASS/*.jpg                          labels are the names of the folders, sorted
FOLDER/train/CLASS/*.jpg, validation/, test/
FOLDER/train.csv + FOLDER/train_images/     columns image_id and label (or images/, train/)
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from ...config import TrainConfig
from .. import DataError, Inputs
from ..arrays import check_labels
from .columns import is_missing_label
from .decoding import ENDINGS, decode, image_fault
from .folders import not_used, read_splits, read_text
from .labels import numbered

IMAGE_FOLDERS = ("images", "train_images", "train")
ID_COLUMNS = ("image_id", "id", "image", "filename", "file")


class Contents(Protocol):
    """Encoded images: where their bytes are."""

    def __len__(self) -> int: ...

    def subset(self, numbers: Any) -> Contents:
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

    def subset(self, numbers: Any) -> Files:
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
    turn: bool = True  # as their EXIF orientation says

    def __len__(self) -> int:
        return len(self.contents)

    @property
    def inputs(self) -> Inputs:
        return Inputs((self.pixels, self.pixels, 3))

    def to_measure(self, most: int) -> tuple[Any, Any]:
        return None, self.labels

    def subset(self, numbers: Any) -> EncodedImages:
        return replace(self, contents=self.contents.subset(numbers), labels=self.labels[numbers])

    def renumbered(self, numbers: Sequence[int], classes: tuple[str, ...]) -> EncodedImages:
        return replace(self, labels=np.array(numbers)[self.labels], classes=classes)

    def check(self, task: Any) -> int:
        return check_labels(self.labels, self.classes, task, self.source)

    def reader(self) -> Callable[[Any], tuple[Any, Any]]:
        with tf.device("cpu"):
            labels = tf.constant(self.labels)
        read = self.contents.reader()
        pixels = partial(decode, size=self.pixels, turn=self.turn)
        return lambda numbers: (pixels(read(numbers)), tf.gather(labels, numbers))

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


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """All images of a folder, by its layout."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder of images")
    if (folder / "train.csv").is_file() and (images := images_of_table(folder)):
        return {"train": from_table(folder, images, config)}
    return read_splits(folder, lambda split: by_class(split, config))


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
    return EncodedImages(
        files,
        numbers,
        tuple(classes),
        config.image_size,
        str(folder),
        ignored,
        turn=config.exif == "on",
    )


def images_in(folder: Path) -> tuple[list[Path], list[Path]]:
    """The images of a folder and of folders below it, also linked ones, sorted; and its other
    files."""
    images: list[Path] = []
    others: list[Path] = []
    for path in sorted(files_below(folder)):
        hidden = any(name.startswith(".") for name in path.relative_to(folder).parts)
        if path.suffix.lower() in ENDINGS and not hidden:
            images.append(path)  # also a dangling link: a message will name it
        elif path.is_file():
            others.append(path)
    return images, others


def files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder; a folder that is linked into itself counts once."""
    seen: set[str] = set()
    for place, inner, names in os.walk(folder, followlinks=True):
        seen.add(os.path.realpath(place))
        inner[:] = [name for name in inner if os.path.realpath(Path(place, name)) not in seen]
        yield from (Path(place, name) for name in names)


def is_class(item: Path) -> bool:
    """Hidden folders are not classes."""
    return item.is_dir() and not item.name.startswith(".")


def images_of_table(folder: Path) -> Path | None:
    """The folder of images that train.csv names; None if there are folders of classes."""
    for folder_of_images in (folder / name for name in IMAGE_FOLDERS):
        if folder_of_images.is_dir() and any(item.is_file() for item in folder_of_images.iterdir()):
            return folder_of_images
    if any(images_in(item)[0] for item in folder.iterdir() if is_class(item)):
        return None
    names = f"{', '.join(IMAGE_FOLDERS[:-1])} or {IMAGE_FOLDERS[-1]}"
    raise DataError(f"{folder} has train.csv, but no folder {names} with images, nor of classes")


def from_table(folder: Path, images: Path, config: TrainConfig) -> EncodedImages:
    """Cassava's layout: train.csv names the files, with or without their ending, and gives their
    labels."""
    table = folder / "train.csv"
    rows = list(csv.DictReader(io.StringIO(read_text(table), newline="")))
    header = rows[0].keys() if rows else ()
    column = next((name for name in ID_COLUMNS if name in header), None)
    if column is None or config.label not in header:
        names = f"{config.label} (or --set label=COLUMN) and {ID_COLUMNS[0]}"
        have = f", and has {', '.join(header)}" if header else ""
        raise DataError(f"{table} needs the columns {names}, and rows{have}")
    by_stem: dict[str, list[Path]] = {}
    for path in images_in(images)[0]:
        by_stem.setdefault(path.relative_to(images).with_suffix("").as_posix(), []).append(path)
    paths = []
    for line, row in enumerate(rows, 2):
        name = row[column] or ""
        candidates = [images / name] if (images / name).is_file() else by_stem.get(name, [])
        if not candidates:
            raise DataError(f"{table} line {line}: {images / name} is missing")
        if len(candidates) > 1:
            several = ", ".join(path.name for path in candidates)
            raise DataError(f"{table} line {line}: {name} may be {several}: write its ending")
        if is_missing_label(row[config.label] or ""):
            raise DataError(f"{table} line {line}: the label is {row[config.label] or 'empty'}")
        paths.append(candidates[0])
    labels, classes = numbered([row[config.label] for row in rows])
    rest = (set(folder.iterdir()) - {table, images}) | (set(files_below(images)) - set(paths))
    return EncodedImages(
        Files(tuple(map(str, paths))),
        labels,
        classes,
        config.image_size,
        str(folder),
        not_used(rest, folder),
        turn=config.exif == "on",
    )
