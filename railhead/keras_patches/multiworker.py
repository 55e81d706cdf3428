"""Patches of Keras 3 under MultiWorkerMirroredStrategy: model.fit, evaluate, predict and
train_on_batch. Only those that also name `mirrored` change anything for a strategy of one process.

`trainer` is the module keras.src.backend.tensorflow.trainer, which has imported TensorFlow as `tf`.
"""

from __future__ import annotations

import functools
import itertools
import os
import zlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .patch import Patch, source_has

TRAINER = "keras.src.backend.tensorflow.trainer"
LOSS_SCALE = "keras.src.optimizers.loss_scale_optimizer"
ARRAYS = "keras.src.trainers.data_adapters.array_data_adapter"
ISSUE = "keras-team/keras#20585"


def is_multi_worker(trainer: Any, strategy: Any) -> bool:
    """Whether a strategy is MultiWorkerMirroredStrategy over several processes."""
    return bool(trainer._collective_all_reduce_multi_worker(strategy))


def build_from_shapes(trainer: Any) -> None:
    """Build a model from the shapes of a batch alone. Keras reads a batch for them, which a
    generator does not yield again."""
    trainer_class = trainer.TensorFlowTrainer
    build = trainer_class._maybe_symbolic_build

    @functools.wraps(build)
    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self._distribute_strategy
        if iterator is not None and strategy is not None:
            data_batch = shapes_of_batch(trainer, iterator)
            if data_batch is None and is_multi_worker(trainer, strategy):
                data_batch = local_batch(trainer, strategy, iterator)
            iterator = iterator if data_batch is None else None
        build(self, iterator=iterator, data_batch=data_batch)

    trainer_class._maybe_symbolic_build = _maybe_symbolic_build


def shapes_of_batch(trainer: Any, iterator: Any) -> Any:
    """The shapes and types of a replica's batch, as its data shows them without being read; of a
    generator also those of the first batch, which Keras keeps. None if some are not known."""
    tf, tree = trainer.tf, trainer.tree

    def of_replica(spec: Any) -> Any:
        spec = getattr(spec, "_value_specs", (spec,))[0]
        return None if isinstance(spec, tf.OptionalSpec) else spec

    def is_known(spec: Any) -> bool:
        shape = getattr(spec, "shape", None)
        return spec is None or (shape is not None and shape.rank and None not in shape[1:])

    specs = tree.map_structure(of_replica, iterator._distributed_dataset.element_spec)
    if all(map(is_known, tree.flatten(specs))):
        return specs
    first = getattr(iterator.data_adapter, "_first_batches", None)
    return first[0] if first else None


def local_batch(trainer: Any, strategy: Any, iterator: Any) -> Any:
    """A batch of this process's part."""
    _, _, batches = next(iter(iterator))
    return trainer.tree.map_structure(
        lambda value: strategy.experimental_local_results(value)[0], next(batches)
    )


def reduce_scalars(trainer: Any) -> None:
    """The results of a step are scalars, which have no axis 0."""
    reduce = trainer.reduce_per_replica

    @functools.wraps(reduce)
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction not in ("auto", "mean", "sum") or not is_multi_worker(trainer, strategy):
            return reduce(values, strategy, reduction)
        operation = "SUM" if reduction == "sum" else "MEAN"
        return trainer.tree.map_structure(
            lambda value: strategy.reduce(operation, value, axis=None), values
        )

    trainer.reduce_per_replica = reduce_per_replica


def whole_results(trainer: Any) -> None:
    """The results of a step are values of the whole batch: a variable is read in its replica. XLA
    does not have the collectives. It wraps `loop_over_steps`."""
    trainer_class, tf = trainer.TensorFlowTrainer, trainer.tf
    make = trainer_class._make_function

    @functools.wraps(make)
    def _make_function(self: Any, step_function: Any) -> Any:
        if not is_multi_worker(trainer, self.distribute_strategy):
            return make(self, step_function)
        if self.jit_compile:
            print("railhead: jit_compile has no effect: steps of several processes have no XLA")
            self.jit_compile = False

        def value_of(result: Any) -> Any:
            return tf.convert_to_tensor(result) if hasattr(result, "assign") else result

        @functools.wraps(step_function)
        def step(data: Any) -> Any:
            return trainer.tree.map_structure(value_of, step_function(data))

        return make(self, step)

    trainer_class._make_function = _make_function


