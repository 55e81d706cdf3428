"""Indexes of TFRecord files that others wrote: read as shards, without a copy."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from samples.files import example, written
from standins.case_runner import case, refused, replaced

from railhead.documents.names import MANIFEST
from training import input_pipeline
from training.config import TrainConfig
from training.data import splits
from training.data.__main__ import main as data_command
from training.data.formats import tfrecord
from training.data.shards import index, manifest
from training.data.store import Folder
from training.data.uri import DataSource

NUMBERS: dict[str, Any] = {"input_feature": "x", "label_feature": "y"}
SET = ("--set", "input_feature=x", "--set", "label_feature=y")


def command(*words: str) -> tuple[int, str]:
    """`python -m training.data`: its exit code, and what it says."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        code = data_command([str(word) for word in words])
    return code, printed.getvalue()


def indexed(folder: Path, *words: str) -> str:
    code, printed = command("index", str(folder), *words)
    assert code == 0, printed
    return printed


def tables(numbers: Iterable[int]) -> list[bytes]:
    return [example(x=[n + 0.5, n], y=[n % 3], name=b"a") for n in numbers]


def files(folder: Path, size: int = 40) -> Path:
    """Three files of uneven lengths, as Beam names them; one of no split, one that is not read."""
    for number, numbers in enumerate((range(size // 4), range(size // 4, size - 1), [size - 1])):
        written(folder / f"part-{number:05d}-of-00003", tables(numbers))
    (folder / "features.json").write_text("{}")
    return folder


def epoch(samples: Any, size: int, epochs: int = 1) -> list[float]:
    """The first value of each sample that `size` replicas read."""
    config = TrainConfig(shuffle_window=4, seed=5)
    plan = input_pipeline.plan_for(samples, config, replicas=size, global_batch=24, training=True)
    seen: list[float] = []
    for replica in range(size):
        feed = iter(input_pipeline.batches(samples, plan, config, [replica]))
        for _ in range(plan.steps * epochs):
            inputs, labels, weights, _ = next(feed)
            rows = zip(inputs.numpy(), labels.numpy(), weights.numpy(), strict=True)
            kept = [(x, int(y)) for x, y, weight in rows if weight]
            assert all(int(x[1]) % 3 == y for x, y in kept)
            seen += [float(x[0]) for x, _ in kept]
    return sorted(seen)


def train_of(folder: Path, mode: str = "file", **settings: Any) -> Any:
    config = TrainConfig(data="tfrecord", **{**NUMBERS, **settings})
    return splits.read(tfrecord, DataSource(str(folder), mode), config, print)["train"]


@case
def each_record_is_read_once_by_any_number_of_replicas_in_both_modes(folder: Path) -> None:
    printed = indexed(files(folder), *SET)
    assert printed.splitlines()[-1].startswith(f"{folder}: 40 records in 3 shards, ")
    for mode, size in (("file", 1), ("stream", 2), ("file", 3)):
        assert epoch(train_of(folder, mode), size) == [n + 0.5 for n in range(40)]
    assert command("verify", str(folder))[0] == 0
    schema = manifest.load(Folder(folder)).schema
    assert (schema.lowest_label, schema.highest_label) == (0, 2), "of all files, not of the last"


@case
def a_record_that_is_too_long_is_named_wherever_it_is(folder: Path) -> None:
    records = tables(range(3))
    written(
        folder / "part-00000-of-00001", [*records, example(x=[1.0, 2.0], y=[1], name=b"a" * 500)]
    )
    with replaced(index, LARGEST=400):
        code, printed = command("index", str(folder), *SET)
    assert code == 1 and "has a record of 5" in printed and "more than 400" in printed


@case
def the_files_stay_as_they_are(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in files(folder).iterdir()}
    indexed(folder, *SET)
    after = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert before.items() < after.items()
    added = {path.name for path in after.keys() - before.keys()}
    assert MANIFEST in added and len(added) == 2
    indexed(folder, *SET)  # again, as after more files


@case
def an_index_may_be_elsewhere_one_for_each_split(folder: Path) -> None:
    source = folder / "source"
    written(source / "a-train-00000-of-00001", tables(range(30)))
    written(source / "a-validation-00000-of-00001", tables(range(90, 94)))
    code, printed = command("index", str(source), *SET)
    assert code == 1 and "has train, validation: write an index of each to another place" in printed
    for split in ("train", "validation"):
        indexed(source, "--to", str(folder / split), "--split", split, *SET)
    assert {path.name for path in source.iterdir()} == {
        "a-train-00000-of-00001",
        "a-validation-00000-of-00001",
    }
    for mode in ("file", "stream"):
        assert epoch(train_of(folder / "train", mode), 2) == [n + 0.5 for n in range(30)]
        assert epoch(train_of(folder / "validation", mode), 1) == [n + 0.5 for n in range(90, 94)]
    code, printed = command("download", str(folder / "train"), str(folder / "copy"))
    assert code == 1 and f"is an index: name the files themselves, {source}" in printed


@case
def images_and_pixels_are_inputs_too(folder: Path) -> None:
    grey = [np.full((8, 8, 3), 4 * n, np.uint8) for n in range(12)]
    of_images = [example(image__encoded=tf.io.encode_png(x).numpy(), image__class__label=[n % 2])
                 for n, x in enumerate(grey)]  # fmt: skip
    of_pixels = [example(x=x.tobytes(), y=[n % 2]) for n, x in enumerate(grey)]
    written(folder / "images/a.tfrecord", of_images)
    written(folder / "pixels/a.tfrecord", of_pixels)
    indexed(folder / "images")
    indexed(folder / "pixels", *SET, "--set", "input_shape=8,8,3")
    for name in ("images", "pixels"):
        loaded = train_of(folder / name, "stream", image_size=8)
        assert loaded.inputs.shape == (8, 8, 3) and len(loaded) == 12
        config = TrainConfig(shift=0)
        plan = input_pipeline.plan_for(loaded, config, replicas=1, global_batch=24, training=True)
        inputs, _, weights, _ = next(iter(input_pipeline.batches(loaded, plan, config, [0])))
        kept = inputs.numpy()[weights.numpy() > 0]
        assert sorted(round(float(x.mean()) * 255) for x in kept) == [4 * n for n in range(12)]


WRONG: dict[str, tuple[list[bytes], tuple[str, ...]]] = {
    "another layout": ([*tables(range(3)), example(x=[1.0], y=[0])], ("b.tfrecord record 4 has",)),
    "no label": ([example(x=[1.0, 2.0])], ("record 1", "'y'")),
    "a label that is not a number": (
        [example(x=[1.0, 2.0], y=[float("nan")])],
        ("b.tfrecord record 1",),
    ),
    "no example": ([b"\xff\xff"], ("record 1",)),
}


@case
def a_record_that_does_not_fit_is_named(folder: Path) -> None:
    for name, (records, parts) in WRONG.items():
        written(folder / name / "b.tfrecord", records)
        with refused(*parts):
            index.index(str(folder / name), None, "train", TrainConfig(**NUMBERS), print)
        assert not (folder / name / MANIFEST).exists()


@case
def a_compressed_and_a_torn_file_are_refused(folder: Path) -> None:
    written(folder / "gzip/a.tfrecord.gz", tables(range(3)), "GZIP")
    whole = written(folder / "torn/a.tfrecord", tables(range(3)))
    whole.write_bytes(whole.read_bytes()[:-3])
    for name, text in (("gzip", "or is compressed"), ("torn", "ends inside a record")):
        with refused(f"{folder}/{name}/a.tfrecord", text):
            index.index(str(folder / name), None, "train", TrainConfig(**NUMBERS), print)


@case
def shards_are_not_lost_to_an_index(folder: Path) -> None:
    written(folder / "a.tfrecord", tables(range(5)))
    indexed(folder, *SET)
    shards = folder / "shards"
    assert (
        command("shard", str(folder / "a.tfrecord"), str(shards), "--data", "tfrecord", *SET)[0]
        == 0
    )
    before = (shards / MANIFEST).read_bytes()
    assert json.loads(before)["version"] == 2
    with refused(f"{shards} holds shards already"):
        index.index(str(shards), None, "train", TrainConfig(**NUMBERS), print)
    assert (shards / MANIFEST).read_bytes() == before


@case
def a_file_that_changes_while_it_is_read_ends_the_index(folder: Path) -> None:
    files(folder)
    real = index.Scan.shard

    def changed(scan: Any, item: Any) -> Any:
        shard = real(scan, item)
        with (folder / item.name).open("ab") as file:
            file.write(b"x")
        return shard

    with replaced(index.Scan, shard=changed), refused("part-00000-of-00003 changed"):
        index.index(str(folder), None, "train", TrainConfig(**NUMBERS), print)
    assert not (folder / MANIFEST).exists()


def inside(folder: Path) -> Any:
    """Samples whose first record is in the middle of a file."""
    _, held_out = train_of(folder, "stream").hold_out(0.4, 1)
    return held_out


@case
def an_index_that_is_older_than_its_file_is_refused(folder: Path) -> None:
    file = written(folder / "a.tfrecord", tables(range(200)))
    indexed(folder, *SET)
    file.write_bytes(file.read_bytes() + file.read_bytes())
    with refused("a.tfrecord has", "the manifest says"):
        train_of(folder)
    written(file, [example(x=[n + 0.5, n], y=[n % 3], name=b"b" * n) for n in range(200)])
    size = manifest.load(Folder(folder)).sizes[0]
    file.write_bytes(file.read_bytes()[:size])
    samples = inside(folder)
    with contextlib.suppress(tf.errors.OpError):
        epoch(samples, 1)
    fault = samples.find_fault()
    assert "a.tfrecord has no record at byte" in fault and "its manifest is older" in fault


@case
def a_bucket_names_no_path_of_a_host(folder: Path) -> None:
    files(folder / "source")
    indexed(folder / "source", "--to", str(folder / "index"), *SET)
    place = Folder(folder / "index")
    content = place.read(MANIFEST)
    assert manifest.parse(content, place).source == str(folder / "source")
    place.uri = "s3://bucket/index"
    with refused("is damaged: source"):
        manifest.parse(content, place)
