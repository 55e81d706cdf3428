"""Patches of Keras 3 under ParameterServerStrategy: model.fit, evaluate and predict on the chief.

As in Keras 2, a ClusterCoordinator gives the steps to the workers, each of which reads all of the
data, and the results are read when all steps of an epoch have ended. What cannot work is refused.
They change nothing for other strategies. `trainer` is the module
keras.src.backend.tensorflow.trainer, which has imported TensorFlow as `tf`.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .multiworker import TRAINER, undecorated
from .names import not_converted
from .patch import Patch, source_has

NAME = "ParameterServerStrategy"
# Callbacks of Keras that do not use the results of a batch.
WITHOUT_RESULTS = ("BackupAndRestore", "ModelCheckpoint", "ProgbarLogger", "TensorBoard")
BATCH_HOOKS = ("on_batch_end", "on_train_batch_end", "on_test_batch_end")


def is_coordinated(strategy: Any) -> bool:
    """Whether a strategy is ParameterServerStrategy."""
    return bool(getattr(strategy, "_should_use_with_coordinator", False))


def coordinator_of(trainer: Any, strategy: Any) -> Any:
    """The coordinator of a strategy: TensorFlow has one for each."""
    return trainer.tf.distribute.coordinator.ClusterCoordinator(strategy)


class PendingResults(dict[str, Any]):
    """The results of a step that a worker may not have computed yet: empty for callbacks."""

    def __init__(self, remote: Any) -> None:
        super().__init__()
        self.remote = remote


def train_with_coordinator(trainer: Any) -> None:
    """The steps of fit and evaluate run on the workers, those of predict on the chief."""
    trainer_class = trainer.TensorFlowTrainer
    trainer.TFEpochIterator = epoch_iterator(trainer)
    trainer_class._maybe_symbolic_build = symbolic_build(trainer_class._maybe_symbolic_build)
    trainer_class._make_function = scheduled(trainer, trainer_class._make_function)
    trainer_class._get_metrics_result_or_logs = fetched(trainer_class._get_metrics_result_or_logs)
    for name in ("fit", "evaluate"):
        setattr(trainer_class, name, checked(trainer, getattr(trainer_class, name)))
    for name in ("predict", "predict_on_batch"):
        setattr(trainer_class, name, on_chief(getattr(trainer_class, name)))
    for name in ("train_on_batch", "test_on_batch"):
        setattr(trainer_class, name, refused(getattr(trainer_class, name)))


def epoch_iterator(trainer: Any) -> Any:
    """Keras' iterator over the batches of an epoch, which gives each worker its own."""

    class EpochIterator(trainer.TFEpochIterator):  # type: ignore[misc]
        coordinator: Any = None
        _distributed_dataset: Any

        def __init__(self, distribute_strategy: Any = None, *args: Any, **options: Any) -> None:
            if is_coordinated(distribute_strategy):
                self.coordinator = coordinator_of(trainer, distribute_strategy)
                if isinstance(creator := options.get("x"), DatasetCreator):
                    options = {**options, "x": creator.for_workers(self.coordinator)}
            data = options.get("x")
            if self.coordinator:
                options = checked_data(trainer, options)
            super().__init__(distribute_strategy, *args, **options)
            if self.coordinator and not is_per_worker(data):
                data = self.coordinator.create_per_worker_dataset(self._distributed_dataset)
            if self.coordinator:
                self._distributed_dataset = data

        def batch_spec(self) -> Any:
            """The shapes and types of a batch of one replica."""
            return trainer.tree.map_structure(
                lambda spec: getattr(spec, "_value_specs", (spec,))[0],
                self._distributed_dataset.element_spec,
            )

        def tf_sync(self) -> None:
            """Wait for all steps: their errors are raised here."""
            if self.coordinator:
                self.coordinator.join()
            else:
                super().tf_sync()

    return EpochIterator


class DatasetCreator:
    """`keras.utils.experimental.DatasetCreator` of Keras 2: a function that makes the dataset of a
    worker."""

    def __init__(self, dataset_fn: Callable[[Any], Any], input_options: Any = None) -> None:
        self.dataset_fn, self.input_options = dataset_fn, input_options

    def for_workers(self, coordinator: Any) -> Any:
        """The dataset of all workers, each of which calls the function."""
        make = coordinator.strategy.distribute_datasets_from_function
        return coordinator.create_per_worker_dataset(
            not_converted(lambda: make(self.dataset_fn, self.input_options))
        )


