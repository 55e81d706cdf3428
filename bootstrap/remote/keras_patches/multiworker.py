"""Patches of Keras 3 under MultiWorkerMirroredStrategy: model.fit, evaluate, predict and
train_on_batch. They change nothing for a strategy of one process.

`trainer` is the module keras.src.backend.tensorflow.trainer, which has imported TensorFlow as `tf`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .patch import Patch, source_has

TRAINER = "keras.src.backend.tensorflow.trainer"
LOSS_SCALE = "keras.src.optimizers.loss_scale_optimizer"
ISSUE = "keras-team/keras#20585"


def is_multi_worker(trainer: Any, strategy: Any) -> bool:
    """Whether a strategy is MultiWorkerMirroredStrategy over several processes."""
    return bool(trainer._collective_all_reduce_multi_worker(strategy))


def build_from_local_batch(trainer: Any) -> None:
    """Only the shapes of a batch are needed to build a model: those of this process's part."""
    trainer_class = trainer.TensorFlowTrainer
    build = trainer_class._maybe_symbolic_build

    @functools.wraps(build)
    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        strategy = self.distribute_strategy
        if iterator is not None and is_multi_worker(trainer, strategy):
            for _, _, batches in iterator:
                data_batch = trainer.tree.map_structure(
                    lambda value: strategy.experimental_local_results(value)[0], next(batches)
                )
                break
            iterator = None
        build(self, iterator=iterator, data_batch=data_batch)

    trainer_class._maybe_symbolic_build = _maybe_symbolic_build


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
    graph = identity if model.run_eagerly else functools.partial(tf.function, reduce_retracing=True)

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


def identity(function: Any) -> Any:
    """The function itself."""
    return function


def predict_in_order(trainer: Any) -> None:
    """The rows of predictions are those of the data: each rank predicts its part of each batch,
    and not of the files, as with Keras 2. Data that is not to be shared stays as it is."""
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
    """Mixed precision: a step is skipped on all ranks, or on none. Each rank looks at its own
    gradients; one that skips a step would leave the others waiting for it."""
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


def row(
    does: str,
    apply: Callable[[ModuleType], None],
    is_needed: Callable[[ModuleType], bool],
    module: str = TRAINER,
    issue: str = ISSUE,
) -> Patch:
    """A patch for MultiWorkerMirroredStrategy."""
    return Patch(module, ("multiworker",), issue, does, apply, is_needed)


MULTIWORKER = (
    row(
        "`fit` and `evaluate` build the model from the batch of their own rank",
        build_from_local_batch,
        source_has("TensorFlowTrainer._maybe_symbolic_build", "distribute_strategy.reduce("),
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
        "`predict` keeps the order of data in several files",
        predict_in_order,
        source_has("TensorFlowTrainer.predict", "AutoShardPolicy", False),
        issue="",
    ),
    row(
        "with mixed precision, all ranks skip the same steps",
        agree_on_finite,
        source_has("LossScaleOptimizer._tf_apply", "experimental_local_results"),
        LOSS_SCALE,
        issue="",
    ),
)
