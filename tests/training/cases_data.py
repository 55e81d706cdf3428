"""Tests that need TensorFlow, run by a runtime's python in one process: test_in_runtime.py starts
it and shows each function here as a test of its own.

A runtime has no pytest: a case is a function that gets an empty folder, and fails by raising.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from training import data, input_pipeline, models
from training.config import TrainConfig
from training.data import (
    DataError,
    augment,
    manifest,
    shard_files,
    shard_writer,
    splits,
    stream,
)
from training.data.__main__ import main as data_command
from training.data.formats import images, mnist
from training.data.uri import Given
from training.models.build import build_model
from training.results import TrainingError

CASES: dict[str, Callable[[Path], None]] = {}


def case(function: Callable[[Path], None]) -> Callable[[Path], None]:
    """Register a case under the name of its function."""
    CASES[function.__name__] = function
    return function


@contextlib.contextmanager
def refused(*parts: str) -> Iterator[None]:
    """The block must end with a DataError or TrainingError that has all these parts."""
    try:
        yield
    except (DataError, TrainingError) as error:
        missing = [part for part in parts if part not in str(error)]
        assert not missing, f"{missing} not in {error}"
    else:
        raise AssertionError(f"nothing was refused: {parts}")


# --- Files of every format ------------------------------------------------------------------


def pixels(count: int, *shape: int) -> Any:
    return np.random.RandomState(0).randint(0, 256, (count, *shape)).astype(np.uint8)


def idx(path: Path, array: Any) -> None:
    header = bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape)
    content = header + array.tobytes()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def mnist_folder(folder: Path, ending: str = "") -> Path:
    folder.mkdir()
    for prefix, count in (("train", 50), ("t10k", 7)):
        idx(folder / f"{prefix}-images-idx3-ubyte{ending}", pixels(count, 28, 28))
        idx(folder / f"{prefix}-labels-idx1-ubyte{ending}", pixels(count) % 10)
    return folder


def image_folder(folder: Path, classes: str = "ant bee", count: int = 6) -> Path:
    for label, name in enumerate(classes.split()):
        (folder / name).mkdir(parents=True)
        for number, image in enumerate(pixels(count, 20, 30, 3)):
            encode = tf.io.encode_png if number % 2 else tf.io.encode_jpeg
            ending = "png" if number % 2 else "jpg"
            file = encode(image // 4 + 60 * label).numpy()
            (folder / name / f"{number}.{ending}").write_bytes(file)
    return folder


def load(name: str, folder: Path, mode: str = "file", **settings: Any) -> data.Dataset:
    return splits.load(TrainConfig(data=name, **settings), {"train": Given(str(folder), mode)})


def givens(**folders: Path) -> dict[str, Given]:
    return {name: Given(str(folder)) for name, folder in folders.items()}


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
    with refused("train.csv line 3: 'x' is not a number"):
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
    with refused("validation has the classes ant, cow, but train has ant, bee"):
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
    with refused("b needs a folder of images for each class, and has 0"):
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
    with refused("regression needs finite labels"):
        load("numpy", folder, task="regression")


@case
def a_seeded_part_is_held_out(folder: Path) -> None:
    np.savez(folder / "d.npz", x=np.arange(100)[:, None], y=np.arange(100) % 2)
    found = [load("numpy", folder, seed=seed) for seed in (0, 0, 1)]
    held = [set(part.validation.values.ravel()) for part in found]
    assert held[0] == held[1] != held[2] and len(held[0]) == 10
    assert not held[0] & set(found[0].train.values.ravel())


# --- Shards --------------------------------------------------------------------------------


def sharded(folder: Path, shards: int = 3) -> Path:
    """50 images of MNIST's size as shards."""
    source = mnist_folder(folder / "source")
    arguments = ["shard", str(source), str(folder / "shards"), "--shards", str(shards)]
    assert data_command([*arguments, "--preset", "mnist"]) == 0
    return folder / "shards"


def batches_of(samples: Any, count: int, **plan: Any) -> list[list[int]]:
    """The sample numbers of the first batches, seen through the pixels that stand for them."""
    config = TrainConfig(shift=0, shuffle_window=4, seed=5)
    defaults: dict[str, Any] = dict(replicas=1, global_batch=8, training=True)
    replica = plan.pop("replica", 0)
    made = input_pipeline.plan_for(samples, config, **{**defaults, **plan})
    feed = iter(input_pipeline.batches(samples, made, config, [replica]))
    found = []
    for _ in range(count):
        inputs, _, weights, _ = next(feed)
        rows = zip(inputs.numpy().reshape(len(weights), -1), weights.numpy(), strict=True)
        found.append([hash(row.tobytes()) for row, weight in rows if weight])
    return found


