"""`hvd.DistributedOptimizer` for the optimizers of Keras 3, and `hvd.load_model`.

Keras 2 computed gradients in the optimizer, where Horovod reduced them. In Keras 3 all gradients
come through `optimizer.apply`.
"""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

from railhead.documents.lazy import dataclass

from ..names import not_converted
from .variables import are_reduced, densified

LEGACY = """legacy_opts=True: Keras 3 has no legacy optimizers. Leave it out, or run the script with
Keras 2."""
LOCKING = """use_locking=True: the optimizers of Keras 3 have no locks. Leave it out, or run the
script with Keras 2."""
SPARSE = """IndexedSlices are not supported when `backward_passes_per_step` > 1 and
`sparse_as_dense` is False."""


@dataclass(eq=False)
class Gradients:
    """Combines the gradients of all ranks for one optimizer.

    `reduce` is a function from (gradients, variables) to the gradients of all ranks. With `passes`
    > 1 it gets the sums over that many batches, which `average` divides. The gradients of `local`
    variables stay on their rank; `scales_local` divides them by the number of ranks. While
    `is_applying`, the gradients have been combined already.
    """

    reduce: Callable[..., list[Any]]
    process_set: Any
    size: Callable[[], Any]
    passes: int = 1
    average: bool = False
    sparse_as_dense: bool = False
    scales_local: bool = True
    local: set[Any] = field(default_factory=set)
    sums: dict[Any, Any] = field(default_factory=dict)
    batches: Any = None
    is_applying: bool = False

    def build(self, variables: Sequence[Any]) -> None:
        """Make the variables for the sums of several batches; they are not saved."""
        import tensorflow as tf

        if self.passes == 1 or self.sums:
            return
        with tf.init_scope():
            self.batches = tf.Variable(0, trainable=False)
            for variable in variables:
                zeros = tf.zeros(variable.shape, variable.dtype)
                self.sums[variable.ref()] = tf.Variable(zeros, trainable=False)

    def apply(
        self, optimizer: Any, apply: Callable[..., Any], gradients: Any, variables: Any
    ) -> None:
        """Call `apply`, the method of `optimizer`, with the gradients of all ranks."""
        if self.is_applying or not len(gradients):
            apply(gradients, variables)
            return
        if variables is None:
            variables = optimizer._trainable_variables
        gradients, variables = list(gradients), list(variables)
        if self.passes > 1:
            self._accumulate(optimizer, apply, gradients, variables)
        elif are_reduced(gradients):
            self._apply(apply, gradients, variables)
        else:
            self._apply(apply, self.combined(gradients, variables), variables)

    def combined(self, gradients: list[Any], variables: list[Any]) -> list[Any]:
        """The gradients of all ranks; for local variables those of this rank."""
        shared = [i for i, item in enumerate(variables) if item.ref() not in self.local]
        results = list(gradients)
        reduced = self.reduce([gradients[i] for i in shared], [variables[i] for i in shared])
        for index, gradient in zip(shared, reduced, strict=True):
            results[index] = gradient
        if self.scales_local and len(shared) < len(results):
            for index in set(range(len(results))).difference(shared):
                results[index] = divided(results[index], self.size())
        return results

    def _apply(self, apply: Callable[..., Any], gradients: Any, variables: Any) -> None:
        self.is_applying = True
        try:
            apply(gradients, variables)
        finally:
            self.is_applying = False

    def _accumulate(
        self, optimizer: Any, apply: Callable[..., Any], gradients: list[Any], variables: list[Any]
    ) -> None:
        """Add to the sums; after the last of `passes` batches combine and apply them."""
        import tensorflow as tf

        if any(isinstance(item, tf.IndexedSlices) for item in gradients):
            if not self.sparse_as_dense:
                raise ValueError(SPARSE)
            gradients = densified(gradients)
        if not optimizer.built:
            optimizer.build(variables)
        sums = [
            None if gradient is None else self.sums[variable.ref()]
            for gradient, variable in zip(gradients, variables, strict=True)
        ]
        for total, gradient in zip(sums, gradients, strict=True):
            if total is not None:
                total.assign_add(gradient)
        self.batches.assign_add(1)

        def update() -> Any:
            totals = [None if total is None else total.read_value() for total in sums]
            combined = self.combined(totals, variables)
            if self.average:
                combined = [divided(gradient, self.passes) for gradient in combined]
            self._apply(apply, combined, variables)
            for total in sums:
                if total is not None:
                    total.assign(tf.zeros_like(total))
            self.batches.assign(0)
            return self.batches.read_value()

        def wait() -> Any:  # Keras 2's optimizers counted each batch
            getattr(optimizer, "inner_optimizer", optimizer)._iterations.assign_add(1)
            return self.batches.read_value()

        tf.cond(tf.equal(self.batches, self.passes), update, wait)


