"""TFRecord files of tf.train.Example records: what is read, and what is wrong in them."""

from __future__ import annotations

import contextlib
import gzip
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from samples.files import example, load, pixels, written
from samples.trainings import run
from standins.case_runner import case, refused

from training import input_pipeline
from training.config import TrainConfig
from training.data import splits
from training.data.__main__ import main as data_command
from training.data.formats import tfrecord
from training.data.records import LARGEST, LENGTH, masked_crc
from training.data.uri import DataSource

NUMBERS: dict[str, Any] = {"input_feature": "x", "label_feature": "y"}


def picture(number: int) -> bytes:
    """An image whose size and brightness stand for its number; every second one is a PNG."""
    array = np.full((16 + number, 20, 3), number * 4, np.uint8)
    file: bytes = (tf.io.encode_png if number % 2 else tf.io.encode_jpeg)(array).numpy()
    return file


def images(numbers: Iterable[int]) -> list[bytes]:
    return [
        example(image__encoded=picture(n), image__class__label=[n % 3], image__height=[16 + n])
        for n in numbers
    ]


def tables(numbers: Iterable[int], width: int = 4) -> list[bytes]:
    return [example(x=[n + 0.5] * width, y=[n % 2], name=b"a") for n in numbers]


def read_all(samples: Any, size: int) -> list[tuple[int, int]]:
    """(input, label) of all samples as an epoch of `size` replicas gives them; an image's
    brightness is its number."""
    config = TrainConfig(shift=0)
    plan = input_pipeline.plan_for(samples, config, replicas=size, global_batch=8, training=True)
    seen = []
    for replica in range(size):
        feed = iter(input_pipeline.batches(samples, plan, config, [replica]))
        for _ in range(plan.steps):
            inputs, labels, weights, _ = next(feed)
            rows = zip(inputs.numpy(), labels.numpy(), weights.numpy(), strict=True)
            seen += [(round(float(x.mean()) * 255 / 4), int(y)) for x, y, w in rows if w]
    return sorted(seen)


@case
def images_of_the_tools_of_tensorflow_models_are_read_once_each(folder: Path) -> None:
    for name, numbers in (("train-00000-of-00002", range(13)), ("train-00001-of-00002", (13, 14))):
        written(folder / name, images(numbers))
    written(folder / "train-00002-of-00003", [])
    written(folder / "validation-00000-of-00001", images(range(20, 23)))
    loaded = load("tfrecord", folder, image_size=16)
    assert loaded.inputs.shape == (16, 16, 3) and loaded.classes == 3 and loaded.test is None
    for size in (1, 2):
        assert read_all(loaded.train, size) == [(n, n % 3) for n in range(15)]
    assert read_all(loaded.validation, 1) == [(n, n % 3) for n in (20, 21, 22)]


@case
def a_compressed_file_gives_the_same_samples(folder: Path) -> None:
    written(folder / "plain/a.tfrecord", images(range(9)))
    written(folder / "gzip/a.tfrecord.gz", images(range(5)), "GZIP")
    written(folder / "gzip/b.tfrecords", images(range(5, 9)))
    plain, packed = (
        splits.read(tfrecord, DataSource(str(folder / name)), TrainConfig(image_size=16), print)[
            "train"
        ]
        for name in ("plain", "gzip")
    )
    assert plain.digest() == packed.digest() and len(packed) == 9
    parts = [samples.subset([1, 4, 7]) for samples in (plain, packed)]
    assert read_all(parts[0], 1) == read_all(parts[1], 1) == [(1, 1), (4, 1), (7, 1)]


@case
def lists_of_numbers_are_inputs_too(folder: Path) -> None:
    written(folder / "train/a.tfrecord-00000-of-00001", tables(range(70)))
    written(folder / "test/a.tfrecord-00000-of-00001", tables([7]))
    loaded = load("tfrecord", folder, **NUMBERS)
    assert loaded.inputs.shape == (4,) and len(loaded.train) + len(loaded.validation) == 70
    assert loaded.test.values.tolist() == [[7.5] * 4] and loaded.test.labels.tolist() == [1]
    written(folder / "r.tfrec", [example(x=[n, 1], y=[n / 2]) for n in range(9)])
    loaded = load("tfrecord", folder / "r.tfrec", task="regression", **NUMBERS)
    assert loaded.inputs.shape == (2,) and max(loaded.train.labels) <= 4


@case
def a_training_learns_from_tfrecord_files(folder: Path) -> None:
    noise = pixels(60, 12, 12, 3) // 4
    red_or_blue = [
        noise[n] + np.array([190, 0, 0] if n % 2 else [0, 0, 190], np.uint8) for n in range(60)
    ]
    records = [
        example(image__encoded=tf.io.encode_png(image).numpy(), image__class__label=[n % 2])
        for n, image in enumerate(red_or_blue)
    ]
    written(folder / "d/a.tfrecord", records)
    settings: dict[str, Any] = dict(data="tfrecord", data_folders={"train": folder / "d"})
    outcome = run(folder / "r", image_size=8, epochs=4, mirrored=True, **settings)
    assert outcome.evaluation["accuracy"] == 1 and outcome.evaluation["samples"] == 6


