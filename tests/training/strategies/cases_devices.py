"""Devices, Horovod's settings and rates, run by a runtime's python: test_in_runtime.py starts it.

There is no GPU: TensorFlow's lists of devices are replaced.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from standins.case_runner import case, refused, replaced, replaced_module
from tensorflow.python.data.ops import multi_device_iterator_ops

from training import process
from training.config import TrainConfig
from training.job import Job
from training.learning import optimizer
from training.strategies import device_copies, distributed, gpus, horovod


@contextlib.contextmanager
def machine_with(count: int, seen: list[tuple[Any, ...]]) -> Iterator[list[str]]:
    """TensorFlow sees so many GPUs; `seen` receives what is set."""
    devices = [f"gpu:{number}" for number in range(count)]
    calls = {
        "list_physical_devices": lambda kind: devices if kind == "GPU" else [],
        "set_visible_devices": lambda devices, kind: seen.append(("visible", list(devices))),
    }

    def growth(gpu: str, on: bool) -> None:
        seen.append(("growth", gpu, on))

    with replaced(tf.config, **calls), replaced(tf.config.experimental, set_memory_growth=growth):
        yield devices


class Hvd:
    """Rank 3 of 4, the second of the second host; keeps the variables that init() saw."""

    seen: dict[str, str]

    class Compression:
        fp16 = "fp16"

    @classmethod
    def init(cls) -> None:
        cls.seen = {name: value for name, value in os.environ.items() if name[:8] == "HOROVOD_"}

    size = staticmethod(lambda: 4)
    rank = staticmethod(lambda: 3)
    local_rank = staticmethod(lambda: 1)


@case
def a_rank_takes_the_gpu_of_its_local_rank_and_its_memory_as_needed(folder: Path) -> None:
    seen: list[tuple[Any, ...]] = []
    with machine_with(2, seen) as devices, replaced_module("horovod.tensorflow", Hvd):
        horovod.Horovod(TrainConfig(), folder)
        gpus.claim_gpus(devices)
    assert seen == [
        ("visible", ["gpu:1"]),
        ("growth", "gpu:1", True),
        ("visible", devices),
        ("growth", "gpu:0", True),
        ("growth", "gpu:1", True),
    ]
    assert gpus.gpu_for(0, devices) == "gpu:0" and gpus.gpu_for(0, []) is None
    with refused("local rank 2 is one too many for this host's 2"):
        gpus.gpu_for(2, devices)


@case
def strategies_of_one_process_take_one_gpu_or_all(folder: Path) -> None:
    made: list[Any] = []

    def strategy(devices: Any) -> Any:
        made.append(devices)
        return SimpleNamespace(num_replicas_in_sync=1)

    for count, first, all_of_them in (
        (0, "cpu:0", ["cpu:0"]),
        (1, "gpu:0", ["gpu:0"]),
        (3, "gpu:0", ["gpu:0", "gpu:1", "gpu:2"]),
    ):
        seen: list[tuple[Any, ...]] = []
        job = Job("mirrored", TrainConfig(), folder)
        stands = {"OneDeviceStrategy": strategy, "MirroredStrategy": strategy}
        with machine_with(count, seen) as devices, replaced(tf.distribute, **stands):
            distributed.one_device(job)
            distributed.mirrored(job)
        assert made[-2:] == [first, all_of_them]
        visible = [devices for kind, devices, *_ in seen if kind == "visible"]
        assert visible == [devices[:1], devices]
        growing = [devices for kind, devices, *_ in seen if kind == "growth"]
        assert growing == [*devices[:1], *devices]


@case
def no_copy_of_data_to_a_device_has_a_thread_that_ends_late(folder: Path) -> None:
    made: list[Any] = []
    strategy = distributed.Distributed(tf.distribute.MirroredStrategy(["cpu:0"]))
    make = getattr(multi_device_iterator_ops, device_copies.MAKE)

    def recorded(*args: Any) -> Any:
        made.append(make(*args))
        return made[-1]

    with replaced(multi_device_iterator_ops, **{device_copies.MAKE: recorded}):
        feeds = [strategy.iterate(lambda _: tf.data.Dataset.range(3)) for _ in range(2)]
    assert [int(next(feed)) for feed in feeds] == [0, 0]
    assert [data.options().autotune.enabled for data in made] == [False, False]


@case
def a_tensorflow_without_the_module_of_these_copies_trains(folder: Path) -> None:
    """It is a private one, and may have another name in the next TensorFlow."""
    name = multi_device_iterator_ops.__name__
    package, _, attribute = name.rpartition(".")
    try:
        with replaced(sys.modules[package], **{attribute: None}):
            delattr(sys.modules[package], attribute)
            sys.modules[name] = None  # type: ignore[assignment]
            importlib.reload(device_copies).end_at_once()
    finally:
        sys.modules[name] = multi_device_iterator_ops


@case
def an_evaluator_is_no_worker_of_multiworker(folder: Path) -> None:
    task = {"type": "evaluator", "index": 0}
    config = {"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": task}
    os.environ["TF_CONFIG"] = json.dumps(config)
    try:
        with refused("TF_CONFIG's task is 'evaluator': strategy multiworker trains as chief or"):
            distributed.MultiWorker()
    finally:
        del os.environ["TF_CONFIG"]


@case
def horovods_settings_are_there_when_it_starts(folder: Path) -> None:
    config = TrainConfig(fusion_mb=8, cycle_ms=0.5, timeline="on", compression="fp16")
    for name in [name for name in os.environ if name.startswith("HOROVOD_")]:
        del os.environ[name]
    with machine_with(0, []), replaced_module("horovod.tensorflow", Hvd):
        plain = horovod.Horovod(TrainConfig(), folder / "plain")
        assert Hvd.seen == {} and plain.compression is None
        strategy = horovod.Horovod(config, folder / "own")
    assert Hvd.seen == {
        "HOROVOD_FUSION_THRESHOLD": str(8 * 1024 * 1024),
        "HOROVOD_CYCLE_TIME": "0.5",
        "HOROVOD_TIMELINE": str(folder / "own/timeline.json"),
    }
    assert strategy.compression == "fp16" and (folder / "own").is_dir()


@case
def sums_that_are_sent_in_half_precision_stay_finite(folder: Path) -> None:
    """Horovod adds them in half precision, which ends at 65,504."""

    def added(values: list[Any], op: str, compression: str) -> list[Any]:
        halves = [tf.cast(value, tf.float16) for value in values]
        return [tf.cast(half + half + half + half, tf.float32) for half in halves]

    with machine_with(0, []), replaced_module("horovod.tensorflow", Hvd):
        strategy = horovod.Horovod(TrainConfig(compression="fp16"), folder)
    strategy.hvd = SimpleNamespace(
        Sum="sum", allreduce=lambda x, op: 4 * x, grouped_allreduce=added
    )
    (reduced,), total = strategy.reduce([tf.constant([40_000.0, -65_000.0, 1e-3])], tf.constant(9))
    assert np.allclose(reduced, [160_000.0, -260_000.0, 4e-3], rtol=2e-3) and int(total) == 36


@case
def the_rate_rises_in_the_warm_up_and_falls_after_it(folder: Path) -> None:
    shapes = {"cosine": [0.1, 0.2, 0.3, 0.15, 0.0], "linear": [0.1, 0.2, 0.3, 0.15, 0.0]}
    shapes["none"] = [0.1, 0.2, 0.3, 0.3, 0.3]
    quarter = {"cosine": 0.256066, "linear": 0.225, "none": 0.3}  # where the shapes differ
    for decay, rates in shapes.items():
        config = TrainConfig(learning_rate=0.1, batch_size=8, warmup_epochs=2.0, decay=decay)
        rate = optimizer.schedule(config, global_batch=24, steps=10, total=60)
        rates_at = [float(rate(step)) for step in (0, 10, 20, 40, 60, 30)]
        for actual, expected in zip(rates_at, [*rates, quarter[decay]], strict=True):
            assert abs(actual - expected) < 1e-5, (decay, rates_at)


@case
def threads_precision_and_deterministic_operations_are_those_of_the_settings(folder: Path) -> None:
    calls: list[str] = []

    def enable() -> None:
        calls.append("deterministic")

    threads = {
        f"set_{kind}_op_parallelism_threads": lambda number: calls.append(str(number))
        for kind in ("intra", "inter")
    }
    with (
        replaced(tf.config.experimental, enable_op_determinism=enable),
        replaced(tf.config.threading, **threads),
    ):
        process.prepare(Job("one-device", TrainConfig(), folder, threads=3))
        assert calls == ["3", "3"]
        process.prepare(Job("one-device", TrainConfig(deterministic="on"), folder, threads=1))
        assert calls[2:] == ["1", "2", "deterministic"]
        try:
            process.prepare(Job("one-device", TrainConfig(precision="mixed_float16"), folder))
            assert keras.mixed_precision.global_policy().name == "mixed_float16"
        finally:
            keras.mixed_precision.set_global_policy("float32")


@case
def a_hosts_own_settings_of_keras_change_no_training(folder: Path) -> None:
    for own_floatx, own_format in (("float64", "channels_last"), ("float32", "channels_first")):
        keras.config.set_floatx(own_floatx)
        keras.config.set_image_data_format(own_format)
        keras.config.set_epsilon(1e-3)
        with replaced(
            tf.config.threading,
            set_intra_op_parallelism_threads=int,
            set_inter_op_parallelism_threads=int,
        ):
            process.prepare(Job("one-device", TrainConfig(), folder, threads=1))
        used = (keras.config.floatx(), keras.config.image_data_format(), keras.config.epsilon())
        assert used == ("float32", "channels_last", 1e-7)
