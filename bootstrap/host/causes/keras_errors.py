"""Errors of a script that runs with the wrong Keras, and whether its run starts again with the
other Keras.

Pure. tests/bootstrap/host/causes provokes each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.documents.runs.result import Culprit, other_keras

from .keras_names import keras_with

# By the Keras of the run: patterns in the last lines of a script that needs the other Keras.
ERRORS = {
    3: (
        r"'Variable' object has no attribute 'ref'",
        r"\.variables\(\)[^\0]*'list' object is not callable",
        r"unexpected keyword argument 'experimental_run_tf_function'",
        r"(?:fit|predict)\(\) got an unexpected keyword argument "
        r"'(?:workers|max_queue_size|use_multiprocessing)'",
        r"Arguments not recognized: \{'(?:workers|max_queue_size|use_multiprocessing)'",
        r"Attempt to convert a value \(PerReplica:",
        r"optimizers\.legacy` is not supported in Keras 3",
        r"'\w+' object has no attribute '(?:reset_states|get_(?:input|output)(?:_shape)?_at)'",
        r"'\w+' object has no attribute '(?:fit|evaluate|predict)_generator'",
        r"'\w+' object has no attribute '_(?:train|val)_step'",  # of TensorBoard
        r"'(?:Ada\w+|Ftrl|Lion|LossScaleOptimizer|Nadam|RMSprop|SGD)' object has no attribute "
        r"'(?:lr|get_gradients|get_scaled_loss|get_unscaled_gradients|minimize)'",
        r"Argument\(s\) not recognized: \{'lr':",
        r"__init__\(\) got an unexpected keyword argument '(?:period|write_grads)'",
        r"compile\(\) got an unexpected keyword argument 'sample_weight_mode'",
        r"Unrecognized keyword arguments passed to \w+: "
        r"\{'(?:batch_input_shape|dynamic|fused|renorm|time_major|weights)'",
        r"`name` must be passed as a keyword argument\. Received: add_weight",
        r"add_variable\(\) missing 1 required positional argument: 'initializer'",
        r"A KerasTensor cannot be used as input to a TensorFlow function",
        r"epoch_iterator\.py[^\0]*'[\w.]*float\d*' object cannot be interpreted as an integer",
        r"Invalid filepath extension for saving",
        r"The filename must end in `\.weights\.h5`",
        r"filepath provided must end in `\.(?:keras|weights\.h5)`",
        r"The `save_format` argument is deprecated in Keras 3",
        r"legacy SavedModel format is not supported by `load_model\(\)` in Keras 3",
        r"'KerasTensor' object has no attribute '(?:get_shape|set_shape)'",
        r"'\w+' object has no attribute '(?:(?:in|out)put_shape|(?:in|out)bound_nodes|updates"
        r"|get_updates_for|state_updates|stateful)'",
        r"`add_metric\(\)` method is deprecated",
        r"Could not interpret optimizer identifier",  # an optimizer of tf_keras
        r"Only instances of `?keras\.Layer`? can be added to a Sequential model",
        r"'tuple' object has no attribute '(?:as_list|rank)'",  # of a shape
        r"Could not deserialize 'keras\.metrics\.m\w+'",  # in a file of Keras 2
        r"\{'groups': 1\}",
        r"legacy/backend\.py[^\0]*'str' object has no attribute '(?:name|base_dtype)'",
        r"TensorBoard\.__init__\(\) got an unexpected keyword argument '(?:batch_size|embeddings)",
        r"has no attribute 'CuDNN(?:LSTM|GRU)'",
        r"'Variable' object has no attribute 'read_value'",
        r"of type 'Variable', not tf\.Tensor or tf\.Variable",
        r"Received: reduction=auto",
        r"_tf_keras\.keras\.losses' has no attribute 'mean_\w+_error'",
        r"Cannot convert '\w+' to a shape\. Found invalid dimension",
        r"Could not interpret initializer identifier: \(",
        r"is not available with Keras 3",
        r"unexpected keyword argument 'experimental_aggregate_gradients'",
        r"run the script with (?:--keras|Keras) 2",  # of our patches
    ),
    2: (
        r"'function' object has no attribute 'assign'",
        r"'\w+' object has no attribute 'stateless_(?:apply|call|update_state)'",
    ),
}  # fmt: skip
# A missing name: the module or object, and the name in it; or a missing module.
MISSING = (
    r"module '([\w.]+)' has no attribute '(\w+)'"
    r"|cannot import name '(?P<name>\w+)' from '(?P<module>[\w.]+)'"
    r"|No module named '(?P<whole>[\w.]+)'"
)
# The names in tracebacks of the modules that scripts call tf.keras and keras.
OF_TENSORFLOW = ("keras._tf_keras.keras", "keras.api._v2.keras", "tensorflow.keras")
SEARCHED = 1000  # characters of a line
LONGEST = 600.0  # seconds of an attempt, after which the run does not start again


def needs_other(keras: int, lines: Sequence[str]) -> bool:
    """Whether these last lines of a script show an error that the other Keras does not have."""
    text = "\n".join(line[:SEARCHED] for line in lines)
    return bool(re.search("|".join(ERRORS[keras]), text)) or any(
        _other_has(keras, missing) for missing in re.finditer(MISSING, text)
    )


def _other_has(keras: int, missing: re.Match[str]) -> bool:
    """Whether only the other Keras has the name that was missing."""
    module, name = missing[1] or missing["module"], missing[2] or missing["name"]
    path = missing["whole"] or f"{module}.{name}"
    for prefix in (*OF_TENSORFLOW, "tf_keras.api._v2.keras", "tf_keras", "keras"):
        if path.startswith(f"{prefix}."):
            below = path.removeprefix(f"{prefix}.")
            return keras_with(below, of_tensorflow=prefix in OF_TENSORFLOW) == other_keras(keras)
    return False


def is_of_keras(
    keras: int, culprit: Culprit, seconds: float, *, stepped: bool = False, files: int = 0
) -> bool:
    """Whether a run may start again with the other Keras after this failure, `seconds` after the
    start of the attempt. Not after a complete step or checkpoint, so that only time is lost.
    `stepped`: the output shows a step; `files`: the number of files in the checkpoint folder."""
    # Not result.evaluation, which every run with thresholds has. The record of an evaluation sets
    # `stepped`.
    begun = stepped or files or seconds > LONGEST
    return culprit.rank is not None and not begun and needs_other(keras, culprit.lines)
