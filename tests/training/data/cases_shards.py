"""Shards: what is written, which sample is read when, and what is wrong in them."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from samples.files import image_folder, load, mnist_folder
from standins.case_runner import case, refused, replaced

from railhead.documents.names import MANIFEST
from training import input_pipeline
from training.config import TrainConfig
from training.data import splits, store
from training.data.__main__ import main as data_command
from training.data.assignment import Span
from training.data.formats import images, mnist
from training.data.shards import manifest, shard_files, shard_writer, stream
from training.data.uri import DataSource
from training.evaluation import worst
from training.tasks import task_of


def sharded(folder: Path, shards: int = 3) -> Path:
    """50 images of MNIST's size as shards."""
    source = mnist_folder(folder / "source")
    arguments = ["shard", str(source), str(folder / "shards"), "--shards", str(shards)]
    assert data_command([*arguments, "--preset", "mnist"]) == 0
    return folder / "shards"


def batches_of(samples: Any, count: int, **plan: Any) -> list[list[int]]:
    """The sample numbers of the first batches, seen through the pixels that stand for them."""
    config = TrainConfig(shift=0, shuffle_window=plan.pop("window", 4), seed=5)
    defaults: dict[str, Any] = dict(replicas=1, global_batch=8, training=True)
    replica = plan.pop("replica", 0)
    made = input_pipeline.plan_for(samples, config, **{**defaults, **plan})
    feed = iter(input_pipeline.batches(samples, made, config, [replica]))
    seen = []
    for _ in range(count):
        inputs, _, weights, _ = next(feed)
        rows = zip(inputs.numpy().reshape(len(weights), -1), weights.numpy(), strict=True)
        seen.append([hash(row.tobytes()) for row, weight in rows if weight])
    return seen


KEPT = tempfile.TemporaryDirectory()
STEPS = 12  # of the kept shards: two epochs


@functools.cache
def kept_shards() -> Path:
    """Shards that no case changes, made once."""
    return sharded(Path(KEPT.name))


@functools.cache
def batches_of_one_replica() -> list[list[int]]:
    """Two epochs of the kept shards."""
    return batches_of(load("shards", kept_shards()).train, STEPS)


@case
def shards_are_whole_and_hold_the_same_samples(folder: Path) -> None:
    shards = sharded(folder)
    loaded, source = load("shards", shards), load("mnist", folder / "source")
    assert len(loaded.train) + len(loaded.validation) == 50
    assert load("mnist", shards).inputs == source.inputs, "known by their manifest"
    assert data_command(["verify", str(shards)]) == 0
    every = splits.read(shard_files, DataSource(str(shards)), TrainConfig(), print)
    seen = [n for batch in batches_of(every["train"], 7) for n in batch]
    expected = mnist.read(folder / "source", TrainConfig())["train"]
    rows = (expected.values / np.float32(255)).reshape(50, -1).astype(np.float32)
    assert sorted(seen) == sorted(hash(row.tobytes()) for row in rows)


