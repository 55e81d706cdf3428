"""Data sets in every format that the training reads, and what is wrong in them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import tensorflow as tf
from keras import datasets
from samples.files import image_folder, load, mnist_folder, pixels
from standins.case_runner import case, refused, replaced

from training import data
from training.config import TrainConfig
from training.data import splits
from training.data.uri import DataSource


def givens(**folders: Path) -> dict[str, DataSource]:
    return {name: DataSource(str(folder)) for name, folder in folders.items()}


def shapes(dataset: data.Dataset) -> list[int]:
    return [len(part) for part in (dataset.train, dataset.validation, dataset.test or [])]


@case
def idx_files_plain_and_gz(folder: Path) -> None:
    for ending in ("", ".gz"):
        found = load("mnist", mnist_folder(folder / f"idx{ending}", ending))
        assert shapes(found) == [45, 5, 7] and found.inputs.shape == (28, 28, 1)
        inputs, labels = found.train.reader()(tf.constant([3], tf.int64))
        number = found.train.labels[3]
        assert labels.numpy().tolist() == [number]
        assert inputs.dtype == tf.float32 and 0.9 < float(tf.reduce_max(inputs)) <= 1.0
    load("fashion-mnist", folder / "idx")


@case
def idx_files_that_are_wrong_are_named(folder: Path) -> None:
    mnist_folder(folder / "a")
    images = folder / "a/train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:-1])
    with refused("train-images-idx3-ubyte", "39199 bytes of data"):
        load("mnist", folder / "a")
    images.write_bytes(b"\x89PNG")
    with refused("train-images-idx3-ubyte is not an IDX file"):
        load("mnist", folder / "a")
    (folder / "b").mkdir()
    with refused("b has no train-images"):
        load("mnist", folder / "b")
    with refused("there is no folder"):
        load("mnist", folder / "c")
    mnist_folder(folder / "d", ".gz")
    (folder / "d/train-labels-idx1-ubyte.gz").write_bytes(b"\x1f\x8b\x08torn")
    with refused("train-labels-idx1-ubyte.gz cannot be read"):
        load("mnist", folder / "d")


@case
def cifar_batches(folder: Path) -> None:
    red = np.zeros((1, 3073), np.uint8)
    red[0, 0], red[0, 1:1025] = 9, 255
    for number in (1, 2):
        np.repeat(red, 10, axis=0).tofile(folder / f"data_batch_{number}.bin")
    red.tofile(folder / "test_batch.bin")
    found = load("cifar10", folder)
    assert shapes(found) == [18, 2, 1] and found.names[9] == "truck"
    inputs, labels = found.test.reader()(tf.constant([0], tf.int64))
    assert labels.numpy().tolist() == [9] and inputs.numpy()[0, 5, 7].tolist() == [1, 0, 0]
    (folder / "data_batch_2.bin").write_bytes(b"x" * 3072)
    with refused("data_batch_2.bin", "not whole records"):
        load("cifar10", folder)


@case
def numpy_archives_and_arrays(folder: Path) -> None:
    x, y = pixels(20, 4, 4), np.arange(20) % 2
    (folder / "a").mkdir()
    np.savez(folder / "a/d.npz", x=x, y=y)
    (folder / "b").mkdir()
    np.save(folder / "b/x.npy", x.reshape(20, 16) / 2)
    np.save(folder / "b/y.npy", y)
    np.savez(folder / "c.npz", x_train=x, y_train=y, x_test=x[:3], y_test=y[:3])
    assert load("numpy", folder / "a").inputs.shape == (4, 4, 1)
    assert load("numpy", folder / "b", task="binary").inputs.shape == (16,)
    assert shapes(load("numpy", folder / "c.npz")) == [18, 2, 3]
    np.savez(folder / "a/d.npz", x=x, y=y[:9])
    with refused("d.npz has 20 inputs, but 9 labels"):
        load("numpy", folder / "a")
    np.savez(folder / "a/d.npz", z=x)
    with refused("d.npz has z: it needs x and y"):
        load("numpy", folder / "a")
    np.savez(folder / "a/d.npz", x=np.array([{}], object), y=y)
    with refused("d.npz cannot be read"):
        load("numpy", folder / "a")


@case
def csv_tables(folder: Path) -> None:
    table = folder / "train.csv"
    table.write_text("a,b,kind\n" + "1,2,dog\n3,4.5,cat\n" * 10)
    found = load("csv", folder, label="kind")
    assert found.names == ("cat", "dog") and found.inputs.shape == (2,)
    table.write_text("a,b,y\n" + "1,2,0.5\n3,4.5,-2\n" * 10)
    assert load("csv", folder, label="y", task="regression").train.labels.dtype == np.float32
    with refused("train.csv has no column 'label'"):
        load("csv", folder)
    table.write_text("a,label\n1,0\nx,1\n")
    with refused("train.csv line 3, column 'a': 'x' is not a number"):
        load("csv", folder)
    table.write_text("a,label\n1,0\n2,1,3\n")
    with refused("train.csv line 3 has 3 values, not 2"):
        load("csv", folder)
    table.write_text("a,label\n")
    with refused("train.csv has no sample"):
        load("csv", folder)


@case
def imdb_archives_and_texts(folder: Path) -> None:
    texts = np.array([[1, 5, 99], [1] * 300], object)
    np.savez(folder / "imdb.npz", x_train=texts, y_train=[0, 1], x_test=texts, y_test=[1, 0])
    found = load("imdb", folder, task="binary", text_length=8, vocabulary=50)
    assert shapes(found) == [1, 1, 2] and found.inputs.vocabulary == 50
    inputs, _ = found.test.reader()(tf.constant([0], tf.int64))
    assert inputs.numpy().tolist() == [[1, 5, 2, 0, 0, 0, 0, 0]]
    for split in ("train", "test"):
        for name, text in (("neg", "It is BAD."), ("pos", "it is good")):
            (folder / "t" / split / name).mkdir(parents=True)
            for number in range(3):
                (folder / "t" / split / name / f"{number}.txt").write_text(text)
    found = load("imdb", folder / "t", task="binary", text_length=4)
    assert shapes(found) == [5, 1, 6] and found.names == ("neg", "pos")
    bad, good = (found.test.values[i].tolist() for i in (0, 3))
    assert bad[:2] == good[:2] and bad[2] != good[2] and bad[3] == 0
    (folder / "t/train/pos/0.txt").unlink()
    for file in (folder / "t/train/neg").iterdir():
        file.unlink()
    with refused("train/neg has no .txt file"):
        load("imdb", folder / "t", task="binary")


@case
def data_sets_are_fetched_where_no_folder_is_given(folder: Path) -> None:
    def load_data() -> Any:
        return ((pixels(50, 28, 28), pixels(50) % 10), (pixels(7, 28, 28), pixels(7) % 10))

    def without_a_network() -> Any:
        raise OSError("no network")

    with patch.dict(os.environ, KERAS_HOME=str(folder / "keras")):
        for name, module in (("mnist", datasets.mnist), ("fashion-mnist", datasets.fashion_mnist)):
            with replaced(module, load_data=load_data):
                assert shapes(splits.load(TrainConfig(data=name), {})) == [45, 5, 7]
        with (
            replaced(datasets.cifar10, load_data=without_a_network),
            refused("cifar10 could not be fetched (no network)", "--data train=FOLDER"),
        ):
            splits.load(TrainConfig(data="cifar10"), {})
    assert (folder / "keras/railhead.lock").exists(), "the ranks of a host fetch one by one"


@case
def a_pickle_that_would_run_code_is_refused(folder: Path) -> None:
    import pathlib

    class Evil:
        def __reduce__(self) -> Any:
            return (pathlib.Path.touch, (folder / "ran",))

    np.savez(folder / "imdb.npz", x_train=np.array([Evil()], object), y_train=[0])
    with refused("imdb.npz cannot be read", "it holds"):
        load("imdb", folder, task="binary")
    assert not (folder / "ran").exists()


@case
def folders_of_images(folder: Path) -> None:
    image_folder(folder / "a")
    found = load("images", folder / "a", image_size=16)
    assert found.names == ("ant", "bee") and found.inputs.shape == (16, 16, 3)
    inputs, labels = found.train.reader()(tf.range(3, dtype=tf.int64))
    assert inputs.shape == (3, 16, 16, 3) and float(tf.reduce_max(inputs)) <= 1
    image_folder(folder / "b/train")
    image_folder(folder / "b/test", count=2)
    assert shapes(load("images", folder / "b")) == [11, 1, 4]
    image_folder(folder / "c")
    config, given = TrainConfig(data="images"), givens(train=folder / "a", test=folder / "c")
    assert len(splits.load(config, given).test) == 12
    image_folder(folder / "d", "ant cow")
    with refused("validation has the class cow, but train has ant, bee"):
        splits.load(config, givens(train=folder / "a", validation=folder / "d"))


@case
def the_cassava_layout(folder: Path) -> None:
    image_folder(folder / "made")
    (folder / "train_images").mkdir()
    rows = ["image_id,label"]
    for number, file in enumerate(sorted((folder / "made").rglob("*.jpg"))):
        file.rename(folder / f"train_images/{number}.jpg")
        rows.append(f"{number}.jpg,{number % 5}")
    (folder / "train.csv").write_text("\n".join(rows))
    found = load("images", folder, image_size=16)
    assert found.names == ("0", "1", "2", "3", "4") and shapes(found) == [5, 1, 0]
    (folder / "train.csv").write_text("\n".join([*rows, "9.jpg,0"]))
    with refused("train.csv line 8", "9.jpg is missing"):
        load("images", folder)


@case
def images_that_are_wrong_are_named(folder: Path) -> None:
    image_folder(folder / "a")
    (folder / "a/cow").mkdir()
    with refused("a/cow has no image"):
        load("images", folder / "a")
    (folder / "b").mkdir()
    with refused("b needs a folder of images for each class, and has none"):
        load("images", folder / "b")
    image_folder(folder / "c")
    (folder / "c/bee/3.png").write_bytes(b"no image")
    found = load("images", folder / "c")
    parts = (found.train, found.validation)
    assert any("bee/3.png is not an image" in part.find_fault() for part in parts)


@case
def labels_must_fit_the_task(folder: Path) -> None:
    np.savez(folder / "d.npz", x=pixels(9, 4), y=np.arange(9) - 1)
    with refused("labels from -1 to 7", "classification needs whole labels from 0"):
        load("numpy", folder)
    np.savez(folder / "d.npz", x=pixels(9, 4), y=np.arange(9) / 2)
    with refused("classification needs whole labels"):
        load("numpy", folder)
    np.savez(folder / "d.npz", x=pixels(9, 4), y=np.arange(9))
    with refused("binary needs labels 0 and 1"):
        load("numpy", folder, task="binary")
    np.savez(folder / "d.npz", x=pixels(9, 4), y=np.full(9, np.nan))
    with refused("d.npz: y[0] is nan"):
        load("numpy", folder, task="regression")


@case
def splits_that_do_not_fit_their_training_data_are_named(folder: Path) -> None:
    given = {}
    for name, labels in (("train", np.arange(9) % 3), ("validation", np.arange(9) % 4)):
        (folder / name).mkdir()
        np.savez(folder / name / "d.npz", x=pixels(9, 4), y=labels)
        given[name] = DataSource(str(folder / name))
    with refused("validation has labels that train does not have"):
        splits.load(TrainConfig(data="numpy"), given)
    np.savez(folder / "validation/d.npz", x=pixels(0, 4), y=np.arange(0))
    with refused("has no samples (train)"):
        splits.load(TrainConfig(data="numpy"), given)


@case
def a_seeded_part_is_held_out(folder: Path) -> None:
    np.savez(folder / "d.npz", x=np.arange(100)[:, None], y=np.arange(100) % 2)
    found = [load("numpy", folder, seed=seed) for seed in (0, 0, 1)]
    held = [set(part.validation.values.ravel()) for part in found]
    assert held[0] == held[1] != held[2] and len(held[0]) == 10
    assert not held[0] & set(found[0].train.values.ravel())
