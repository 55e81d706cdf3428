"""Each argument of each optimizer of Keras 3, from their signatures: trained as a rank, or by the
one process that the ranks are compared with.

    optimizer_arguments.py ROLE FOLDER [CASE ...]    ROLE: rank, mirrored, alone or names

Writes FOLDER/NAME.json with the weights, or the error, by case, such as `SGD clipnorm`. NAME is the
number of the rank, `mirrored` or `alone`. Without CASE: all. NAME `names` has the cases alone.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from samples.roles import install_patches, strategy_of

BATCH, BATCHES, EPOCHS = 8, 3, 2
# Values that change the training, by argument; those of `bool` are turned round.
VALUES: dict[str, Any] = {
    "learning_rate": 0.03, "weight_decay": 0.05, "clipnorm": 0.1, "clipvalue": 0.02,
    "global_clipnorm": 0.1, "use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2,
    "loss_scale_factor": 8.0, "gradient_accumulation_steps": 2, "momentum": 0.7, "nesterov": True,
    "rho": 0.7, "epsilon": 1e-2, "beta_1": 0.6, "beta_2": 0.7, "beta_2_decay": -0.5,
    "relative_step": False, "clip_threshold": 0.3, "epsilon_1": 1e-3, "epsilon_2": 1e-2,
    "initial_accumulator_value": 0.5, "amsgrad": True, "centered": True,
    "learning_rate_power": -0.7, "l1_regularization_strength": 0.01,
    "l2_regularization_strength": 0.01, "l2_shrinkage_regularization_strength": 0.01, "beta": 0.1,
    "dynamic_growth_steps": 2, "initial_scale": 64.0, "warmup_steps": 2,
    "adam_beta_1": 0.6, "adam_beta_2": 0.7, "adam_weight_decay": 0.05, "adam_lr_ratio": 0.5,
    "a": 3.0, "b": -4.0, "c": 2.0, "ns_steps": 3, "muon_a": 3.0, "muon_b": -4.0, "muon_c": 2.0,
    "rms_rate": 0.3, "exclude_layers": ["dense"], "exclude_embeddings": False, "caution": False,
}  # fmt: skip
NEEDED = {  # other arguments without which one has no effect
    "ema_momentum": {"use_ema": True}, "ema_overwrite_frequency": {"use_ema": True},
    "nesterov": {"momentum": 0.9},
}  # fmt: skip
WITHOUT_EFFECT = ("name", "kwargs", "args", "self", "inner_optimizer", "optimizer_map")
BASE = "SGD"  # has all arguments that others inherit


def cases() -> dict[str, dict[str, Any]]:
    """The arguments of each case; those that all optimizers have occur once."""
    import keras

    inherited = arguments(keras.optimizers.Optimizer)
    found: dict[str, dict[str, Any]] = {}
    for name in dir(keras.optimizers):
        one = getattr(keras.optimizers, name)
        if not inspect.isclass(one) or not issubclass(one, keras.optimizers.Optimizer):
            continue
        if name in ("Optimizer", "LossScaleOptimizer", "MultiOptimizer"):
            continue
        found[f"{name} default"] = {}
        for argument in arguments(one):
            if argument not in inherited or name == BASE:
                value = VALUES[argument]  # KeyError: a new argument needs a value here
                found[f"{name} {argument}"] = {argument: value, **NEEDED.get(argument, {})}
    return found


def arguments(optimizer: Any) -> list[str]:
    """The names of the arguments of an optimizer."""
    names = inspect.signature(optimizer.__init__).parameters
    return [name for name in names if name not in WITHOUT_EFFECT]


def main(role: str, folder: str, *only: str) -> None:
    """Train all cases, and write what they left."""
    if role == "names":
        Path(folder, "names.json").write_text(json.dumps([*cases()]))
        return
    install_patches(role)
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(2)
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    strategy, name = strategy_of(role)
    left: dict[str, Any] = {}
    for case, given in cases().items():
        if not only or case in only:
            try:
                left[case] = trained(case.partition(" ")[0], given, strategy)
            except Exception as error:
                left[case] = f"{type(error).__name__}: {error}"
    Path(folder, f"{name}.json").write_text(json.dumps(left))


def trained(optimizer: str, given: dict[str, Any], strategy: Any) -> list[float]:
    """The weights of a model after a training."""
    import keras

    keras.utils.set_random_seed(1)
    random = np.random.RandomState(0)
    x = random.normal(size=(BATCH * BATCHES, 6)).astype("float32")
    y = (x[:, :3] * 3).astype("float32")
    x[::2] *= 3  # the replicas have different gradients
    with strategy.scope() if strategy else contextlib.nullcontext():
        of = keras.layers
        model = keras.Sequential([of.Input((6,)), of.Dense(5, activation="tanh"), of.Dense(3)])
        rate = {"learning_rate": 0.05, **given}
        model.compile(getattr(keras.optimizers, optimizer)(**rate), "mse")
    model.fit(x, y, batch_size=BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    return [float(v) for array in model.get_weights() for v in array.ravel()]


if __name__ == "__main__":
    main(*sys.argv[1:])
