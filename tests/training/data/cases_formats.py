"""Data sets in every format that the training reads, and what is wrong in them."""

from __future__ import annotations

import os
import struct
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
from training.data.formats import decoding, images
from training.data.uri import DataSource


def givens(**folders: Path) -> dict[str, DataSource]:
    return {name: DataSource(str(folder)) for name, folder in folders.items()}


def shapes(dataset: data.Dataset) -> list[int]:
    return [len(samples) for samples in (dataset.train, dataset.validation, dataset.test or [])]


@case
def idx_files_plain_and_gz(folder: Path) -> None:
    for ending in ("", ".gz"):
        loaded = load("mnist", mnist_folder(folder / f"idx{ending}", ending))
        assert shapes(loaded) == [45, 5, 7] and loaded.inputs.shape == (28, 28, 1)
        inputs, labels = loaded.train.reader()(tf.constant([3], tf.int64))
        number = loaded.train.labels[3]
        assert labels.numpy().tolist() == [number]
        assert inputs.dtype == tf.float32 and 0.9 < float(tf.reduce_max(inputs)) <= 1.0
    load("fashion-mnist", folder / "idx")


@case
def idx_files_that_are_wrong_are_named(folder: Path) -> None:
    mnist_folder(folder / "a")
    images = folder / "a/train-images-idx3-ubyte"
    whole = images.read_bytes()
    for content, size in ((whole[:-1], 39199), (whole + b"\0", 39201)):
        images.write_bytes(content)
        with refused("train-images-idx3-ubyte", f"{size} bytes of data"):
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
    loaded = load("cifar10", folder)
    assert shapes(loaded) == [18, 2, 1] and loaded.names[9] == "truck"
    inputs, labels = loaded.test.reader()(tf.constant([0], tf.int64))
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
    given = givens(train=folder / "a", validation=folder / "a", test=folder / "c.npz")
    assert shapes(splits.load(TrainConfig(data="numpy"), given)) == [20, 20, 3]
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
    loaded = load("csv", folder, label="kind")
    assert loaded.names == ("cat", "dog") and loaded.inputs.shape == (2,)
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
    loaded = load("imdb", folder, task="binary", text_length=8, vocabulary=50)
    assert shapes(loaded) == [1, 1, 2] and loaded.inputs.vocabulary == 50
    inputs, _ = loaded.test.reader()(tf.constant([0], tf.int64))
    assert inputs.numpy().tolist() == [[1, 5, 2, 0, 0, 0, 0, 0]]
    for split in ("train", "test"):
        for name, text in (("neg", "It is BAD."), ("pos", "it is good")):
            (folder / "t" / split / name).mkdir(parents=True)
            for number in range(3):
                (folder / "t" / split / name / f"{number}.txt").write_text(text)
    loaded = load("imdb", folder / "t", task="binary", text_length=4)
    assert shapes(loaded) == [5, 1, 6] and loaded.names == ("neg", "pos")
    bad, good = (loaded.test.values[i].tolist() for i in (0, 3))
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
    loaded = load("images", folder / "a", image_size=16)
    assert loaded.names == ("ant", "bee") and loaded.inputs.shape == (16, 16, 3)
    inputs, labels = loaded.train.reader()(tf.range(3, dtype=tf.int64))
    assert inputs.shape == (3, 16, 16, 3) and float(tf.reduce_max(inputs)) <= 1
    image_folder(folder / "b/train")
    image_folder(folder / "b/test", count=2)
    assert shapes(load("images", folder / "b")) == [11, 1, 4]
    image_folder(folder / "b/val", count=3)
    assert shapes(load("images", folder / "b")) == [12, 6, 4]
    image_folder(folder / "c")
    config, sources = TrainConfig(data="images"), givens(train=folder / "a", test=folder / "c")
    assert len(splits.load(config, sources).test) == 12
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
    loaded = load("images", folder, image_size=16)
    assert loaded.names == ("0", "1", "2", "3", "4") and shapes(loaded) == [5, 1, 0]
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
    loaded = load("images", folder / "c")
    parts = (loaded.train, loaded.validation)
    assert any("bee/3.png is not an image" in samples.find_fault() for samples in parts)


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
    sources = {}
    for name, labels in (("train", np.arange(9) % 3), ("validation", np.arange(9) % 4)):
        (folder / name).mkdir()
        np.savez(folder / name / "d.npz", x=pixels(9, 4), y=labels)
        sources[name] = DataSource(str(folder / name))
    with refused("validation has labels that train does not have"):
        splits.load(TrainConfig(data="numpy"), sources)
    np.savez(folder / "validation/d.npz", x=pixels(0, 4), y=np.arange(0))
    with refused("has no samples (train)"):
        splits.load(TrainConfig(data="numpy"), sources)


@case
def a_seeded_part_is_held_out(folder: Path) -> None:
    np.savez(folder / "d.npz", x=np.arange(100)[:, None], y=np.arange(100) % 2)
    loaded = [load("numpy", folder, seed=seed) for seed in (0, 0, 1)]
    held = [set(each.validation.values.ravel()) for each in loaded]
    assert held[0] == held[1] != held[2] and len(held[0]) == 10
    assert not held[0] & set(loaded[0].train.values.ravel())


PALETTE = "it is a BMP with a palette, which needs Pillow here"


