"""Trainings with Keras 3, one after the other, run by a runtime's python: as a rank, or as the one
process that the ranks are compared with.

    keras_trainings.py ROLE FOLDER CASE ...    ROLE: rank or alone

Each case writes FOLDER/CASE-NAME.npz with its weights and predictions, and .json with its history
and its evaluation. NAME is the number of the rank, or `alone`. The one process then runs the cases
of parameter servers, which are in the same process; their NAME is 0. REPLICAS is the number of
replicas of a rank: each has a part of its CPU, in place of a GPU.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bootstrap.host.rank import quick_import
from railhead.keras_patches import patch, rows

RANKS = 2
BATCH = 32  # of all replicas together
CLASSES = 4
REPLICAS = int(os.environ.get("REPLICAS", "1"))  # of a rank
INTERRUPTED = 2  # the epoch before which `resume` is interrupted


@dataclass(frozen=True)
class Case:
    """A training. `mirrored`: it is compared with replicas in one process, otherwise with one
    replica that has the whole batch. `coordinated`: with parameter servers."""

    model: str = "dense"
    optimizer: str = "momentum"
    samples: int = 3 * BATCH
    epochs: int = 2
    dataset: bool = False  # otherwise arrays
    weights: str = ""  # class or sample
    policy: str = "float32"
    tolerance: float = 1e-5
    mirrored: bool = False
    coordinated: bool = False
    special: str = ""
    compiled: dict[str, Any] = field(default_factory=dict)
    fitted: dict[str, Any] = field(default_factory=dict)

    @property
    def finite(self) -> bool:
        """Whether no loss is a NaN."""
        return self.special != "overflow"


MAKERS = ("creator", "function", "per-worker")  # special: of the datasets of workers
STEPS = {"steps_per_epoch": 3, "validation_steps": 3}
CASES = {
    "momentum": Case("unbuilt"),
    "adam": Case("convolution", "adam", dataset=True),
    "embedding": Case("embedding", "adam", weights="sample"),
    "clipped": Case(optimizer="clipped"),
    "generator": Case(special="generator"),
    "class-weights": Case(weights="class"),
    "steps": Case(samples=10 * BATCH, compiled={"steps_per_execution": 4}, dataset=True),
    "uneven": Case(samples=2 * BATCH + 26, mirrored=True, dataset=True),
    "uneven-steps": Case(
        "unbuilt",
        weights="class",
        samples=6 * BATCH + 1,
        mirrored=True,
        compiled={"steps_per_execution": 4},
        dataset=True,
    ),
    "without-samples": Case(samples=2 * BATCH + 1, mirrored=True),
    "eager": Case(compiled={"run_eagerly": True}, epochs=1),
    "eager-steps": Case(compiled={"run_eagerly": True, "steps_per_execution": 2}, epochs=1),
    "synchronized": Case("synchronized"),
    "normalized": Case("normalized", mirrored=True),
    "half": Case(policy="mixed_float16", tolerance=5e-3),
    "overflow": Case(policy="mixed_float16", tolerance=5e-3, special="overflow", weights="sample"),
    "resume": Case(epochs=4, special="resume"),
    "early-stop": Case(epochs=4, special="early-stop"),
    "files": Case(special="files"),
    "on-batch": Case(special="on-batch"),
    # Steps of one worker are in order, so they make the same model as one process.
    "coordinated": Case("unbuilt", coordinated=True, fitted=STEPS),
    "coordinated-steps": Case(
        "embedding",
        "adam",
        samples=8 * BATCH,
        dataset=True,
        coordinated=True,
        compiled={"steps_per_execution": 4},
        fitted={"steps_per_epoch": 8, "validation_steps": 4},
    ),
    "coordinated-creator": Case(
        "embedding",
        "adam",
        samples=8 * BATCH,
        coordinated=True,
        special="creator",
        compiled={"steps_per_execution": 4},
        fitted={"steps_per_epoch": 8, "validation_steps": 4},
    ),
    "coordinated-function": Case(coordinated=True, special="function", fitted=STEPS),
    "coordinated-per-worker": Case("unbuilt", coordinated=True, special="per-worker", fitted=STEPS),
}


def main(role: str, folder: str, *names: str) -> None:
    """Run the cases in this order."""
    notices: list[str] = []
    strategy_name = "multiworker" if role == "rank" else "parameter-server"
    quick_import.install()
    patch.install(rows.patches_for(strategy_name), notices.append)
    prepare()
    coordinated = [name for name in names if CASES[name].coordinated]
    if role == "rank":
        import tensorflow as tf

        rank = json.loads(os.environ["TF_CONFIG"])["task"]["index"]
        several_replicas()
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        run_all([name for name in names if name not in coordinated], strategy, rank, folder)
    else:
        run_all(names, None, None, folder)
        if coordinated:
            servers = parameter_servers()
            run_all(coordinated, servers, 0, folder)
            Path(folder, "refusals.json").write_text(json.dumps(refusals(servers)))
    Path(folder, f"notices-{role}.json").write_text(json.dumps(notices))


def prepare() -> None:
    """Use little of the CPU: one thread, and graphs that are not optimized. As many devices as
    there are replicas, for the comparison."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    (cpu,) = tf.config.list_physical_devices("CPU")
    parts = [tf.config.LogicalDeviceConfiguration()] * (RANKS * REPLICAS)
    tf.config.set_logical_device_configuration(cpu, parts)


