"""Names of Keras 2 that Horovod and the scripts for it use, in Keras 3."""

from __future__ import annotations

import functools
import math
import os
import types
from collections.abc import Callable
from typing import Any

from .. import names
from ..names import not_converted


class CallableList(list[Any]):
    """The variables of an optimizer: a method in Keras 2, a property in Keras 3."""

    autograph_info__: Any = {}  # as `not_converted`

    def __call__(self) -> list[Any]:
        """The same list."""
        return self


def patch_keras(module: types.ModuleType) -> None:
    """After the import of horovod.tensorflow: `Variable.ref()`, `optimizer.variables()`,
    `optimizer.lr`, `lr=` of optimizers, `metric.reset_states()`, steps of `fit` that are
    a float, an argument of `compile`; and XLA only if a script requires it."""
    import keras
    from keras.src.optimizers import base_optimizer
    from keras.src.trainers.epoch_iterator import EpochIterator
    from keras.src.trainers.trainer import Trainer

    keras.Variable.ref = not_converted(lambda self: self._value.ref())
    base = base_optimizer.BaseOptimizer
    for optimizer in (base, *subclasses(base)):
        if isinstance(variables := vars(optimizer).get("variables"), property):
            optimizer.variables = callable_too(variables)
    names.patch_optimizer(base_optimizer)
    names.patch_metric(keras)
    EpochIterator.__init__ = with_whole_steps(EpochIterator.__init__)
    patch_compile(Trainer, module)


def with_whole_steps(init: Callable[..., None]) -> Callable[..., None]:
    """`EpochIterator.__init__` that rounds a number of steps such as 62.5 up, as Keras 2 does."""

    @functools.wraps(init)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        if isinstance(steps := options.get("steps_per_epoch"), float):
            options["steps_per_epoch"] = math.ceil(steps)
        init(self, *args, **options)

    return __init__


def subclasses(cls: Any) -> list[Any]:
    """All direct and indirect subclasses of a class."""
    return [other for near in cls.__subclasses__() for other in (near, *subclasses(near))]


def callable_too(variables: property) -> property:
    """A property whose list can also be called."""
    return property(lambda self: CallableList(variables.__get__(self)))


def patch_compile(trainer: Any, hvd: types.ModuleType) -> None:
    """`Trainer.compile`: accept `experimental_run_tf_function`, which Horovod's documentation has,
    and refuse XLA for a distributed optimizer: XLA does not have Horovod's operations."""
    compile_model, resolve = trainer.compile, trainer._resolve_auto_jit_compile

    @functools.wraps(compile_model)
    def compile(self: Any, *args: Any, **options: Any) -> Any:
        if options.pop("experimental_run_tf_function", None) is not None and is_first(hvd):
            print("model.compile: experimental_run_tf_function has no effect in Keras 3")
        result = compile_model(self, *args, **options)
        if self._jit_compile and is_distributed(self.optimizer) and not in_xla():
            raise ValueError(
                "jit_compile=True: XLA has no operations of Horovod. Leave it out, or set"
                " HOROVOD_ENABLE_XLA_OPS=1 if the hosts have GPUs."
            )
        return result

    def without_xla(self: Any) -> bool:
        return bool(in_xla() and resolve(self))

    trainer.compile, trainer._resolve_auto_jit_compile = compile, without_xla


def in_xla() -> bool:
    """Whether Horovod's operations are registered in XLA."""
    return os.environ.get("HOROVOD_ENABLE_XLA_OPS", "0") not in ("", "0")


def is_first(hvd: types.ModuleType) -> bool:
    """Whether this is rank 0, or Horovod is not initialized yet."""
    return not hvd.is_initialized() or hvd.rank() == 0


def is_distributed(optimizer: Any) -> bool:
    """Whether an optimizer, or the one inside it, reduces gradients over the ranks."""
    inner = getattr(optimizer, "inner_optimizer", None)
    return any(hasattr(item, "horovod_gradients") for item in (optimizer, inner))