def loop_over_steps(trainer: Any) -> None:
    """steps_per_execution > 1: a step in a loop must not be a tf.function, as it is in Keras."""
    trainer_class = trainer.TensorFlowTrainer
    make = trainer_class._make_function

    @functools.wraps(make)
    def _make_function(self: Any, step_function: Any) -> Callable[[Any], Any]:
        if self.steps_per_execution == 1 or not is_multi_worker(trainer, self.distribute_strategy):
            function: Callable[[Any], Any] = make(self, step_function)
            return function
        return several_steps(trainer, self, step_function)

    trainer_class._make_function = _make_function


def several_steps(trainer: Any, model: Any, step_function: Any) -> Callable[[Any], Any]:
    """A function of an iterator that runs `steps_per_execution` steps, or as many as there are
    batches. It returns the results of the last one, and raises OutOfRangeError without a batch."""
    tf, steps = trainer.tf, model.steps_per_execution

    def graph(function: Any) -> Any:
        return function if model.run_eagerly else tf.function(function, reduce_retracing=True)

    def one_step(batch: Any) -> Any:
        results = model.distribute_strategy.run(step_function, args=(batch,))
        return trainer.reduce_per_replica(results, model.distribute_strategy, reduction="auto")

    # Not a separate tf.function: the keys of its collectives would have no value in the loop.
    step = model._autoconvert_optionals(undecorated(tf, one_step))

    def all_steps(iterator: Any) -> Any:
        def body(number: Any, _: Any, results: Any) -> Any:
            batch = iterator.get_next_as_optional()
            more = batch.has_value()
            next_results = tf.cond(more, lambda: step(batch.get_value()), lambda: results)
            return number + 1, more, next_results

        first = step(iterator.get_next())
        state = (tf.constant(1), tf.constant(True), first)
        # One iteration at a time: the ranks must meet in the same order.
        return tf.while_loop(
            lambda number, more, _: tf.logical_and(number < steps, more),
            body,
            state,
            parallel_iterations=1,
        )[2]

    execute, execute_one = graph(undecorated(tf, all_steps)), graph(step)

    def function(iterator: Any) -> Any:
        if isinstance(iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)):
            return execute(iterator)
        results = None
        for _, batch in zip(range(steps), iterator, strict=False):
            results = execute_one(batch)
        return results

    return function


def undecorated(tf: Any, function: Callable[..., Any]) -> Any:
    """A function that AutoGraph leaves as it is."""
    return tf.autograph.experimental.do_not_convert(function)


def predict_in_order(trainer: Any) -> None:
    """The rows of predictions are in the order of the data: each rank predicts its part of each
    batch, and not of the files, as with Keras 2. Data that must not be sharded stays as it is."""
    trainer_class, tf = trainer.TensorFlowTrainer, trainer.tf
    keras_predict = trainer_class.predict

    @functools.wraps(keras_predict)
    def predict(self: Any, x: Any, *args: Any, **options: Any) -> Any:
        if isinstance(x, tf.data.Dataset) and is_multi_worker(trainer, self.distribute_strategy):
            by_sample = tf.data.Options()
            policies = tf.data.experimental.AutoShardPolicy
            if x.options().experimental_distribute.auto_shard_policy != policies.OFF:
                by_sample.experimental_distribute.auto_shard_policy = policies.DATA
                x = x.with_options(by_sample)
        return keras_predict(self, x, *args, **options)

    trainer_class.predict = predict