@case
def tfrecord_files_are_sharded_as_they_are(folder: Path) -> None:
    written(folder / "source/train-00000-of-00001", images(range(20)))
    arguments = ["--shards", "3", "--data", "tfrecord"]
    assert data_command(["shard", str(folder / "source"), str(folder / "a"), *arguments]) == 0
    loaded = splits.read(tfrecord, DataSource(str(folder / "a")), TrainConfig(image_size=16), print)
    assert read_all(loaded["train"], 1) == [(n, n % 3) for n in range(20)]
    written(folder / "t/a.tfrecords", tables(range(20)))
    arguments += ["--set", "input_feature=x", "--set", "label_feature=y"]
    assert data_command(["shard", str(folder / "t"), str(folder / "b"), *arguments]) == 0
    assert load("tfrecord", folder / "b").inputs.shape == (4,)
    with contextlib.redirect_stderr(io.StringIO()) as out:
        wrong = ["shard", str(folder / "t"), str(folder / "c"), "--data", "tfrecord"]
        assert data_command([*wrong, "--split", "train"]) == 1
    assert "its features: name (bytes), x (4 float), y (int64)" in out.getvalue().lower()
    assert not (folder / "c").exists()


@case
def features_that_do_not_fit_are_named_with_those_that_are_there(folder: Path) -> None:
    path = written(folder / "a.tfrecord", tables(range(3)))
    have = "Its features: name (bytes), x (4 float), y (int64)"
    with refused(f"{path} record 1 has no feature 'image/encoded': --set input_feature=NAME", have):
        load("tfrecord", folder)
    with refused(f"{path} record 1 has no feature 'image/class/label'", "label_feature=NAME", have):
        load("tfrecord", folder, input_feature="x")
    with refused("record 1: the label must be one int64 or float, but 'x' is 4 float", have):
        load("tfrecord", folder, input_feature="x", label_feature="x")
    with refused("record 1: the label must be one int64 or float, but 'name' is bytes", have):
        load("tfrecord", folder, input_feature="x", label_feature="name")
    written(path, [b"no Example"])
    with refused(f"{path} record 1 is not a tf.train.Example"):
        load("tfrecord", folder)
    written(path, [example(x=[]), *tables([1])])
    with refused(f"{path} record 1 has no feature 'x'", "Its features: none"):
        load("tfrecord", folder, **NUMBERS)


@case
def a_record_unlike_the_first_is_named(folder: Path) -> None:
    written(folder / "a.tfrecord", tables(range(3)))
    path = written(folder / "b.tfrecord", [*tables(range(70)), *tables([0], width=5)])
    with refused(f"{path} record 71 has 5 float as input", "the first record has 4 float as input"):
        load("tfrecord", folder, **NUMBERS)
    written(path, [*tables(range(3)), example(x=[0.5] * 4)])
    with refused(f"{path} record 4 has no feature 'y'", "Its features: x (4 float)"):
        load("tfrecord", folder, **NUMBERS)
    written(path, [*tables(range(3)), example(x=[1, 2, 3, 4], y=[0])])
    with refused(f"{path} record 4 has 4 int64 as input"):
        load("tfrecord", folder, **NUMBERS)
    written(path, [*images(range(3)), example(image__encoded=b"none", image__class__label=[0])])
    (folder / "a.tfrecord").unlink()
    loaded = load("tfrecord", folder, held_out=0.5)
    faults = {loaded.train.find_fault(), loaded.validation.find_fault()}
    assert faults == {"", f"{path} record 4 is not an image that can be read"}


@case
def damaged_tfrecord_files_are_named(folder: Path) -> None:
    path = written(folder / "a.tfrecord", tables(range(100)))
    content = path.read_bytes()
    frame = len(content) // 100
    for damaged in (content[:-3], content[: -frame - 3]):
        path.write_bytes(damaged)
        number = len(damaged) // frame
        with refused(f"{path} is truncated or damaged after record {number}: "):
            load("tfrecord", folder, **NUMBERS)
    altered = bytearray(content)
    altered[80 * frame + 20] ^= 1
    path.write_bytes(altered)
    with refused(f"{path} is truncated or damaged after record 80: "):
        load("tfrecord", folder, **NUMBERS)
    written(path, tables(range(100)), "GZIP")
    path.write_bytes(path.read_bytes()[:-30])
    with refused(f"{path} is truncated or damaged"):
        load("tfrecord", folder, **NUMBERS)
    path.write_bytes(b"a,b\n1,2\n" * 10)
    with refused(f"{path} is not a TFRecord file, plain, gzip or zlib"):
        load("tfrecord", folder)
    path.write_bytes(b"")
    with refused("a.tfrecord has no record"):
        load("tfrecord", folder)


@case
def a_later_record_that_is_no_example_is_named(folder: Path) -> None:
    path = written(folder / "a.tfrecord", [*tables(range(70)), b"\xff\xff"])
    with refused(f"{path} record 71 is not a tf.train.Example"):
        load("tfrecord", folder, **NUMBERS)


