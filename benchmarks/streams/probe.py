"""One measurement in a runtime's python, started by `__main__.py`. JSON on the last line.

make URI GIGABYTES   images (20,000 of 28 x 28) and large (records of 100 kB) as shards
speed URI ROUNDS     seconds and CPU seconds per sample of training steps: from memory, from files
                     and from a stream
first URI MODE       seconds until the first record
plain URI            the same by TensorFlow's own reader, from the first shard
memory URI           bytes of memory before, and at most while everything is streamed
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from training import data
from training.config import TrainConfig
from training.data.arrays import Arrays
from training.data.shards import columns, manifest, shard_files, stream
from training.data.shards.shard_writer import write_all, write_to_bucket
from training.data.store import open_store
from training.data.uri import DataSource
from training.input_pipeline import Lanes, batches, plan_for
from training.learning.optimizer import build_optimizer, schedule
from training.learning.step import Step
from training.models.build import build_model
from training.strategies.distributed import Distributed
from training.tasks import task_of

CONFIG = TrainConfig(data="numpy", model="mnist-cnn", batch_size=64, shift=0)
STEPS, TURNS = 24, 4  # of one source in each turn, and turns in each round


def images(count: int, *shape: int) -> Arrays:
    """Noise with labels."""
    made = np.random.RandomState(0).randint(0, 256, (count, *shape)).astype(np.uint8)
    return Arrays(made, np.arange(count) % 10, tuple("0123456789"))


def make(uri: str, gigabytes: str) -> None:
    """The data in the bucket; the shards of `large` are one shard under many names."""
    write_to_bucket(images(20_000, 28, 28, 1), open_store(f"{uri}/images"), 8, 0)
    large = open_store(f"{uri}/large")
    with tempfile.TemporaryDirectory() as name:
        written = write_all(images(625, 320, 320, 1), Path(name), 1, 0, lambda path: None)
        shard = written.shards[0]
        count = max(8, round(float(gigabytes) * 1e9 / shard.bytes / 8) * 8)
        names = [f"shard-{number}" for number in range(count)]
        for each in names:
            large.put(each, Path(name) / shard.name)
    shards = (columns.Shard(n, *list(vars(shard).values())[1:]) for n in names)
    manifest.write(large, manifest.Manifest(written.schema, tuple(shards)))
    print(count)


def speed(uri: str, rounds: str) -> None:
    """Steps of the same model, from each source in turns."""
    strategy = Distributed(tf.distribute.OneDeviceStrategy("cpu:0"))
    sources = {
        "memory": images(20_000, 28, 28, 1),
        "file": opened(uri, "file"),
        "stream": opened(uri, "stream"),
    }
    feeds = {name: feed_of(strategy, samples) for name, samples in sources.items()}
    model = build_model(data.Inputs((28, 28, 1)), 10, CONFIG)
    optimizer = build_optimizer(CONFIG, schedule(CONFIG, global_batch=64, steps=300, total=9999))
    optimizer.build(model.trainable_variables)
    task = task_of("classification")
    steps = {
        name: Step(strategy, model, optimizer, task, CONFIG, idle=False, report=print).compile(feed)
        for name, feed in feeds.items()
    }
    seconds: dict[str, list[list[float]]] = {name: [] for name in feeds}
    for number in range(int(rounds) + 1):
        taken = {name: [0.0, 0.0] for name in feeds}
        for turn in range(TURNS):
            for name in rotated(list(feeds), turn):
                wall, cpu = timed(strategy, steps[name], feeds[name])
                taken[name][0] += wall
                taken[name][1] += cpu
        for name in feeds if number else ():  # the first round is for warming up
            seconds[name].append([each / (TURNS * STEPS * 64) for each in taken[name]])
    print(json.dumps(seconds))


def rotated(names: list[str], by: int) -> list[str]:
    """Another one is the first in each turn, so that none always runs behind the same other."""
    by %= len(names)
    return names[by:] + names[:by]


def opened(uri: str, mode: str) -> Any:
    """Shards of a URI."""
    return shard_files.open_shards(DataSource(uri, mode), CONFIG, lambda text: None)["train"]


def feed_of(strategy: Distributed, samples: Any) -> Any:
    """The batches of one training."""
    plan = plan_for(samples, CONFIG, replicas=1, global_batch=64, training=True)
    return strategy.iterate(lambda replicas: batches(samples, plan, CONFIG, replicas))


def timed(strategy: Distributed, step: Any, feed: Any) -> tuple[float, float]:
    """Seconds of some steps, and the CPU seconds of this process meanwhile."""
    begin, cpu = time.monotonic(), time.process_time()
    result = None
    for _ in range(STEPS):
        result = strategy.call(step, next(feed))
    strategy.fetch(result)
    return time.monotonic() - begin, time.process_time() - cpu


def lanes_of(uri: str, mode: str) -> Any:
    """The records of one replica of one, in the order of evaluation."""
    samples = opened(uri, mode)
    plan = plan_for(samples, CONFIG, replicas=1, global_batch=64, training=False)
    return samples, Lanes(samples, plan, CONFIG, 0)


def first(uri: str, mode: str) -> None:
    """From the manifest to the first record, as tf.data gives it."""
    tf.constant(0)  # TensorFlow has started
    begin = time.monotonic()
    samples, lanes = lanes_of(uri, mode)
    samples.source.prepare(lanes.shards())
    next(iter(lanes.lane_records(0, tf.constant(0, tf.int64))))
    print(time.monotonic() - begin)


def plain(uri: str) -> None:
    """No manifest is read, and no other shard."""
    tf.constant(0)
    begin = time.monotonic()
    next(iter(tf.data.TFRecordDataset(f"{uri}/shard-0")))
    print(time.monotonic() - begin)


def memory(uri: str) -> None:
    """Stream everything once, and look at the memory meanwhile."""
    samples, lanes = lanes_of(uri, "stream")
    records = iter(lanes.records(tf.constant(0, tf.int64)).prefetch(1))
    folder = stream.folder_in_memory()
    before = most = used(folder)
    ended = threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.wait(0.02):
            most = max(most, used(folder))

    threading.Thread(target=watch, daemon=True).start()
    begin, count = time.monotonic(), 0
    for _ in range(len(samples)):
        count += len(next(records).numpy())
    seconds = time.monotonic() - begin
    ended.set()
    figures = {"before": before, "most": most, "bytes": count, "seconds": seconds}
    print(json.dumps(figures))


def used(folder: Path) -> int:
    """Resident bytes of this process, and those of its files in memory."""
    lines = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
    files = 0
    for path in folder.iterdir():
        try:
            files += path.stat().st_size
        except FileNotFoundError:
            continue
    return resident * 1024 + files


if __name__ == "__main__":
    measurements: Any = {"make": make, "speed": speed, "first": first}
    measurements |= {"plain": plain, "memory": memory}
    measurements[sys.argv[1]](*sys.argv[2:])
