"""Values that are not numbers, broken images and broken records: each feed names where they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from samples.files import example, image_folder, load, written
from samples.trainings import evaluated, folder_with, run
from standins.case_runner import case, refused

from training import input_pipeline
from training.config import TrainConfig
from training.data import splits
from training.data.__main__ import main as data_command
from training.data.arrays import Arrays
from training.data.formats import decoding
from training.data.shards import manifest, shard_writer
from training.data.store import Folder
from training.data.uri import DataSource
from training.serving import client

TINY: dict[str, Any] = dict(data="images", model="linear", image_size=8, epochs=1)


@case
def values_that_are_not_finite_are_named_where_they_are_read(folder: Path) -> None:
    path = folder / "train.csv"
    for value in ("-inf", "1e39"):
        path.write_text("a,b,label\n" + "1,2,x\n3,4,y\n" * 20 + f"5,{value},x\n")
        with refused(f"{path} line 42, column 'b' is ", "finite"):
            load("csv", folder, model="mlp")
    path.write_text("a,label\n" + "1,2\n3,4\n" * 20 + "5,inf\n")
    with refused(f"{path} line 42, column 'label' is inf"):
        load("csv", folder, task="regression")


@case
def an_array_that_is_not_finite_names_its_element(folder: Path) -> None:
    x, y = np.ones((64, 2, 3), np.float64), np.arange(64) / 2
    for array, place in ((x, (40, 1, 2)), (y, (7,))):
        good = array[place]
        array[place] = np.inf
        name = ("x", "y")[array is y]
        with folder_with(folder, x=x, y=y) as source:
            with refused(f"d.npz: {name}[{', '.join(map(str, place))}] is inf"):
                load("numpy", source, task="regression")
            sources = {"train": DataSource(str(source)), "test": DataSource(str(source))}
            with refused("is inf"):
                splits.held_out(TrainConfig(data="numpy", task="regression"), sources, ())
        array[place] = good


@case
def a_record_that_is_not_finite_is_named(folder: Path) -> None:
    records = [example(x=[n + 0.5] * 4, y=[n % 2]) for n in range(70)]
    written(folder / "a.tfrecord", records)
    settings: dict[str, Any] = dict(input_feature="x", label_feature="y")
    bad = example(x=[0.5, 1.5, float("nan"), 1.5], y=[0])
    path = written(folder / "b.tfrecord", [*records[:66], bad])
    with refused(f"{path} record 67: value 3 of 'x' is nan"):
        load("tfrecord", folder, **settings)
    assert data_command(["shard", str(folder), str(folder / "s"), "--data", "tfrecord"]) == 1
    written(path, [example(x=[0.5] * 4, y=[float(n) if n else float("inf")]) for n in range(5)])
    (folder / "a.tfrecord").unlink()
    with refused(f"{path} record 1: 'y' is inf"):
        load("tfrecord", folder, task="regression", **settings)


def shards_of(folder: Path, values: Any) -> Path:
    """Shards as they were written before values were checked."""
    samples = Arrays(values, np.arange(len(values)) % 2, ("a", "b"))
    shard_writer.write(samples, str(folder), 2)
    return folder


def feed_of(shards: Path, mode: str) -> tuple[Any, Iterator[Any]]:
    """The samples of shards, and their batches of 8."""
    sources = {name: DataSource(str(shards), mode) for name in ("train", "validation")}
    samples = splits.load(TrainConfig(data="shards"), sources).train
    config = TrainConfig(shift=0)
    plan = input_pipeline.plan_for(samples, config, replicas=1, global_batch=8, training=False)
    return samples, iter(input_pipeline.batches(samples, plan, config, [0]))


@case
def shards_that_are_not_finite_are_named_with_their_record(folder: Path) -> None:
    values = np.ones((60, 5), np.float32)
    values[31, 2] = np.nan
    shards = shards_of(folder / "s", values)
    expected = written_at(shards, lambda x: not np.isfinite(x).all())
    for mode in ("file", "stream"):
        samples, feed = feed_of(shards, mode)
        with refused(f"{expected}: value 3 of the input is nan"):
            for _ in range(9):  # all samples and one more batch
                input_pipeline.next_batch(feed, samples)


@case
def large_numbers_whose_sum_is_infinite_are_read(folder: Path) -> None:
    samples, feed = feed_of(shards_of(folder / "s", np.full((16, 5), 3e38, np.float32)), "file")
    inputs = input_pipeline.next_batch(feed, samples)[0].numpy()
    assert inputs.shape == (8, 5) and (inputs == np.float32(3e38)).all()


def written_at(shards: Path, is_wanted: Callable[[Any], bool]) -> str:
    """FILE record N of the first record whose input is wanted."""
    for shard in manifest.load(Folder(shards)).shards:
        records = tf.data.TFRecordDataset(str(shards / shard.name))
        for number, record in enumerate(records.as_numpy_iterator(), 1):
            features = tf.train.Example.FromString(record).features.feature
            if is_wanted(np.frombuffer(features["input"].bytes_list.value[0], np.float32)):
                return f"{shards / shard.name} record {number}"
    raise AssertionError("there is none")


def broken(folder: Path, kind: str) -> tuple[Path, str]:
    """Six images of two classes, one of them broken, and how it is named: files, or a record."""
    image_folder(folder / "i")
    (folder / "i/bee/3.png").write_bytes(b"no image")
    if kind == "images":
        return folder / "i", "i/bee/3.png is not an image"
    images = [
        example(image__encoded=p.read_bytes(), image__class__label=[1]) for p in files(folder)
    ]
    written(folder / "t/a.tfrecord", images)
    if kind == "tfrecord":
        return folder / "t", "a.tfrecord record 10 is not an image"
    command = ["shard", str(folder / "t"), str(folder / "s"), "--data", "tfrecord", "--shards", "1"]
    assert data_command(command) == 0
    return folder / "s", "shard-00000-of-00001.tfrecord record "


def files(folder: Path) -> list[Path]:
    return sorted((folder / "i").rglob("*.*g"))


@case
def every_feed_names_the_image_that_is_broken(folder: Path) -> None:
    good = image_folder(folder / "good")
    for kind, split in (("images", "test"), ("tfrecord", "validation"), ("shards", "train")):
        bad, name = broken(folder / kind, kind)
        settings: dict[str, Any] = {**TINY, "data": kind}
        fine = good if kind == "images" else fine_of(folder, good, kind)
        sources = {"train": fine, "validation": fine, split: bad}
        with refused(name):
            run(folder / kind / split, data_folders=sources, **settings)


def fine_of(folder: Path, good: Path, kind: str) -> Path:
    images = [
        example(image__encoded=p.read_bytes(), image__class__label=[n % 2])
        for n, p in enumerate(sorted(good.rglob("*.*g")))
    ]
    written(folder / f"fine-{kind}/a.tfrecord", images)
    if kind == "tfrecord":
        return folder / f"fine-{kind}"
    source, to = str(folder / f"fine-{kind}"), str(folder / "fine-shards-made")
    assert data_command(["shard", source, to, "--data", "tfrecord", "--shards", "1"]) == 0
    return Path(to)


@case
def an_evaluation_and_a_prediction_name_the_image_that_is_broken(folder: Path) -> None:
    good = image_folder(folder / "good")
    run(folder / "r", data_folders={"train": good}, **TINY)
    bad, name = broken(folder / "bad", "images")
    with refused(name):
        evaluated(folder / "e", folder / "r/model.keras", data_folders={"test": bad}, **TINY)
    settings = {**TINY, "image_size": 8}
    try:
        client.held_out(12, settings, [f"train={good}", f"test={bad}"])
    except client.ClientError as error:
        assert name in str(error) and "\n" not in str(error)
    else:
        raise AssertionError("a broken image was sent")


@case
def a_webp_file_under_another_name_is_recognised(folder: Path) -> None:
    image_folder(folder)
    (folder / "ant/0.jpg").write_bytes(b"RIFF\0\0\0\0WEBPVP8 ")
    loaded = load("images", folder, held_out=0.1)
    faults = " ".join(samples.find_fault() for samples in (loaded.train, loaded.validation))
    assert "ant/0.jpg is not an image that can be read" in faults
    assert ("Pillow" in faults) is not (decoding.WEBP or decoding.PILLOW)


@case
def a_broken_validation_image_costs_no_epoch(folder: Path) -> None:
    """The steps before are in a checkpoint, from which the training continues."""
    good = image_folder(folder / "good")
    bad, name = broken(folder / "bad", "images")
    settings: dict[str, Any] = {**TINY, "epochs": 2, "checkpoint_minutes": 10.0, "batch_size": 4}
    sources = {"train": good, "validation": bad}
    with refused(name):
        run(folder / "r", data_folders=sources, **settings)
    assert [path.name for path in (folder / "r/checkpoints").glob("step-*")] == ["step-00000003"]
    again = run(folder / "r", data_folders={**sources, "validation": good}, **settings)
    assert [record["epoch"] for record in again.epochs] == [1, 2]
    assert "from step 3" in again.line