def several_replicas() -> None:
    """Give each rank its replicas. TensorFlow itself has one for each GPU, and one on a CPU."""
    from tensorflow.python.distribute import collective_all_reduce_strategy as module

    def devices(_: Any, __: Any, worker: str) -> tuple[tuple[str, ...], str]:
        return tuple(f"{worker}/device:CPU:{number}" for number in range(REPLICAS)), "CPU"

    module.CollectiveAllReduceExtended._initialize_local_devices = devices


def parameter_servers() -> Any:
    """The strategy of a chief whose servers and workers are in this process."""
    import tensorflow as tf

    cluster = json.loads(os.environ["TF_CONFIG"])["cluster"]
    spec = tf.train.ClusterSpec({role: cluster[role] for role in ("ps", "worker")})
    for role in ("ps", "worker"):
        for index in range(len(cluster[role])):
            tf.distribute.Server(spec, job_name=role, task_index=index, protocol="grpc")
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(spec, rpc_layer="grpc")
    partitioner = tf.distribute.experimental.partitioners.MinSizePartitioner(max_shards=2)
    return tf.distribute.ParameterServerStrategy(resolver, partitioner)


def run_all(names: Sequence[str], strategy: Any, rank: int | None, folder: str) -> None:
    """Run cases and write what they left; without a rank, for the comparison."""
    import tensorflow as tf

    mirrored = None
    for name in names:
        case, used = CASES[name], strategy
        if rank is None and case.mirrored:
            mirrored = mirrored or tf.distribute.MirroredStrategy(names_of_cpus())
            # Without patches, Keras 3 fails there with several steps for each execution.
            case, used = replace(case, compiled={}), mirrored
        training = Training(case, used, rank or 0, Path(folder, f"backup-{rank}"))
        began = time.time()
        try:
            arrays, values = training.run()
        except Exception:  # the others may show why
            print(f"case {name}:", flush=True)
            traceback.print_exc()
            continue
        print(f"{name}: {time.time() - began:.1f} s", flush=True)
        place = f"{name}-{'alone' if rank is None else rank}"
        np.savez(Path(folder, f"{place}.npz"), **arrays)
        Path(folder, f"{place}.json").write_text(json.dumps(values))


def refusals(strategy: Any) -> dict[str, str]:
    """What a chief refuses, and its messages; empty for what it does not refuse."""
    import keras
    import tensorflow as tf

    x, y, _ = samples(Case())
    model = Training(Case(), strategy, 0, Path()).model()
    pairs = Training(Case(compiled={"steps_per_execution": 2}), strategy, 0, Path()).model()
    eager = Training(Case(compiled={"run_eagerly": True}), strategy, 0, Path()).model()
    each = keras.callbacks.LambdaCallback(on_train_batch_end=print)
    calls: dict[str, Callable[[], Any]] = {
        "steps_per_epoch": lambda: model.fit(x, y, verbose=0),
        "validation_steps": lambda: model.fit(
            x, y, verbose=0, steps_per_epoch=1, validation_data=(x, y)
        ),
        "multiple": lambda: pairs.fit(x, y, steps_per_epoch=3),
        "generator": lambda: model.fit(((x, y) for _ in range(9)), steps_per_epoch=3),
        "LambdaCallback": lambda: model.fit(x, y, steps_per_epoch=3, callbacks=[each]),
        "run_eagerly": lambda: eager.fit(x, y, steps_per_epoch=3),
        "train_on_batch": lambda: model.train_on_batch(x, y),
        "test_on_batch": lambda: model.test_on_batch(x, y),
    }
    messages = {name: message_of(call) for name, call in calls.items()}
    shards = tf.distribute.experimental.partitioners.FixedShardsPartitioner(2)
    strategy.extended._variable_partitioner = shards
    model = Training(Case("unbuilt"), strategy, 0, Path()).model()
    partitioned = message_of(lambda: model.fit(x, y, steps_per_epoch=3, verbose=0))
    return messages | {"variable_partitioner": partitioned}


