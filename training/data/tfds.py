"""TFRecord files of TensorFlow Datasets (4.9.10): what the files beside them say.

~/tensorflow_datasets/flowers/1.0.0/dataset_info.json, features.json, flowers-train.tfrecord-...
                              1.1.0/...
                              incomplete.H4BKJH_1.1.0/...   of a build that was interrupted
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from . import DataError

INFO, FEATURES = "dataset_info.json", "features.json"
INCOMPLETE = re.compile(r"(^|/)incomplete\.\w+_[^/]*/")
PIXELS = ("uint8", "uint16")


def refuse_versions(records: Iterable[str], names: Iterable[str], where: str) -> None:
    """DataError if files with records are of several versions or configurations of one data
    set: together they would have its samples twice. `names` are those of all files."""
    complete = {folder for folder, _, file in map(split, names) if file == INFO}
    first: dict[str, str] = {}
    for folder, _, file in map(split, records):
        stem = file.partition(".")[0]  # flowers-train
        if folder in complete and first.setdefault(stem, folder) != folder:
            raise DataError(
                f"{where} has {stem} twice, in {first[stem]} and in {folder}: versions or "
                "configurations of one data set of TensorFlow Datasets. Name one of these folders"
            )


def refuse_encoded(features: bytes, feature: str, where: str) -> None:
    """DataError if the bytes of a feature are neither pixels of one byte nor a picture that
    every reader knows. `features` is the content of a file FEATURES."""
    try:
        kinds = kinds_of(json.loads(features), feature.split("/"))
    except (ValueError, RecursionError):
        return
    image, tensor = mapping(kinds, "image"), mapping(kinds, "tensor")
    if image and (dtype := image.get("dtype", "uint8")) not in PIXELS:
        stored = f"PNG files in which each four bytes are one pixel of {dtype}"
    elif tensor.get("encoding", "none") != "none" and (dtype := tensor.get("dtype")) != "uint8":
        stored = f"the bytes of numbers of {dtype}"
    else:
        return
    raise DataError(
        f"{where}: {feature!r} is {stored}, says {FEATURES}, and only pixels of uint8 and uint16 "
        "are read: --script with tensorflow_datasets, or write the numbers as a list of floats"
    )


def kinds_of(value: Any, path: list[str]) -> dict[str, Any]:
    """The description of a feature in those of a data set; empty if there is none."""
    for name in path:
        value = mapping(mapping(mapping(value, "featuresDict"), "features"), name)
    return mapping({"": value}, "")


def mapping(value: Any, key: str) -> dict[str, Any]:
    """The object of a key; empty if there is none."""
    inner = value.get(key) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else {}


def split(name: str) -> tuple[str, str, str]:
    """The folder of a path, a slash, and the name in it."""
    return name.rpartition("/")
