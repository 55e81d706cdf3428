"""Horovod's callbacks for Keras 2, with the parts in which Keras 3 differs."""

from __future__ import annotations

import functools
import inspect
import types
import zlib
from typing import Any

from .variables import tensorflow_variables

SCHEDULE = "the optimizer has a schedule; give it a number as its learning rate"
VOCABULARY = "not the vocabulary of rank {}; adapt it to the same data on all ranks"


def patch_callbacks(module: types.ModuleType) -> None:
    """horovod.tensorflow.keras.callbacks and horovod.keras.callbacks, after their import."""
    import tensorflow as tf

    module.K = tf.keras.backend  # type: ignore[attr-defined]  # keras.backend has few functions
    patch_broadcast(module.BroadcastGlobalVariablesCallback)
    patch_checkpoint(module.BestModelCheckpoint, tf.keras.callbacks.ModelCheckpoint)


def patch_broadcast(callback: Any) -> None:
    """The callback that broadcasts all variables: `local_variables` may be Keras variables, and the
    layers that were adapted to data compute as on the root."""
    initialize = callback.__init__

    @functools.wraps(initialize)
    def __init__(self: Any, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        initialize(self, root_rank, device, tensorflow_variables(local_variables))

    def on_train_begin(self: Any, logs: Any = None) -> None:
        broadcast_adapted(self.model, self.root_rank)

    callback.__init__, callback.on_train_begin = __init__, on_train_begin


def broadcast_adapted(model: Any, root_rank: int) -> None:
    """What layers learned from data in `adapt` is the root's, before the first step uses it. A
    Normalization computes with copies of its variables, which their broadcast does not change.

    Raises:
        ValueError: this rank has another vocabulary than the root.
    """
    import horovod.tensorflow as hvd

    layers = list(model._flatten_layers())
    adapted = [layer for layer in layers if hasattr(layer, "adapt_mean")]
    if adapted:
        hvd.broadcast_variables([v for layer in adapted for v in layer.variables], root_rank)
        for layer in adapted:
            layer.finalize_state()
    digests = {
        layer.name: zlib.crc32(repr(layer.get_vocabulary()).encode())
        for layer in layers
        if hasattr(layer, "get_vocabulary")  # a table of words or numbers, which is no variable
    }
    of_root = hvd.broadcast_object(list(digests.values()), root_rank) if digests else []
    for (name, digest), expected in zip(digests.items(), of_root, strict=True):
        if digest != expected:
            raise ValueError(f"{name}: {VOCABULARY.format(root_rank)}")


def patch_checkpoint(callback: Any, checkpoint: Any) -> None:
    """The callback that saves the best model: its caller sets `filepath` later, which Keras 3
    requires at once."""
    signature = inspect.signature(callback.__init__)

    @functools.wraps(callback.__init__)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        call = signature.bind(self, *args, **options)
        call.apply_defaults()
        arguments = {name: value for name, value in call.arguments.items() if name != "self"}
        path = "best.weights.h5" if arguments.get("save_weights_only") else "best.keras"
        checkpoint.__init__(self, path, save_best_only=True, **arguments)
        self.filepath = None

    callback.__init__ = __init__


def patch_learning_rates(module: types.ModuleType) -> None:
    """horovod._keras.callbacks: correct the momentum by its state.

    Keras 2 read `optimizer.momentum` in each step; Keras 3 compiles it into the step.
    """

    def adjust(self: Any, epoch: float) -> None:
        optimizer = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        if not hasattr(optimizer.lr, "assign"):
            raise ValueError(f"{type(self).__name__}: {SCHEDULE}")
        before = float(self.backend.get_value(optimizer.lr))
        after = self.initial_lr * self.multiplier(epoch)
        self.backend.set_value(optimizer.lr, after)
        if self.momentum_correction and before:
            scale_momentum(optimizer, after / before)

    module.LearningRateScheduleCallbackImpl._adjust_learning_rate = adjust


def average_first(module: types.ModuleType) -> None:
    """horovod._keras.callbacks: metrics are averaged over the ranks before other callbacks use
    them. EarlyStopping or ReduceLROnPlateau in front would decide on each rank by its own."""
    import keras

    callback_list = keras.callbacks.CallbackList
    initialize = callback_list.__init__

    @functools.wraps(initialize)
    def __init__(self: Any, callbacks: Any = None, *args: Any, **options: Any) -> None:
        if isinstance(callbacks, (list, tuple)):
            average = module.MetricAverageCallbackImpl
            callbacks = sorted(callbacks, key=lambda callback: not isinstance(callback, average))
        initialize(self, callbacks, *args, **options)

    callback_list.__init__ = __init__


def scale_momentum(optimizer: Any, factor: float) -> None:
    """Multiply the accumulated updates of an optimizer with momentum, which hold the learning rate
    of the steps before."""
    import keras

    if isinstance(optimizer, keras.optimizers.SGD):
        slots = getattr(optimizer, "momentums", [])
    elif isinstance(optimizer, keras.optimizers.RMSprop):
        slots = getattr(optimizer, "_momentums", [])
    else:
        slots = []
    for slot in slots if factor != 1 else []:
        slot.assign(slot * factor)