def save_as_with_keras_2(model: Any, folder: Path) -> None:
    """Save under names that Keras 3 does not accept, and load it under the same names."""
    import keras

    folder.mkdir(exist_ok=True)
    model.save(folder / "model", save_format="tf")
    model.save_weights(folder / "weights")
    for name, weights_only in (("last", False), ("last-weights", True)):
        callback = keras.callbacks.ModelCheckpoint(folder / name, save_weights_only=weights_only)
        callback.set_model(model)
        callback.on_epoch_end(0, {})
    left = {path.name for path in folder.iterdir()}
    files = {"model.keras", "weights.weights.h5", "last.keras", "last-weights.weights.h5"}
    assert left == {*files, "model"} and (folder / "model/saved_model.pb").exists()
    again = keras.models.load_model(folder / "model")
    for load in (lambda: None, lambda: again.load_weights(folder / "weights")):
        load()
        for one, other in zip(again.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_array_equal(one, other)
        again.set_weights([array * 0 for array in again.get_weights()])


def message_of(call: Callable[[], Any]) -> str:
    """The message of its ValueError; empty without one."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


def names_of_cpus() -> list[str]:
    """The devices that this process has cut its CPU into."""
    import tensorflow as tf

    return [device.name for device in tf.config.list_logical_devices("CPU")]


class Training:
    """A case on a strategy; None for one replica without a strategy."""

    def __init__(self, case: Case, strategy: Any, rank: int, backup: Path) -> None:
        self.case, self.strategy, self.rank, self.backup = case, strategy, rank, backup
        self.calls = 0  # of a callback after each execution

    def run(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Train; returns arrays, and values."""
        import keras

        keras.utils.set_random_seed(1)
        keras.mixed_precision.set_dtype_policy(self.case.policy)
        x, y, weight = samples(self.case)
        model = self.model()
        if self.case.special == "on-batch":
            history = self.train_on_batches(model, x, y)
        elif self.case.special == "resume":
            model, history = self.resume(model, x, y)
        else:
            history = model.fit(**self.arguments(x, y, weight), callbacks=self.callbacks()).history
        steps = {"steps": self.case.fitted["validation_steps"]} if self.case.fitted else {}
        evaluation = model.evaluate(x, y, batch_size=BATCH, verbose=0, return_dict=True, **steps)
        arrays = {f"weight-{n}": np.asarray(w) for n, w in enumerate(model.get_weights())}
        arrays |= {f"trainable-{n}": w.numpy() for n, w in enumerate(model.trainable_weights)}
        if self.case.special == "files":
            arrays["predictions"] = model.predict(lines_of(x, self.backup), verbose=0)
        else:
            arrays["predictions"] = model.predict(x, batch_size=BATCH, verbose=0)
        for metric in model.metrics:
            metric.reset_states()  # as Keras 2 calls it
        assert model.optimizer.lr.numpy() < 1, "the rate, as Keras 2 calls it"
        if self.strategy is None and self.case.model == "unbuilt" and not self.case.coordinated:
            save_as_with_keras_2(model, Path(f"{self.backup}-saved"))
        values = {"history": history, "evaluation": evaluation, "calls": self.calls}
        return arrays, values | {"iterations": int(model.optimizer.iterations.numpy())}

    def model(self) -> Any:
        """The compiled model, in the strategy's scope."""
        import keras

        scope = self.strategy.scope() if self.strategy else contextlib.nullcontext()
        with scope:
            model = keras.Sequential(layers(self.case.model))
            model.compile(
                optimizer(self.case.optimizer),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
                **self.case.compiled,
            )
        return model

    def arguments(self, x: Any, y: Any, weight: Any) -> dict[str, Any]:
        """Of fit."""
        import tensorflow as tf

        given = {"verbose": 0, "epochs": self.case.epochs, "validation_data": (x, y)}
        given |= {"validation_batch_size": BATCH, **self.case.fitted}
        if self.case.weights == "class":
            given["class_weight"] = {0: 0.5, 1: 1.0, 2: 2.0, 3: 0.25}
        own = self.case.special if self.strategy else ""
        if self.case.special == "generator":  # it gives each batch once
            splits = range(BATCH, len(x), BATCH)
            pairs = zip(np.split(x, splits), np.split(y, splits), strict=True)
            return given | {"x": (pair for pair in pairs), "epochs": 1}
        if not self.case.dataset and own not in MAKERS:
            arrays = {"x": x, "y": y, "sample_weight": weight}
            return given | arrays | {"shuffle": False, "batch_size": BATCH}

        def dataset() -> Any:
            return tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH)

        if own == "creator":
            make = tf.keras.utils.experimental.DatasetCreator
            return given | {"x": make(lambda _: dataset().repeat())}
        if own == "per-worker":
            coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
            make = coordinator.create_per_worker_dataset
            return given | {"x": make(lambda: dataset().repeat())}
        if not self.case.dataset:
            make = self.strategy.distribute_datasets_from_function
            return given | {"x": make(lambda _: dataset().repeat())}
        options = tf.data.Options()
        policies = tf.data.experimental.AutoShardPolicy
        options.experimental_distribute.auto_shard_policy = policies.DATA
        return given | {"x": dataset().with_options(options)}

    def callbacks(self) -> list[Any]:
        """What fit calls."""
        import keras

        if self.case.special == "early-stop":
            return [keras.callbacks.EarlyStopping("loss", min_delta=1e9)]
        if self.case.fitted:  # a chief has no results of a batch
            return []
        return [keras.callbacks.LambdaCallback(on_train_batch_end=self.count)]

    def count(self, *_: Any, **__: Any) -> None:
        """After each execution."""
        self.calls += 1

    def resume(self, model: Any, x: Any, y: Any) -> tuple[Any, dict[str, list[float]]]:
        """Interrupt a training, and continue it with a new model, as a new process would. The one
        process that it is compared with is not interrupted."""
        import keras

        given = self.arguments(x, y, None)
        if not self.strategy:
            history = model.fit(**given).history
            return model, {name: values[INTERRUPTED:] for name, values in history.items()}
        backup = keras.callbacks.BackupAndRestore(str(self.backup))
        with contextlib.suppress(InterruptedError):
            end = keras.callbacks.LambdaCallback(on_epoch_begin=interrupt)
            model.fit(**given, callbacks=[backup, end])
        keras.utils.set_random_seed(2)  # other initial weights
        model = self.model()
        return model, model.fit(**given, callbacks=[backup]).history

    def train_on_batches(self, model: Any, x: Any, y: Any) -> dict[str, list[float]]:
        """Each rank has its part of each batch."""
        size = BATCH // RANKS if self.strategy else BATCH
        losses = []
        for start in range(self.rank * size, len(x), BATCH):
            part = slice(start, start + size)
            logs = model.train_on_batch(x[part], y[part], return_dict=True)
            losses.append(float(logs["loss"]))
        return {"loss": losses}