def divided(gradient: Any, number: Any) -> Any:
    """A gradient divided by a number, also a sparse one; None stays None."""
    import tensorflow as tf

    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(number, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(number, gradient.dtype)


def patch_optimizer(module: types.ModuleType) -> None:
    """horovod._keras: `create_distributed_optimizer`, which all DistributedOptimizers call, and
    `load_model`; and Keras's optimizer for mixed precision around a distributed one."""
    from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer

    create = functools.partial(distributed_optimizer, module.hvd)
    module.create_distributed_optimizer = create  # type: ignore[attr-defined]
    module.load_model = load_model  # type: ignore[attr-defined]
    scaled_apply = LossScaleOptimizer.apply

    @not_converted
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        # All ranks must have the same gradients before it checks them for values that are not
        # finite.
        inner = getattr(self.inner_optimizer, "horovod_gradients", None)
        apply_scaled = functools.partial(scaled_apply, self)
        if inner is None:
            apply_scaled(grads, trainable_variables)
        else:
            inner.apply(self, apply_scaled, grads, trainable_variables)

    LossScaleOptimizer.apply = apply


def distributed_optimizer(
    hvd: Any,
    keras: Any,
    optimizer: Any,
    name: str | None,
    device_dense: str,
    device_sparse: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: Any,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """A new optimizer with the settings of `optimizer`, which reduces gradients over the ranks.

    Raises:
        ValueError: a combination that Horovod would ignore.
    """
    if gradient_predivide_factor != 1.0 and op != hvd.Average:
        raise ValueError("gradient_predivide_factor: only with op=hvd.Average")
    if backward_passes_per_step < 1:
        raise ValueError(f"backward_passes_per_step={backward_passes_per_step}: at least 1")
    processes = hvd.global_process_set if process_set is None else process_set
    base = type(optimizer)
    reduction = hvd._make_allreduce_grads_fn(
        name or f"Distributed{base.__name__}",
        *(device_dense, device_sparse, compression, sparse_as_dense, op),
        *(gradient_predivide_factor, groups, processes),
    )
    gradients = Gradients(
        reduction,
        processes,
        functools.partial(size_of, hvd, processes),
        passes=backward_passes_per_step,
        average=average_aggregated_gradients,
        sparse_as_dense=sparse_as_dense,
        scales_local=scale_local_gradients,
    )
    config = optimizer.get_config()
    if not isinstance(rate := getattr(optimizer, "_learning_rate", None), keras.Variable):
        config |= {"learning_rate": rate} if "learning_rate" in config else {}
    with keras.utils.custom_object_scope(own_parts(optimizer)):
        return distributed_class(base, gradients, optimizer).from_config(config)


def own_parts(optimizer: Any) -> dict[str, type]:
    """The classes of a script inside an optimizer for mixed precision, by name: its config has
    only their names."""
    inner = getattr(optimizer, "inner_optimizer", None)
    kinds = [type(inner), type(getattr(inner, "_learning_rate", None))]
    return {k.__name__: k for k in kinds if not k.__module__.startswith(("keras.", "builtins"))}


def size_of(hvd: Any, process_set: Any) -> Any:
    """The number of ranks that reduce gradients; in an elastic run a tensor."""
    if int(os.environ.get("HOROVOD_ELASTIC", 0)):
        return hvd.size_op(process_set_id=process_set.process_set_id)
    return process_set.size()


def continue_from(source: Any, optimizer: Any) -> None:
    """Give a new optimizer the steps and the slots of the one that it replaces, if that has trained
    the same variables, as a loaded model's has. The learning rate is in its settings."""
    import tensorflow as tf

    if not source.built or trained(source) != trained(optimizer):
        return
    rate = getattr(getattr(optimizer, "inner_optimizer", optimizer), "_learning_rate", None)
    with tf.init_scope():
        for variable, value in zip(optimizer.variables, source.variables, strict=True):
            if variable is not rate:
                variable.assign(value)


def trained(optimizer: Any) -> list[int]:
    """The identities of the variables that a built optimizer trains."""
    return [id(variable) for variable in optimizer._trainable_variables]


def distributed_class(base: Any, gradients: Gradients, source: Any) -> Any:
    """A subclass of an optimizer, with its name in saved models: they need no Horovod. It continues
    from the state of `source`."""
    sources = [source]
    from keras.src import api_export
    from keras.src.saving import object_registration

    def build(self: Any, variables: Any) -> None:
        if not self.built:
            base.build(self, variables)
            while sources:  # not kept: its slots are as large as the model
                continue_from(sources.pop(), self)
        gradients.build(variables)

    @not_converted
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> None:
        gradients.apply(self, functools.partial(base.apply, self), grads, trainable_variables)

    def register_local_var(self: Any, var: Any) -> None:
        """Keep the gradients of a variable on its rank."""
        gradients.local.add(var.ref())

    cls = type(
        base.__name__,
        (base,),
        {
            "build": build,
            "apply": apply,
            "register_local_var": register_local_var,
            "horovod_gradients": gradients,
            "__module__": base.__module__,
            "__doc__": base.__doc__,
        },
    )
    for names in (api_export.REGISTERED_OBJS_TO_NAMES, object_registration.GLOBAL_CUSTOM_NAMES):
        if base in names:
            names[cls] = names[base]
    return cls


def load_model(
    keras: Any,
    wrap_optimizer: Callable[..., Any],
    filepath: Any,
    custom_optimizers: Any,
    custom_objects: Any,
    legacy_opts: bool = False,
) -> Any:
    """A saved model with a distributed optimizer, in the state in which it was saved."""
    if legacy_opts:
        raise ValueError(" ".join(LEGACY.split()))
    classes = {cls.__name__: cls for cls in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**classes, **(custom_objects or {})})
    saved = model.optimizer
    if saved is not None:
        # `wrap_optimizer` expects a class, and calls it.
        optimizer = wrap_optimizer(lambda: saved)()
        if saved.built:
            optimizer.build(model.trainable_variables)
            values = saved.variables
            if len(values) < len(optimizer.variables):  # as Keras 3 loads a .h5 file
                values = variables_in_h5(filepath)
            for variable, value in zip(optimizer.variables, values, strict=False):
                variable.assign(value)
        model.optimizer = optimizer
    return model


def variables_in_h5(path: Any) -> list[Any]:
    """The state of the optimizer in a .h5 file; empty if it was saved without it."""
    import h5py
    from keras.src.legacy.saving import legacy_h5_format

    with h5py.File(path) as file:
        if "optimizer_weights" not in file:
            return []
        return [data[()] for data in legacy_h5_format.load_optimizer_weights_from_hdf5_group(file)]


def patch_arguments(module: types.ModuleType) -> None:
    """horovod.tensorflow: its DistributedOptimizer ignores `op`, `groups`, `num_groups` and
    `use_locking` for an optimizer of Keras."""
    import keras

    create: Callable[..., Any] = module.DistributedOptimizer
    signature = inspect.signature(create)

    @functools.wraps(create)
    def distributed(*args: Any, **options: Any) -> Any:
        call = signature.bind(*args, **options)
        call.apply_defaults()
        arguments = dict(call.arguments)
        if not isinstance(arguments["optimizer"], keras.optimizers.Optimizer):
            return create(*args, **options)
        if arguments["op"] == module.Adasum:
            raise ValueError("op == Adasum is not supported yet with Keras")
        if arguments.pop("use_locking"):
            raise ValueError(" ".join(LOCKING.split()))
        import horovod.tensorflow.keras as hvd_keras

        return hvd_keras.DistributedOptimizer(**arguments)

    module.DistributedOptimizer = distributed  # type: ignore[attr-defined]