@case
def shards_are_whole_and_hold_the_same_samples(folder: Path) -> None:
    shards = sharded(folder)
    found, source = load("shards", shards), load("mnist", folder / "source")
    assert len(found.train) + len(found.validation) == 50
    assert load("mnist", shards).inputs == source.inputs, "known by their manifest"
    assert data_command(["verify", str(shards)]) == 0
    every = splits.read(shard_files, Given(str(shards)), TrainConfig(), print)
    seen = [n for batch in batches_of(every["train"], 7) for n in batch]
    wanted = mnist.read(folder / "source", TrainConfig())["train"]
    rows = (wanted.values / np.float32(255)).reshape(50, -1).astype(np.float32)
    assert sorted(seen) == sorted(hash(row.tobytes()) for row in rows)


@case
def shards_give_the_same_global_batches_to_one_two_and_four_replicas(folder: Path) -> None:
    shards = sharded(folder)
    samples = load("shards", shards).train
    steps = -(-len(samples) // 8) * 2  # two epochs
    alone = batches_of(samples, steps)
    for mode, size in [("file", 2), ("file", 4), ("stream", 1), ("stream", 2), ("stream", 4)]:
        samples = load("shards", shards, mode).train
        parts = [batches_of(samples, steps, replicas=size, replica=r) for r in range(size)]
        together = [sorted(sum(step, [])) for step in zip(*parts, strict=True)]
        assert together == [sorted(step) for step in alone], (mode, size)
    assert not list(stream.folder_in_memory().glob("*-*")), "files of streams are left"


@case
def shards_go_on_at_the_exact_sample(folder: Path) -> None:
    from training.checkpoint import Position

    shards = sharded(folder)
    whole = batches_of(load("shards", shards).train, 10)
    for mode, step in [("file", 1), ("file", 2), ("stream", 1), ("stream", 5)]:
        samples = load("shards", shards, mode).train
        position = Position(step=step, samples=8 * step, global_batch=8, lanes=8)
        found = batches_of(samples, 10 - step, position=position)
        assert found == whole[step:], (mode, step)


@case
def fewer_records_than_ranks_still_give_every_rank_a_batch(folder: Path) -> None:
    shards = sharded(folder)
    for mode in ("file", "stream"):
        samples = load("shards", shards, mode).train.hold_out(0.08, 0)[1]
        assert len(samples) == 3
        ranks = range(8) if mode == "file" else (2, 7)
        found = [batches_of(samples, 2, replicas=8, replica=rank) for rank in ranks]
        assert [len(batch) for batch, _ in found] == [int(rank < 3) for rank in ranks]


@case
def image_files_are_sharded_as_they_are(folder: Path) -> None:
    image_folder(folder / "source")
    source, shards = str(folder / "source"), folder / "shards"
    assert data_command(["shard", source, str(shards), "--shards", "2", "--data", "images"]) == 0
    found = load("shards", shards, image_size=16)
    assert found.names == ("ant", "bee") and found.inputs.shape == (16, 16, 3)
    assert len(batches_of(found.train, 1)[0]) == 8


def failed(*arguments: str) -> str:
    """What a data command prints when it fails."""
    with contextlib.redirect_stderr(io.StringIO()) as out:
        assert data_command(list(arguments)) == 1
    return out.getvalue()


@case
def shards_that_are_wrong_are_named(folder: Path) -> None:
    shards = sharded(folder)
    first, second, third = sorted(shards.glob("*.tfrecord"))
    content = first.read_bytes()
    first.write_bytes(content[:-1])
    for found in (failed("verify", str(shards)), failed("shard", str(shards), str(folder / "x"))):
        assert f"{first} has {len(content) - 1} bytes" in found
    with refused(f"{first} has {len(content) - 1} bytes"):
        load("shards", shards)
    altered = bytearray(content)
    altered[500] ^= 1
    first.write_bytes(altered)
    assert f"{first} is altered" in failed("verify", str(shards))
    dataset = load("shards", shards)
    assert f"{first} is altered" in dataset.train.find_fault()
    first.unlink()
    assert f"{first} is missing" in failed("verify", str(shards))
    path = shards / manifest.NAME
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    assert "has version 2, this reads 1" in failed("show", str(shards))
    with refused("holds shards already"):
        shard_writer.write(dataset.train, str(folder / "again"), 2)
    path.write_text("{}")
    assert "is not a manifest of railhead-shards" in failed("show", str(shards))


@case
def a_stream_of_shards_that_are_wrong_is_named(folder: Path) -> None:
    shards = sharded(folder)
    first = min(shards.glob("*.tfrecord"))
    content = first.read_bytes()
    data_altered, length_altered = bytearray(content), bytearray(content)
    data_altered[500] ^= 1
    length_altered[3] ^= 1  # a record of 16 MB more
    for altered, fault in ((data_altered, ""), (length_altered, "not a TFRecord file")):
        first.write_bytes(altered)
        samples = load("shards", shards, "stream").train
        try:
            batches_of(samples, 10)
        except tf.errors.OpError as error:
            assert fault or "corrupted record" in str(error), error
        else:
            raise AssertionError("an altered record was read")
        assert fault in samples.find_fault()
    first.write_bytes(content)
    samples = load("shards", shards, "stream").train
    first.unlink()
    try:
        batches_of(samples, 10)
    except tf.errors.OpError:
        assert f"{first}: No such file" in samples.find_fault()
    with refused("has no manifest.json: mode stream reads shards"):
        load("mnist", folder / "source", "stream")


@case
def shards_are_written_whole_or_not_at_all(folder: Path) -> None:
    image_folder(folder / "source")
    (folder / "source/bee/9.png").symlink_to(folder / "nowhere")
    config = TrainConfig(data="images")
    samples = images.read(folder / "source", config)["train"]
    try:
        with replaced(shard_writer, check_room=lambda *_: None):
            shard_writer.write(samples, str(folder / "shards"), 2)
    except FileNotFoundError:
        pass
    else:
        raise AssertionError("a file that is not there was written")
    assert [item.name for item in folder.iterdir()] == ["source"]
    (folder / "full").mkdir()
    (folder / "full/file").touch()
    with refused("full exists: name a new folder"):
        shard_writer.write(samples, str(folder / "full"), 2)


# --- Augmentation, models, devices -----------------------------------------------------------


@case
def augmentation_depends_on_seed_epoch_and_sample_alone(folder: Path) -> None:
    numbers = tf.range(1000, dtype=tf.int64)
    draws = augment.draws(1, 2, numbers, 0).numpy()
    assert (augment.draws(1, 2, numbers[10:20], 0).numpy() == draws[10:20]).all()
    others = [(2, 2, 0), (1, 3, 0), (1, 2, 1)]
    for seed, epoch, draw in others:
        assert (augment.draws(seed, epoch, numbers, draw).numpy() != draws).mean() > 0.9
    counts = np.bincount(draws % 3, minlength=3)
    assert counts.min() > 270, counts


@case
def a_shift_moves_an_image_and_a_flip_mirrors_it(folder: Path) -> None:
    image = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    moved = augment.shift_images(image, 1, tf.constant([0], tf.int64), tf.constant([1], tf.int64))
    assert moved[0, :, :, 0].numpy().tolist() == [[0, 0, 0], [0, 1, 2], [3, 4, 5]]
    flipped = augment.flip_images(image, tf.constant([1], tf.int64))
    assert flipped[0, 0, :, 0].numpy().tolist() == [2, 1, 0]


@case
def every_model_takes_its_inputs(folder: Path) -> None:
    shapes = {"mlp": (5,), "resnet50": (32, 32, 3), "transfer": (32, 32, 3), "text": (9,)}
    base = keras.applications.MobileNetV2(
        include_top=False, weights=None, input_shape=(32, 32, 3), pooling="avg"
    )
    weights = folder / "base.weights.h5"
    base.save_weights(weights)
    for name in models.MODELS:
        inputs = data.Inputs(shapes.get(name, (28, 28, 3)), 50 if name == "text" else 0)
        config = TrainConfig(model=name, weights=str(weights) if name == "transfer" else "")
        model = build_model(inputs, 4, config)
        assert model(np.ones((2, *inputs.shape), np.int64)).shape == (2, 4), name
    names = [variable.path for variable in model.trainable_variables]
    assert names
    transfer = build_model(
        data.Inputs((32, 32, 3)), 4, TrainConfig(model="transfer", weights=str(weights))
    )
    assert len(transfer.trainable_variables) == 2
    with refused("needs weights"):
        build_model(data.Inputs((32, 32, 3)), 4, TrainConfig(model="transfer"))
    with refused("there is no file"):
        build_model(data.Inputs((32, 32, 3)), 4, TrainConfig(model="transfer", weights="x.h5"))
    (folder / "x.weights.h5").write_bytes(b"x")
    with refused("do not fit mobilenet_v2"):
        config = TrainConfig(model="transfer", weights=str(folder / "x.weights.h5"))
        build_model(data.Inputs((32, 32, 3)), 4, config)


@contextlib.contextmanager
def replaced(owner: Any, **values: Any) -> Iterator[None]:
    before = {name: getattr(owner, name) for name in values}
    for name, value in values.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def replaced_module(name: str, stand_in: Any) -> Iterator[None]:
    import types

    package = types.ModuleType("horovod")
    package.tensorflow = stand_in  # type: ignore[attr-defined]
    before = {key: sys.modules.pop(key, None) for key in ("horovod", name)}
    sys.modules.update({"horovod": package, name: stand_in})
    try:
        yield
    finally:
        for key, value in before.items():
            sys.modules.pop(key)
            if value is not None:
                sys.modules[key] = value


def outcome(function: Callable[[Path], None]) -> str:
    """Empty when the case passes, else its traceback."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            function(Path(folder))
        except BaseException:
            return traceback.format_exc()
    return ""


def report(names: Sequence[str] = ()) -> None:
    """Run all cases, or these, and print what came of each."""
    chosen = names or list(CASES)
    with contextlib.redirect_stdout(sys.stderr):
        found = {name: outcome(CASES[name]) for name in chosen}
    print(json.dumps(found))


if __name__ == "__main__":
    report(sys.argv[1:])