def agree_on_finite(module: ModuleType) -> None:
    """Mixed precision: a step is skipped by all replicas, or by none. In Keras each rank checks the
    gradients of its first replica: infinite ones of another would reach the weights, and a rank
    that skips a step would leave the others waiting for it."""
    optimizer_class = module.LossScaleOptimizer
    check = optimizer_class.check_finite

    @functools.wraps(check)
    def check_finite(self: Any, grads: Any) -> Any:
        finite = check(self, grads)
        if module.backend.backend() != "tensorflow":
            return finite
        import tensorflow as tf

        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return finite
        number = context.all_reduce(tf.distribute.ReduceOp.SUM, tf.cast(finite, tf.float32))
        return tf.equal(number, float(context.num_replicas_in_sync))

    optimizer_class.check_finite = check_finite


def shuffle_alike(module: ModuleType) -> None:
    """Arrays: all ranks shuffle them in the same order, of which each takes its part. If each had
    its own order, some samples would be trained twice and others never."""
    adapter = module.ArrayDataAdapter
    make = adapter.get_tf_dataset
    seed = zlib.crc32(os.environ.get("RAILHEAD_RUN", "").encode())
    orders = itertools.count()  # each rank makes the same ones

    @functools.wraps(make)
    def get_tf_dataset(self: Any) -> Any:
        import tensorflow as tf
        from tensorflow.python.eager import context

        def shuffle(indices: Any) -> Any:
            number = tf.numpy_function(lambda: next(orders), [], tf.int64)
            seeds = tf.stack([tf.constant(seed, tf.int64), tf.ensure_shape(number, [])])
            return tf.random.experimental.stateless_shuffle(indices, seeds)

        if self._shuffle is not True or context.global_seed() is not None:  # a script's own seed
            return make(self)
        keras_shuffle, tf.random.shuffle = tf.random.shuffle, undecorated(tf, shuffle)
        try:
            return make(self)
        finally:
            tf.random.shuffle = keras_shuffle

    adapter.get_tf_dataset = get_tf_dataset


def row(
    does: str,
    apply: Callable[[ModuleType], None],
    is_needed: Callable[[ModuleType], bool],
    module: str = TRAINER,
    issue: str = ISSUE,
    strategies: tuple[str, ...] = ("multiworker",),
) -> Patch:
    """A patch for MultiWorkerMirroredStrategy."""
    return Patch(module, strategies, issue, does, apply, is_needed)


MULTIWORKER = (
    row(
        "`fit` and `evaluate` build the model without reading a batch",
        build_from_shapes,
        source_has("TensorFlowTrainer._maybe_symbolic_build", "distribute_strategy.reduce("),
        strategies=("multiworker", "mirrored"),
    ),
    row(
        "the results of a step, which are scalars, are averaged over the ranks",
        reduce_scalars,
        source_has("reduce_per_replica", 'reduce("MEAN", v, axis=0)'),
    ),
    row(
        "`steps_per_execution` above 1 works",
        loop_over_steps,
        source_has("TensorFlowTrainer._make_function", "empty_outputs, next_optional_inputs]"),
    ),
    row(
        "a variable as the result of a metric and `jit_compile=True` (without XLA) work",
        whole_results,
        source_has("TensorFlowTrainer._make_function", "jit_compile=self.jit_compile"),
        issue="",
    ),
    row(
        "`predict` keeps the order of data in several files",
        predict_in_order,
        source_has("TensorFlowTrainer.predict", "AutoShardPolicy", expected=False),
        issue="",
    ),
    row(
        "with mixed precision, all replicas skip the same steps",
        agree_on_finite,
        source_has("LossScaleOptimizer._tf_apply", "experimental_local_results"),
        LOSS_SCALE,
        issue="",
        strategies=("multiworker", "mirrored"),
    ),
    row(
        "arrays are shuffled in the same order on all ranks",
        shuffle_alike,
        source_has("ArrayDataAdapter.get_tf_dataset", "tf.random.shuffle(indices)"),
        ARRAYS,
        issue="",
    ),
)
