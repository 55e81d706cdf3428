"""Texts in `train/CLASS/*.txt`, optionally `validation/` and `test/`; or Keras's `imdb.npz`.

A text becomes `text_length` word numbers, filled up with 0. Words of texts get their numbers by a
hash, so there is no vocabulary to build or to upload.
"""

from __future__ import annotations

import pickle
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...config import TrainConfig
from .. import DataError
from ..arrays import Arrays
from .folders import not_used, read_splits, read_text

CLASSES = ("neg", "pos")
UNLABELLED = "unsup"  # of the IMDb reviews: texts without a label
# Scripts that put no spaces between words: Thai to Lao, Myanmar, Khmer, kana, Han.
UNSPACED: tuple[range, ...] = (
    range(0xE00, 0xF00),
    range(0x1000, 0x10A0),
    range(0x1780, 0x1800),
    range(0x3040, 0x3100),
    range(0x3400, 0xA000),
    range(0xF900, 0xFB00),
    range(0x20000, 0x40000),
)
# What a pickle of an array of lists may refer to. Anything else could run code.
HARMLESS = {("numpy", name) for name in ("_reconstruct", "ndarray", "dtype")}
HARMLESS |= {("_codecs", "encode")}  # bytes in old pickles


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The reviews of a folder, by its layout."""
    file = folder if folder.is_file() else folder / "imdb.npz"
    if file.is_file():
        return from_archive(file, config)
    return read_splits(folder, lambda split: from_texts(split, config))


def fetch(config: TrainConfig) -> dict[str, Any]:
    """imdb.npz from where Keras has it."""
    from .download import fetched

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
            texts, labels = arrays.pop(f"x_{name}.npy"), arrays.pop(f"y_{name}.npy")
            splits[name] = reviews(texts, labels, config, str(file))
    if "train" not in splits:
        raise DataError(f"{file} has no x_train and y_train")
    ignored = tuple(f"the array {name.removesuffix('.npy')} of {file.name}" for name in arrays)
    return {**splits, "train": replace(splits["train"], ignored=ignored)}


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
    """CLASS/*.txt; the classes are the names of the folders, sorted."""
    inside = list(folder.iterdir()) if folder.is_dir() else []
    names = [item.name for item in inside if item.is_dir() and not item.name.startswith(".")]
    classes = tuple(sorted(set(names) - {UNLABELLED}))
    if not classes:
        raise DataError(f"{folder} needs a folder of texts for each class, and has none")
    texts: list[list[int]] = []
    labels: list[int] = []
    rest = [item for item in inside if item.name not in names]
    for label, name in enumerate(classes):
        files = sorted((folder / name).glob("*.txt"))
        if not files:
            raise DataError(f"{folder / name} has no .txt file")
        texts += [words(read_text(file), config) for file in files]
        labels += [label] * len(files)
        rest += set((folder / name).iterdir()) - set(files)
    ignored = [f"the folder {UNLABELLED} (texts without a label)"] if UNLABELLED in names else []
    train = reviews(texts, labels, config, str(folder))
    return replace(train, classes=classes, ignored=(*not_used(rest, folder), *ignored))


class _Words(dict[int, str]):
    """For str.translate: letters, digits, marks and `'` stay, all else becomes a space. A
    character of a script without spaces becomes a separate word."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        stays = letter == "'" or unicodedata.category(letter)[0] in "LMN"
        unspaced = any(code in script for script in UNSPACED)
        self[code] = f" {letter} " if stays and unspaced else letter if stays else " "
        return self[code]


WORDS = _Words()


def words(text: str, config: TrainConfig) -> list[int]:
    """Numbers from 1 to vocabulary - 1, the same on every machine."""
    plain = unicodedata.normalize("NFC", text.lower())
    words = plain.translate(WORDS).split()[: config.text_length]
    return [1 + zlib.crc32(word.encode()) % (config.vocabulary - 1) for word in words]


def reviews(texts: Iterable[Any], labels: Any, config: TrainConfig, source: str) -> Arrays:
    """Word numbers int64 [samples, text_length]; numbers beyond the vocabulary become Keras's 2."""
    rows = list(texts)
    table = np.zeros((len(rows), config.text_length), np.int64)
    for row, text in zip(table, rows, strict=True):
        shortened = np.asarray(list(text)[: config.text_length], np.int64)
        row[: len(shortened)] = np.where(
            (shortened < 0) | (shortened >= config.vocabulary), 2, shortened
        )
    numbers = np.asarray(labels, np.int64)
    return Arrays(table, numbers, CLASSES, config.vocabulary, source)
