"""TFRecord files as TensorFlow Datasets 4.9.10 writes them, with the files beside them.

The names and the content of features.json are what its builders wrote. Image(dtype=float32) is a
PNG of four channels there (core/features/image_feature.py), and an interrupted build leaves
incomplete.XXXXXX_1.0.0 (core/utils/file_utils.py).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from samples.files import example, load, written
from standins.case_runner import case, refused

from training.config import TrainConfig
from training.data.shards import index

NAMES: dict[str, Any] = {"input_feature": "image", "label_feature": "label"}
IMAGE = {"pythonClassName": "tensorflow_datasets.core.features.image_feature.Image"}
TENSOR = {"pythonClassName": "tensorflow_datasets.core.features.tensor_feature.Tensor"}


def picture(number: int, channels: int = 3) -> bytes:
    array = np.full((16, 16, channels), number * 4, np.uint8)
    file: bytes = tf.io.encode_png(array).numpy()
    return file


def build(folder: Path, records: Iterable[bytes], split: str = "train", **image: Any) -> Path:
    """One version of a data set; `image` is the description of its feature."""
    written(folder / f"flowers-{split}.tfrecord-00000-of-00001", list(records))
    (folder / "dataset_info.json").write_text('{"name": "flowers"}')
    features = {"image": image or {**IMAGE, "image": {"dtype": "uint8"}}, "label": {}}
    (folder / "features.json").write_text(json.dumps({"featuresDict": {"features": features}}))
    return folder


def images(count: int = 12, channels: int = 3) -> list[bytes]:
    return [example(image=picture(n, channels), label=[n % 2]) for n in range(count)]


@case
def two_versions_of_a_data_set_are_not_one(folder: Path) -> None:
    build(folder / "1.0.0", images())
    assert len(load("tfrecord", folder, image_size=16, **NAMES).train) == 11
    build(folder / "1.1.0", images())
    build(folder / "1.1.0", images(4), "test")
    with refused("flowers-train twice, in 1.0.0 and in 1.1.0", "Name one of these folders"):
        load("tfrecord", folder, **NAMES)
    with refused("flowers-train twice, in 1.0.0 and in 1.1.0"):
        index.index(str(folder), str(folder / "to"), "train", TrainConfig(**NAMES), print)
    data = load("tfrecord", folder / "1.1.0", image_size=16, **NAMES)
    assert len(data.test) == 4


@case
def two_data_sets_and_folders_of_other_tools_are_read_together(folder: Path) -> None:
    build(folder / "flowers/1.0.0", images())
    written(folder / "more/flowers-train.tfrecord-00000-of-00001", images())
    build(folder / "trees/1.0.0", images()).joinpath(
        "flowers-train.tfrecord-00000-of-00001"
    ).rename(folder / "trees/1.0.0/trees-train.tfrecord-00000-of-00001")
    assert len(load("tfrecord", folder, image_size=16, held_out=0.5, **NAMES).train) == 18


@case
def what_an_interrupted_build_left_is_not_read(folder: Path) -> None:
    written(folder / "incomplete.H4BKJH_1.0.0/flowers-train.tfrecord-00000-of-00001", images(5))
    with refused("has no TFRecord file"):
        load("tfrecord", folder, **NAMES)
    build(folder / "1.0.0", images())
    data = load("tfrecord", folder, image_size=16, **NAMES)
    assert len(data.train) + len(data.validation) == 12
    assert any("3 files" in text for text in data.train.ignored)


@case
def numbers_that_are_stored_as_pictures_or_bytes_are_no_pixels(folder: Path) -> None:
    depth = build(folder / "a", images(channels=4), **IMAGE, image={"dtype": "float32"})
    with refused("each four bytes are one pixel of float32", "features.json"):
        load("tfrecord", depth, **NAMES)
    with refused("each four bytes are one pixel of float32"):
        index.index(str(folder), None, "train", TrainConfig(**NAMES), print)
    build(folder / "a", images())
    build(folder / "depth", images(channels=4), "test", **IMAGE, image={"dtype": "float32"})
    indexed = index.index(str(folder), str(folder / "to"), "train", TrainConfig(**NAMES), print)
    assert indexed.records == 12, "the folder with the other split decides nothing"
    shutil.rmtree(folder / "depth")
    numbers = [example(image=b"\xff\xfe\xfd\xfc", label=[n % 2]) for n in range(9)]
    single = build(folder / "b", numbers, **TENSOR, tensor={"dtype": "int8", "encoding": "bytes"})
    with refused("the bytes of numbers of int8"):
        load("tfrecord", single, input_shape="4", **NAMES)
    two = build(folder / "c", numbers, **TENSOR, tensor={"dtype": "uint8", "encoding": "bytes"})
    assert load("tfrecord", two, input_shape="4", **NAMES).train.inputs.shape == (4,)
    deep = build(folder / "d", images(), **IMAGE, image={"dtype": "uint16"})
    assert load("tfrecord", deep, image_size=16, **NAMES).train.inputs.shape == (16, 16, 3)


@case
def a_description_that_is_not_understood_refuses_nothing(folder: Path) -> None:
    for number, text in enumerate(("{", "[]", '{"featuresDict": []}', '{"featuresDict": null}')):
        place = build(folder / str(number), images())
        (place / "features.json").write_text(text)
        assert load("tfrecord", place, image_size=16, **NAMES).classes == 2


@case
def a_test_split_without_labels_is_refused_with_the_rule(folder: Path) -> None:
    """TensorFlow Datasets writes a label that is not known as -1."""
    build(folder, images())
    build(folder, [example(image=picture(1), label=[-1])] * 3, "test")
    with refused(
        "flowers-test", "labels from -1 to -1: classification needs whole labels from 0 on"
    ):
        load("tfrecord", folder, image_size=16, **NAMES)