def interrupt(epoch: int, _: Any) -> None:
    """Stands for the end of the process."""
    if epoch == INTERRUPTED:
        raise InterruptedError


def samples(case: Case) -> tuple[Any, Any, Any]:
    """Inputs, labels and weights."""
    random = np.random.RandomState(0)
    y = random.randint(0, CLASSES, case.samples)
    if case.model == "embedding":
        x = random.randint(0, 20, (case.samples, 6))
    else:
        shape = (8, 8, 1) if case.model == "convolution" else (8,)
        x = random.rand(case.samples, *shape).astype("float32") + y.reshape(-1, *[1] * len(shape))
    if case.special == "overflow":
        x[BATCH + BATCH // 2 + 1] = np.inf  # in the second batch, in the part of rank 1
    weight = random.rand(case.samples).astype("float32") if case.weights == "sample" else None
    return x, y, weight


def lines_of(x: Any, folder: Path) -> Any:
    """A dataset of the same samples, from two files."""
    import tensorflow as tf

    folder.mkdir(exist_ok=True)
    paths = [str(folder / name) for name in ("first", "second")]
    for path, part in zip(paths, np.array_split(x, 2), strict=True):
        np.savetxt(path, part, "%.9g")

    def sample(line: Any) -> Any:
        return tf.ensure_shape(tf.strings.to_number(tf.strings.split(line)), x.shape[1:])

    return tf.data.TextLineDataset(paths).map(sample).batch(BATCH)


def layers(name: str) -> list[Any]:
    """The layers of a model."""
    from keras import layers as of

    first = {
        "unbuilt": [of.Dense(16, activation="tanh")],
        "dense": [of.Input((8,)), of.Dense(16, activation="relu")],
        "convolution": [of.Conv2D(4, 3, activation="relu"), of.GlobalAveragePooling2D()],
        "embedding": [of.Embedding(20, 8), of.GlobalAveragePooling1D()],
        "normalized": [of.Dense(16), of.BatchNormalization(momentum=0.5)],
        "synchronized": [of.Dense(16), of.BatchNormalization(momentum=0.5, synchronized=True)],
    }
    return [*first[name], of.Dense(CLASSES, dtype="float32")]


def optimizer(name: str) -> Any:
    """Adam divides by the root of a square: a large epsilon keeps rounding errors small."""
    import keras

    if name == "adam":
        return keras.optimizers.Adam(0.01, epsilon=1e-3)
    if name == "clipped":
        return keras.optimizers.SGD(
            0.05, 0.9, global_clipnorm=0.1, gradient_accumulation_steps=2, weight_decay=0.01,
            use_ema=True, ema_momentum=0.5, ema_overwrite_frequency=2,
        )  # fmt: skip
    return keras.optimizers.SGD(lr=0.05, momentum=0.9)


if __name__ == "__main__":
    main(*sys.argv[1:])