@case
def a_length_that_the_file_does_not_have_is_refused_before_tensorflow_reads(folder: Path) -> None:
    path = written(folder / "a.tfrecord", tables(range(70)))
    good = path.read_bytes()
    for begin, where in ((b"", "in its first record"), (good, "after record 70")):
        for length in (30 << 30, 1 << 40, 1 << 62, (1 << 64) - 1):
            header = LENGTH.pack(length)
            header += masked_crc(header).to_bytes(4, "little")
            content = begin + header + bytes(90)
            numbers = f"{path} is truncated or damaged {where}: the record needs {length + 4} bytes"
            for file in (content, gzip.compress(content)):
                path.write_bytes(file)
                with refused(numbers, "but the file has 90 more"):
                    load("tfrecord", folder, **NUMBERS)


@case
def a_record_above_the_largest_is_refused_though_the_file_has_it(folder: Path) -> None:
    header = LENGTH.pack(LARGEST + 1)
    path = folder / "a.tfrecord"
    path.write_bytes(header + masked_crc(header).to_bytes(4, "little"))
    with path.open("r+b") as file:
        file.truncate(LARGEST + 100)  # takes no place on the disk
    with refused(f"the record has {LARGEST + 1} bytes, but the largest that is read has {LARGEST}"):
        load("tfrecord", folder, **NUMBERS)


@case
def the_name_of_a_file_counts_before_its_folders(folder: Path) -> None:
    written(folder / "my_test_set/train-00000-of-00001", tables(range(20)))
    written(folder / "my_test_set/more.tfrecord", tables(range(3)))
    loaded = load("tfrecord", folder, **NUMBERS)
    assert len(loaded.train) + len(loaded.validation) == 20 and len(loaded.test) == 3


@case
def tfrecord_files_of_unclear_splits_are_refused(folder: Path) -> None:
    (folder / "none").mkdir()
    with refused("none has no TFRecord file (*.tfrecord, "):
        load("tfrecord", folder / "none")
    more = written(folder / "a/more.tfrecord", tables(range(3)))
    written(folder / "a/mnist_test.tfrecord", tables(range(3)))
    with refused(f"{more} is of no split, but other files are of test"):
        load("tfrecord", folder / "a")
    more.rename(folder / "a/val-1.tfrecord")
    with refused("a has no train: it has test, validation"):
        load("tfrecord", folder / "a", **NUMBERS)
    written(folder / "b/x.tfrecord", tables(range(9)))
    sources = {"train": DataSource(str(folder / "b")), "validation": DataSource(str(folder / "a"))}
    loaded = splits.load(TrainConfig(data="tfrecord", **NUMBERS), sources)
    assert (len(loaded.train), len(loaded.validation)) == (9, 3)
    (folder / "a/val-1.tfrecord").unlink()
    with refused("a has no validation: it has test"):
        splits.load(TrainConfig(data="tfrecord", **NUMBERS), sources)


@case
def bytes_that_are_pixels_need_their_shape(folder: Path) -> None:
    raw = pixels(6, 4, 3)
    records = [example(raw=image.tobytes(), y=[n % 2]) for n, image in enumerate(raw)]
    path = written(folder / "a.tfrecord", records, "ZLIB")
    settings: dict[str, Any] = dict(input_feature="raw", label_feature="y")
    with refused(f"{path} record 1: 'raw' has 12 bytes that are no image: --set input_shape="):
        load("tfrecord", folder, **settings)
    loaded = load("tfrecord", folder, input_shape="4,3,1", **settings)
    values = np.concatenate([loaded.train.values, loaded.validation.values])
    assert values.dtype == np.uint8 and values.shape == (6, 4, 3, 1)
    assert sorted(map(bytes, values)) == sorted(map(bytes, raw))
    with refused(f"{path} record 1 has 12 bytes, not the 16 of input_shape=4,4"):
        load("tfrecord", folder, input_shape="4,4", **settings)
    lists = [example(x=[n, 2, 3, 4], y=[n % 2]) for n in range(6)]
    written(path, lists)
    shaped = load("tfrecord", folder, input_feature="x", label_feature="y", input_shape="2,2")
    assert shaped.inputs.shape == (2, 2) and shaped.train.values.dtype == np.float32


@case
def a_sequence_example_is_refused_by_its_name(folder: Path) -> None:
    record = tf.train.SequenceExample()
    record.feature_lists.feature_list["frames"].feature.add().int64_list.value.append(1)
    path = written(folder / "a.tfrecord", [record.SerializeToString()])
    with refused(f"{path} record 1 is a tf.train.SequenceExample with the lists frames"):
        load("tfrecord", folder)


@case
def a_damaged_zlib_file_is_refused(folder: Path) -> None:
    path = written(folder / "a.tfrecord", [example(x=[n], y=[0]) for n in range(50)], "ZLIB")
    path.write_bytes(path.read_bytes()[:-20])
    with refused(f"{path} is truncated or damaged in its first record"):
        load("tfrecord", folder, input_feature="x", label_feature="y")
