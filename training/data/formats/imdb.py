"""IMDb reviews: Keras's imdb.npz (word numbers), or folders of texts train/pos, train/neg, test/...

A text becomes `text_length` word numbers, filled up with 0. Words of texts get their numbers by a
hash, so there is no vocabulary to build or to ship.
"""

from __future__ import annotations

import pickle
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from training.config import TrainConfig
from training.data import DataError
from training.data.arrays import Arrays

CLASSES = ("neg", "pos")
WORD = re.compile(r"[a-z0-9']+")
# What a pickle of an array of lists is made of. Anything else could run code.
HARMLESS = {("numpy", name) for name in ("_reconstruct", "ndarray", "dtype")}
HARMLESS |= {("_codecs", "encode")}  # bytes in old pickles


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The reviews of a folder, by its layout."""
    file = folder if folder.is_file() else folder / "imdb.npz"
    if file.is_file():
        return from_archive(file, config)
    if (folder / "train").is_dir():
        names = [name for name in ("train", "test") if (folder / name).is_dir()]
        return {name: from_texts(folder / name, config) for name in names}
    return {"train": from_texts(folder, config)}


def fetch(config: TrainConfig) -> dict[str, Any]:
    """imdb.npz from where Keras has it."""
    from training.data.formats.download import fetched

    (texts, labels), (test_texts, test_labels) = fetched("imdb", num_words=config.vocabulary)
    return {
        "train": reviews(texts, labels, config, "imdb"),
        "test": reviews(test_texts, test_labels, config, "imdb"),
    }


def from_archive(file: Path, config: TrainConfig) -> dict[str, Any]:
    """x_train, y_train, x_test, y_test."""
    try:
        with zipfile.ZipFile(file) as archive:
            arrays = {name: member(archive, name) for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile, ValueError, pickle.UnpicklingError, EOFError) as error:
        raise DataError(f"{file} cannot be read: {error}") from None
    splits = {}
    for name in ("train", "test"):
        if {f"x_{name}.npy", f"y_{name}.npy"} <= arrays.keys():
            texts, labels = arrays[f"x_{name}.npy"], arrays[f"y_{name}.npy"]
            splits[name] = reviews(texts, labels, config, str(file))
    if "train" not in splits:
        raise DataError(f"{file} has no x_train and y_train")
    return splits


class Harmless(pickle.Unpickler):
    """Arrays of lists of numbers, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module.partition(".")[0], name) not in HARMLESS:
            raise pickle.UnpicklingError(f"it holds {module}.{name}")
        return super().find_class(module, name)


def member(archive: zipfile.ZipFile, name: str) -> Any:
    """One array of an .npz file; an array of lists is pickled."""
    with archive.open(name) as file:
        version = np.lib.format.read_magic(file)
        read_header = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        _, _, kind = read_header(file)
        if kind.hasobject:
            return Harmless(file).load()
    with archive.open(name) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def from_texts(folder: Path, config: TrainConfig) -> Arrays:
    """neg/*.txt and pos/*.txt."""
    texts: list[list[int]] = []
    labels: list[int] = []
    for label, name in enumerate(CLASSES):
        files = sorted((folder / name).glob("*.txt")) if folder.is_dir() else []
        if not files:
            raise DataError(f"{folder / name} has no .txt file")
        texts += [words(file.read_text("utf-8", errors="replace"), config) for file in files]
        labels += [label] * len(files)
    return reviews(texts, labels, config, str(folder))


def words(text: str, config: TrainConfig) -> list[int]:
    """Numbers from 1 to vocabulary - 1, the same on every machine."""
    found = WORD.findall(text.lower())[: config.text_length]
    return [1 + zlib.crc32(word.encode()) % (config.vocabulary - 1) for word in found]


def reviews(texts: Iterable[Any], labels: Any, config: TrainConfig, source: str) -> Arrays:
    """Word numbers int64 [samples, text_length]; numbers beyond the vocabulary become Keras's 2."""
    rows = list(texts)
    table = np.zeros((len(rows), config.text_length), np.int64)
    for row, text in zip(table, rows, strict=True):
        kept = np.asarray(list(text)[: config.text_length], np.int64)
        row[: len(kept)] = np.where((kept < 0) | (kept >= config.vocabulary), 2, kept)
    numbers = np.asarray(labels, np.int64)
    return Arrays(table, numbers, CLASSES, config.vocabulary, source)