@case
def shards_give_the_same_global_batches_to_one_two_and_four_replicas(folder: Path) -> None:
    alone = [sorted(step) for step in batches_of_one_replica()]
    for mode, size in [("file", 4), ("stream", 2)]:
        samples = load("shards", kept_shards(), mode).train
        assert -(-len(samples) // 8) * 2 == STEPS
        parts = [batches_of(samples, STEPS, replicas=size, replica=r) for r in range(size)]
        together = [sorted(sum(step, [])) for step in zip(*parts, strict=True)]
        assert together == alone, (mode, size)
    assert not list(stream.folder_in_memory().glob("*-*")), "files of streams are left"


@case
def shards_go_on_at_the_exact_sample(folder: Path) -> None:
    from training.checkpoints.checkpoint import Position

    whole = batches_of_one_replica()
    for mode, step in [("file", 2), ("stream", 5)]:
        samples = load("shards", kept_shards(), mode).train
        position = Position(step=step, samples=8 * step, global_batch=8, lanes=8)
        batches = batches_of(samples, STEPS - step, position=position)
        assert batches == whole[step:], (mode, step)


@case
def records_are_read_in_the_order_of_their_numbers(folder: Path) -> None:
    """Augmentation draws by the number: it would depend on the number of replicas."""
    samples, by_number = load("shards", kept_shards()).train, []
    for training in (False, True):
        config = TrainConfig(shuffle_window=9, seed=5)
        made = input_pipeline.plan_for(
            samples, config, replicas=1, global_batch=8, training=training
        )
        steps = list(input_pipeline.Lanes(samples, made, config, 0).steps(0))
        read = batches_of(samples, len(steps), window=9, training=training)
        numbers = [number for step, *_ in steps for number in step]
        by_number.append(dict(zip(numbers, sum(read, []), strict=True)))
    assert by_number[0] == by_number[1] and len(by_number[0]) == len(samples)


@case
def a_checkpoint_of_the_first_order_continues_in_it(folder: Path) -> None:
    """Of other samples there would be some twice, and others not at all."""
    from training.checkpoints.checkpoint import Position

    samples = load("shards", kept_shards()).train
    first = batches_of(samples, 6, position=Position(order=1))
    assert first != batches_of_one_replica()[:6] and len(set(sum(first, []))) == len(samples)
    position = Position(step=2, samples=16, global_batch=8, lanes=8, order=1)
    assert batches_of(samples, 4, position=position) == first[2:]
    with refused("reads shards in order 3, of a newer Railhead; this one knows 1 to 2"):
        input_pipeline.plan_for(
            samples, TrainConfig(), replicas=1, global_batch=8, training=True,
            position=replace(position, order=3),
        )  # fmt: skip


@case
def lanes_of_an_interrupted_epoch_stay_with_another_number_of_replicas(folder: Path) -> None:
    from training.checkpoints.checkpoint import Position

    samples = load("shards", kept_shards()).train
    three = [batches_of(samples, 4, replicas=3, replica=r, global_batch=9) for r in range(3)]
    whole = [sorted(sum(step, [])) for step in zip(*three, strict=True)]
    position = Position(step=2, samples=18, global_batch=9, lanes=3)
    batches = batches_of(samples, 2, global_batch=9, position=position)
    assert [sorted(step) for step in batches] == whole[2:]


@case
def lanes_stay_where_the_global_batch_does_not_divide_by_the_replicas_that_are_left(
    folder: Path,
) -> None:
    from training.checkpoints.checkpoint import Position

    samples = load("shards", kept_shards()).train
    for position in (Position(6, 1, 0, 8, 8), Position(8, 1, 16, 8, 8)):
        of_replicas = [
            batches_of(samples, 2, replicas=3, replica=r, position=position) for r in range(3)
        ]
        steps = [sorted(sum(step, [])) for step in zip(*of_replicas, strict=True)]
        whole = batches_of_one_replica()[position.step : position.step + 2]
        assert steps == [sorted(step) for step in whole]


@case
def fewer_records_than_ranks_still_give_every_rank_a_batch(folder: Path) -> None:
    for mode in ("file", "stream"):
        samples = load("shards", kept_shards(), mode).train.hold_out(0.08, 0)[1]
        assert len(samples) == 3
        ranks = (0, 2, 3, 7) if mode == "file" else (2, 7)
        batches = [batches_of(samples, 2, replicas=8, replica=rank) for rank in ranks]
        assert [len(batch) for batch, _ in batches] == [int(rank < 3) for rank in ranks]


class Far:
    """A folder as a store to download shards from; `read_files` has a name for each read."""

    def __init__(self, folder: Path) -> None:
        self.store, self.read_files = store.Folder(folder), list[str]()

    def read_range(self, name: str, start: int, end: int) -> bytes:
        self.read_files.append(name)
        return self.store.read_range(name, start, end)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


def downloaded(shards: Path, folder: Path) -> tuple[shard_files.Files, Far]:
    """Mode `file` of shards that are far away."""
    far, content = Far(shards), (shards / MANIFEST).read_bytes()
    return shard_files.Files(far, manifest.parse(content, far), content, folder, print), far


@case
def shards_that_are_downloaded_are_read_from_the_disk_alone(folder: Path) -> None:
    """The columns come with one read, whatever the number of shards, and only once."""
    shards, own_folder = sharded(folder, shards=9), folder / "own"
    (columns,) = shards.glob("*.columns")
    first, second = (f"shard-{number:05d}-of-00009.tfrecord" for number in (4, 7))
    spans = [Span(4, 3, 1, 0), Span(7, 2, 3, 0)]
    expected = [columns.name] * 3 + [first, second]  # to know the manifest, records and bytes
    for reads in (expected, expected[:2]):  # another process finds all of it
        source, far = downloaded(shards, own_folder)
        source.prepare([4, 7])
        assert sorted(far.read_files) == sorted(reads)
        for _ in range(2):
            pieces = list(source.pieces(spans, 1))
            assert [piece[2:] for piece in pieces] == [(0, 1), (0, 3)] and pieces[0][1] > 0
        source.prepare([4])
        assert source.find_fault() == "" and sorted(far.read_files) == sorted(reads)
        for path in (columns, shards / MANIFEST):
            assert (own_folder / path.name).read_bytes() == path.read_bytes()


@case
def an_offset_that_is_wrong_is_named_and_not_the_shard(folder: Path) -> None:
    shards = sharded(folder)
    places = json.loads((shards / MANIFEST).read_text())["columns"]["offsets"]
    source, _ = downloaded(shards, folder / "own")
    source.prepare([1])
    for (path,) in ((folder / "own").glob("*.columns"), shards.glob("*.columns")):
        content = bytearray(path.read_bytes())
        content[places["at"] + places["bytes"] // 2] ^= 1  # of the second shard of three
        path.write_bytes(content)
    near, again = load("shards", shards).train, downloaded(shards, folder / "own")[0]
    for fault in (near.find_fault(), again.find_fault()):
        assert f"{MANIFEST} is damaged: offsets of shard shard-00001" in fault


@case
def columns_that_were_damaged_on_the_disk_are_downloaded_again(folder: Path) -> None:
    downloaded(kept_shards(), folder / "own")[0].prepare([0])
    (columns,) = (folder / "own").glob("*.columns")
    whole = columns.read_bytes()
    columns.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    source, far = downloaded(kept_shards(), folder / "own")
    source.prepare([0])
    assert columns.read_bytes() == whole and far.read_files == [columns.name] * 3


@case
def an_older_manifest_is_kept_as_it_is(folder: Path) -> None:
    shards = sharded(folder)
    loaded = manifest.load(store.Folder(shards))
    older = [{**vars(shard), "offsets": list(shard.offsets)} for shard in loaded.shards]
    document = {**json.loads((shards / MANIFEST).read_text()), "version": 1, "shards": older}
    (shards / MANIFEST).write_text(json.dumps(document))
    source, far = downloaded(shards, folder / "own")
    source.prepare([1])
    assert far.read_files == [older[1]["name"]]
    assert (folder / "own" / MANIFEST).read_bytes() == (shards / MANIFEST).read_bytes()
    assert next(source.pieces([Span(1, 5, 2, 0)], 1))[1:] == (older[1]["offsets"][4], 0, 2)


@case
def worst_pictures_are_of_shards_that_this_host_has_read_already(folder: Path) -> None:
    """The ranks of the other hosts wait meanwhile, and all shards may not fit on this disk."""
    every = load("shards", kept_shards()).train
    source, _ = downloaded(kept_shards(), folder / "own")
    samples = replace(every, source=source)
    batches_of(samples, 1, replicas=8)
    files = sorted(path.name for path in (folder / "own").glob("*.tfrecord"))
    model = keras.Sequential([keras.Input([28, 28, 1]), keras.layers.Flatten()])
    model.add(keras.layers.Dense(10))
    parts = (TrainConfig(), task_of("classification"), ())
    worst_files = worst.write_worst(model, samples, *parts, folder)
    assert [path.name for path in (folder / "own").glob("*.tfrecord")] == files and len(files) == 1
    assert worst_files["worst_of"] == sum(span.count for span in samples.spans if span.shard == 0)


@case
def image_files_are_sharded_as_they_are(folder: Path) -> None:
    image_folder(folder / "source")
    source, shards = str(folder / "source"), folder / "shards"
    assert data_command(["shard", source, str(shards), "--shards", "2", "--data", "images"]) == 0
    loaded = load("shards", shards, image_size=16)
    assert loaded.names == ("ant", "bee") and loaded.inputs.shape == (16, 16, 3)
    assert len(batches_of(loaded.train, 1)[0]) == 8


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
    for text in (failed("verify", str(shards)), failed("shard", str(shards), str(folder / "x"))):
        assert f"{first} has {len(content) - 1} bytes" in text
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
    path = shards / MANIFEST
    path.write_text(path.read_text().replace('"version": 2', '"version": 4'))
    assert "has version 4, this reads 1 to 3" in failed("show", str(shards))
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
            batches_of(samples, 10, replicas=8)  # the first lane begins with the first shard
        except tf.errors.OpError as error:
            assert fault or "corrupted record" in str(error), error
        else:
            raise AssertionError("an altered record was read")
        assert fault in samples.find_fault()
    first.write_bytes(content)
    samples = load("shards", shards, "stream").train
    first.unlink()
    try:
        batches_of(samples, 10, replicas=8)
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