def photo(folder: Path, orientation: int = 1) -> Any:
    """A folder with one class whose image has a red upper half, as JPEG with that orientation, and
    what is decoded of it [8, 8, 3]."""
    image = np.zeros((16, 16, 3), np.uint8)
    image[:8, :, 0] = 255
    content = tf.io.encode_jpeg(image, quality=100).numpy()
    entry = struct.pack("<HHIHH", 0x0112, 3, 1, orientation, 0)
    exif = b"Exif\0\0II*\0" + struct.pack("<IH", 8, 1) + entry + bytes(4)
    app1 = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
    (folder / "a").mkdir(parents=True)
    (folder / "a/x.jpg").write_bytes(content[:2] + app1 + content[2:])
    return decoded_in(folder)


def decoded_in(folder: Path, **settings: Any) -> Any:
    """The first image of a folder of classes as the model gets it."""
    config = TrainConfig(data="images", image_size=8, **settings)
    samples = images.read(folder, config)["train"]
    return samples.reader()(tf.constant([0], tf.int64))[0][0].numpy()


@case
def photos_are_turned_as_exif_says(folder: Path) -> None:
    sides = {1: "up", 2: "up", 3: "down", 4: "down", 5: "left", 6: "right", 7: "right", 8: "left"}
    parts = {"up": np.s_[:4], "down": np.s_[4:], "left": np.s_[:, :4], "right": np.s_[:, 4:]}
    for orientation, side in sides.items():
        red = photo(folder / str(orientation), orientation)[..., 0]
        assert red[parts[side]].mean() > 0.9 and red.mean() < 0.6, (orientation, side)
    assert decoded_in(folder / "6", exif="off")[:4, :, 0].mean() > 0.9
    (folder / "6/a/x.jpg").write_bytes((folder / "6/a/x.jpg").read_bytes()[:30])
    assert decoding.orientation((folder / "6/a/x.jpg").read_bytes()) == 1, "cut off"


@case
def a_bmp_with_a_palette_keeps_its_colours_or_is_named(folder: Path) -> None:
    palette = bytes([0, 0, 255, 0, 255, 0, 0, 0])  # blue, green, red: red, then blue
    header = struct.pack("<IiiHHIIiiII", 40, 8, 8, 1, 8, 0, 64, 0, 0, 2, 2)
    (folder / "a").mkdir()
    file = folder / "a/x.bmp"
    start = 14 + len(header) + len(palette)
    file.write_bytes(
        struct.pack("<2sIII", b"BM", start + 64, 0, start)
        + header
        + palette
        + bytes(32)
        + b"\1" * 32
    )
    fault = images.read(folder, TrainConfig(data="images"))["train"].find_fault()
    if decoding.PILLOW:
        image = decoded_in(folder)
        assert (
            fault == "" and image[6, 0].tolist() == [1, 0, 0] and image[1, 0].tolist() == [0, 0, 1]
        )
    else:
        assert fault == f"{file} is not an image that can be read: {PALETTE}"


@case
def a_tiff_with_16_bits_keeps_its_shades_and_one_with_32_is_named(folder: Path) -> None:
    if not decoding.PILLOW:
        return
    from PIL import Image

    (folder / "a").mkdir()
    file = folder / "a/x.tif"
    for order in ("<", ">"):
        shades = np.repeat(np.array([[0], [0x4000], [0x8000], [0xFFFF]], f"{order}u2"), 4, axis=1)
        Image.fromarray(np.kron(shades, np.ones((2, 2), shades.dtype)).astype(shades.dtype)).save(
            file
        )
        columns = decoded_in(folder)[::2, 0, 0]
        assert np.allclose(columns, [0, 0x40 / 255, 0x80 / 255, 1], atol=1e-3), columns
    for deep in (np.full((8, 8), 0.5, np.float32), np.full((8, 8), 70_000, np.int32)):
        Image.fromarray(deep).save(file)
        fault = images.read(folder, TrainConfig(data="images"))["train"].find_fault()
        assert fault.endswith("can be read: its pixels have 32 bits, not 8 or 16")


@case
def linked_folders_below_a_class_are_read_once(folder: Path) -> None:
    image_folder(folder / "data", count=2)
    image_folder(folder / "store", "more", count=4)
    (folder / "data/ant/linked").symlink_to(folder / "store/more")
    (folder / "store/more/loop").symlink_to(folder / "store/more")
    loaded = load("images", folder / "data", image_size=8)
    assert len(loaded.train) + len(loaded.validation) == 2 + 4 + 2


@case
def a_table_of_images_names_them_with_or_without_ending(folder: Path) -> None:
    image_folder(folder / "train", "ant", count=4)
    for path in (folder / "train/ant").iterdir():
        path.rename(folder / "train" / path.name)
    rows = ["id,kind", "0.jpg,x", "1,y", "2,x", "3.png,y"]
    (folder / "train.csv").write_text("\n".join(rows))
    loaded = load("images", folder, image_size=8, label="kind")
    assert loaded.names == ("x", "y") and shapes(loaded) == [3, 1, 0]
    (folder / "train/2.png").write_bytes((folder / "train/2.jpg").read_bytes())
    with refused("train.csv line 4: 2 may be 2.jpg, 2.png: write its ending"):
        load("images", folder, label="kind")


@case
def a_table_beside_folders_of_classes_is_named(folder: Path) -> None:
    image_folder(folder)
    (folder / "train.csv").write_text("image_id,label\n")
    texts: list[str] = []
    sources = {"train": DataSource(str(folder))}
    loaded = splits.load(TrainConfig(data="images", image_size=8), sources, texts.append)
    assert len(loaded.train) + len(loaded.validation) == 12 and "train.csv" in texts[0]