def add_creator(module: Any) -> None:
    """keras.utils: the module `experimental` with DatasetCreator."""
    module.experimental = ModuleType(f"{module.__name__}.experimental")
    vars(module.experimental)["DatasetCreator"] = DatasetCreator
    sys.modules[module.experimental.__name__] = module.experimental


def checked_data(trainer: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of an epoch iterator.

    Raises:
        ValueError: they have no number of steps, or one that is not a multiple of
            steps_per_execution, or data that only this process can read.
    """
    steps, together = options.get("steps_per_epoch"), options.get("steps_per_execution", 1)
    if not steps:
        raise ValueError(
            f"{NAME} needs the number of steps of all workers together: give fit steps_per_epoch, "
            "and validation_steps with validation_data; give evaluate steps"
        )
    if steps % together:
        raise ValueError(
            f"{NAME}: the number of steps, {steps}, must be a multiple of steps_per_execution, "
            f"{together}: change steps_per_epoch, or steps_per_execution of compile"
        )
    data, distributed = options.get("x"), trainer.tf.distribute.DistributedDataset
    if isinstance(data, distributed) or is_per_worker(data):
        return {**options, "x": worker_data(data, options)}
    if not isinstance(data, trainer.tf.data.Dataset) and not is_arrays(trainer, data):
        raise ValueError(
            f"{NAME}: the workers cannot read a {type(data).__name__} of the chief: use arrays, a "
            "tf.data.Dataset, strategy.distribute_datasets_from_function, or "
            "coordinator.create_per_worker_dataset"
        )
    if not isinstance(data, trainer.tf.data.Dataset):
        check_passes(len(trainer.tree.flatten(data)[0]), options.get("batch_size") or 32, steps)
    return options


def check_passes(rows: int, batch_size: int, steps: int) -> None:
    """ValueError for a number of steps that does not fit arrays: all workers together read them
    once, so the data would end in the middle of an epoch."""
    batches = -(-rows // batch_size)
    if batches % steps:
        raise ValueError(
            f"{NAME}: {batches} batches of arrays are read once, so the number of steps, {steps}, "
            "must divide them: or use tf.data.Dataset.from_tensor_slices(...).batch(...).repeat()"
        )


def is_per_worker(data: Any) -> bool:
    """Whether a script got it from coordinator.create_per_worker_dataset."""
    from tensorflow.python.distribute.coordinator import values

    return isinstance(data, values.PerWorkerDatasetFromDatasetFunction)


def is_arrays(trainer: Any, data: Any) -> bool:
    """Whether all of it is arrays or tensors."""
    return all(map(trainer.array_slicing.can_slice_array, trainer.tree.flatten(data)))


def worker_data(dataset: Any, options: dict[str, Any]) -> Any:
    """A data adapter of a distributed dataset: Keras' own reads the size, which is not known before
    the workers have computed it."""
    from keras.src.trainers.data_adapters.data_adapter import DataAdapter

    if options.get("class_weight"):
        raise ValueError(
            f"{NAME}: class_weight does not apply to a distributed dataset: "
            "let its function return sample weights"
        )

    class WorkerData(DataAdapter):  # type: ignore[misc]
        num_batches = None

        def get_tf_dataset(self) -> Any:
            """The dataset itself."""
            return dataset

    return WorkerData()


def symbolic_build(build: Callable[..., None]) -> Callable[..., None]:
    """Build the model from the shapes that the dataset declares: the chief reads no batch."""

    @functools.wraps(build)
    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is not None and is_coordinated(self.distribute_strategy):
            iterator, data_batch = None, iterator.batch_spec()
        build(self, iterator=iterator, data_batch=data_batch)
        if is_coordinated(self.distribute_strategy):
            check_variables(self)

    return _maybe_symbolic_build


def check_variables(model: Any) -> None:
    """ValueError for variables of which each server has a part. A `variable_partitioner` does not
    divide small ones."""
    for variable in model.variables:
        if type(variable._value).__name__ == "ShardedVariable":
            raise ValueError(
                f"{NAME}: Keras 3 has no partitioned variables, and its variable_partitioner "
                f"divides {variable.path}: create it without, or run the script with --keras 2"
            )


def scheduled(trainer: Any, make: Callable[..., Any]) -> Callable[..., Any]:
    """A function of an iterator that lets a worker run `steps_per_execution` steps."""
    tf = trainer.tf

    @functools.wraps(make)
    def _make_function(self: Any, step_function: Any) -> Any:
        strategy, steps = self.distribute_strategy, self.steps_per_execution
        if not is_coordinated(strategy):
            return make(self, step_function)
        coordinator = coordinator_of(trainer, strategy)

        def one_step(iterator: Any) -> Any:
            results = strategy.run(step_function, args=(iterator.get_next(),))
            return trainer.reduce_per_replica(results, strategy, reduction="auto")

        def all_steps(iterator: Any) -> Any:
            def body(number: Any) -> Any:
                one_step(iterator)
                return number + 1

            tf.while_loop(lambda number: number < steps - 1, body, (tf.constant(0),))
            return one_step(iterator)

        execute = tf.function(undecorated(tf, all_steps), reduce_retracing=True)
        return lambda iterator: PendingResults(coordinator.schedule(execute, args=(iterator,)))

    return _make_function


def fetched(get: Callable[..., Any]) -> Callable[..., Any]:
    """The results of an epoch, after all of its steps have ended."""

    @functools.wraps(get)
    def _get_metrics_result_or_logs(self: Any, logs: Any) -> Any:
        return get(self, logs.remote.fetch() if isinstance(logs, PendingResults) else logs)

    return _get_metrics_result_or_logs


def checked(trainer: Any, method: Callable[..., Any]) -> Callable[..., Any]:
    """fit or evaluate, which refuses what steps on workers cannot do."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if is_coordinated(self.distribute_strategy):
            arguments = inspect.signature(method).bind_partial(self, *args, **options).arguments
            check(trainer, self, arguments.get("callbacks"))
        return method(self, *args, **options)

    return call


def check(trainer: Any, model: Any, callbacks: Any) -> None:
    """Raise ValueError for what cannot work: eager steps, and callbacks that use the results of
    each batch."""
    if model.run_eagerly:
        raise ValueError(f"{NAME}: workers run graphs only: compile without run_eagerly=True")
    if isinstance(callbacks, trainer.callbacks_module.CallbackList):
        return  # fit has checked them
    for callback in trainer.tree.flatten(callbacks) if callbacks else []:
        hooks = [name for name in BATCH_HOOKS if needs_results(callback, name)]
        if hooks:
            raise ValueError(
                f"{NAME}: {type(callback).__name__}.{hooks[0]} would get no results, because "
                "workers run the steps later: use on_epoch_end"
            )


def needs_results(callback: Any, name: str) -> bool:
    """Whether a hook of a callback may use the results of a batch."""
    if is_default(getattr(callback, name, None)):
        return False
    owners = [kind for kind in type(callback).__mro__ if name in vars(kind)]
    if name in vars(callback) or not owners or owners[0].__name__ not in WITHOUT_RESULTS:
        return True
    each_batch = getattr(callback, "update_freq", "epoch") != "epoch"  # of TensorBoard
    best_of = getattr(callback, "save_best_only", False) and callback.save_freq != "epoch"
    return bool(each_batch or best_of)


def is_default(hook: Any) -> bool:
    """Whether a hook is that of Keras' own base class, which does nothing."""
    return hook is None or getattr(hook, "_is_default", False)


def on_chief(method: Callable[..., Any]) -> Callable[..., Any]:
    """predict or predict_on_batch, in this process and without the strategy, as in Keras 2."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        strategy = self._distribute_strategy
        if is_coordinated(strategy):
            self._distribute_strategy = None
        try:
            return method(self, *args, **options)
        finally:
            self._distribute_strategy = strategy

    return call


def refused(method: Callable[..., Any]) -> Callable[..., Any]:
    """train_on_batch or test_on_batch: they do not run on the workers."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        if is_coordinated(self.distribute_strategy):
            raise ValueError(
                f"{NAME}: {method.__name__} would run on the chief, not on the workers: "
                "use fit or evaluate"
            )
        return method(self, *args, **options)

    return call


PARAMETER_SERVER = (
    Patch(
        TRAINER,
        ("parameter-server",),
        "",
        "the workers run the steps of `fit` and `evaluate`, and the chief `predict`",
        train_with_coordinator,
        source_has("TFEpochIterator", "create_per_worker_dataset", expected=False),
    ),
    *(
        Patch(
            module,
            ("parameter-server",),
            "",
            "`keras.utils.experimental.DatasetCreator` of Keras 2 works",
            add_creator,
            lambda module: not hasattr(module, "experimental"),
        )
        for module in ("keras.utils", "keras._tf_keras.keras.utils")
    ),
)
