"""Loads a SavedModel, a .keras or a .h5 file, and warms it up."""

from __future__ import annotations

import importlib
import json
import re
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rest import DEFAULT_SIGNATURE
from .signature import STRING, Arrays, Signature, Tensor

Predict = Callable[[Arrays], dict[str, Any]]  # arrays of the types of the signature's inputs
KERAS = (".keras", ".h5")
SAVED_MODEL = "saved_model.pb"
HOROVODS = "Op type not registered 'Horovod"


class ModelError(Exception):
    """A model that does not load; the message says why."""


@dataclass(frozen=True)
class Model:
    """A loaded model: its signatures, and the function of each."""

    signatures: Mapping[str, Signature]
    functions: Mapping[str, Predict]
    loaded: Any  # keeps the variables of a SavedModel alive

    def warm_up(self, sizes: Sequence[int]) -> list[str]:
        """Call each signature with each batch size; returns what failed, which may be harmless:
        zeros are not a valid input of every model."""
        failed = []
        for name, signature in self.signatures.items():
            for size in sizes if signature.batches else (1,):
                try:
                    self.functions[name](signature.zeros(size))
                except Exception as error:
                    reason = str(error).strip() or type(error).__name__
                    failed.append(f"{name}: {reason.splitlines()[0][:200]}")
                    break
        return failed


def find(path: Path) -> Path | None:
    """The model at a path or directly in it; a Keras file comes first, it is the safer one.

    Raises:
        ModelError: there are several Keras files.
    """
    if path.is_file():
        return path if path.suffix in KERAS else None
    files = sorted(each for each in path.glob("*") if each.suffix in KERAS and each.is_file())
    if len(files) > 1:
        names = ", ".join(each.name for each in files)
        raise ModelError(f"{path} has several models: {names}; give one of them as the path")
    folders = [
        folder for folder in (path, path / "saved_model") if (folder / SAVED_MODEL).is_file()
    ]
    return next(iter([*files, *folders]), None)


def load(path: Path) -> Model:
    """Load a model.

    Raises:
        ModelError: there is none, or TensorFlow cannot load it.
    """
    place = find(path)
    if place is None:
        raise ModelError(f"{path} has no {SAVED_MODEL} and no {' or '.join(KERAS)} file")
    beside = place.parent / "saved_model"
    try:
        return _load_keras(place) if place.is_file() else _load_saved_model(place)
    except ModelError:
        raise
    except Exception as error:
        if _is_of_later_keras(place) and (beside / SAVED_MODEL).is_file():
            return load(beside)  # the same model, as the run exported it
        reason = str(error).strip() or type(error).__name__
        raise ModelError(f"{place.name} does not load: {reason[:600]}") from error


def _load_saved_model(path: Path) -> Model:
    loaded = _with_horovods_ops(path)
    signatures, functions = {}, {}
    for name, function in loaded.signatures.items():
        inputs = function.structured_input_signature[1]
        signatures[name] = Signature(
            name,
            tuple(_tensor(spec.name or key, spec) for key, spec in sorted(inputs.items())),
            tuple(_tensor(key, out) for key, out in sorted(function.structured_outputs.items())),
        )
        functions[name] = _caller(function)
    if not signatures:
        raise ModelError("the SavedModel has no signature: export it with model.export()")
    return Model(signatures, functions, loaded)


def _with_horovods_ops(path: Path) -> Any:
    """The loaded SavedModel. Keras 2 saves the optimizer too, and Horovod's has operations that
    TensorFlow knows when Horovod is imported; a model without them is served without Horovod."""
    import tensorflow as tf

    try:
        return tf.saved_model.load(str(path))
    except Exception as error:
        if HOROVODS not in str(error):
            raise
    try:
        importlib.import_module("horovod.tensorflow")
    except ImportError:
        raise ModelError(
            "the SavedModel has Horovod's optimizer, and this runtime has no Horovod: serve it on "
            "a host of its run, or save it with model.save(..., include_optimizer=False)"
        ) from None
    return tf.saved_model.load(str(path))


def _load_keras(path: Path) -> Model:
    import tensorflow as tf

    model = _loaded(path)
    specs = [
        tf.TensorSpec(tensor.shape, tensor.dtype, name=re.sub(r"[\W_]", "_", tensor.name))
        for tensor in model.inputs
    ]

    def call(*arrays: Any) -> dict[str, Any]:
        outputs = model(list(arrays) if len(arrays) > 1 else arrays[0], training=False)
        return _named(outputs)

    function = tf.function(call, input_signature=specs).get_concrete_function()
    inputs = tuple(_tensor(spec.name, spec) for spec in specs)
    outputs = tuple(_tensor(k, out) for k, out in sorted(function.structured_outputs.items()))
    signature = Signature(DEFAULT_SIGNATURE, inputs, outputs)

    def predict(values: Arrays) -> dict[str, Any]:
        outputs_by_name = function(*(tf.constant(values[tensor.name]) for tensor in inputs))
        return {name: output.numpy() for name, output in outputs_by_name.items()}

    return Model({signature.name: signature}, {signature.name: predict}, model)


def _loaded(path: Path) -> Any:
    """The model in a file; of Keras 3 also in one of a later version."""
    keras = _keras_of(path)
    if path.suffix == ".keras" and keras.__name__ == "keras":
        from .. import keras_files  # imports Keras 3

        return keras_files.load_model(path)
    return keras.models.load_model(path, compile=False, safe_mode=True)


def _is_of_later_keras(path: Path) -> bool:
    """Whether a .keras file is of a later Keras than that of this runtime."""
    if path.suffix != ".keras":
        return False
    from .. import keras_files  # imports Keras 3

    return keras_files.is_later(keras_files.version_of(path))


def _keras_of(path: Path) -> Any:
    """The Keras that wrote a file, version 2 or 3: each misreads some files of the other."""
    if path.suffix == ".h5":
        import h5py

        with h5py.File(path) as file:
            version = file.attrs.get("keras_version", "")
        version = version.decode() if isinstance(version, bytes) else str(version)
    else:
        with zipfile.ZipFile(path) as archive:
            version = json.loads(archive.read("metadata.json"))["keras_version"]
    return importlib.import_module("tf_keras" if version.startswith("2.") else "keras")


def _named(outputs: Any) -> dict[str, Any]:
    """The outputs by name: the model's own names, or those that Keras uses in a SavedModel."""
    if isinstance(outputs, dict):
        return outputs
    each = outputs if isinstance(outputs, list | tuple) else [outputs]
    return {f"output_{number}": output for number, output in enumerate(each)}


def _tensor(name: str, spec: Any) -> Tensor:
    dtype = STRING if spec.dtype.name == STRING else spec.dtype.name
    shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    return Tensor(name, dtype, shape)


def _caller(function: Any) -> Predict:
    import tensorflow as tf

    def predict(values: Arrays) -> dict[str, Any]:
        tensors = {name: tf.constant(array) for name, array in values.items()}
        return {name: output.numpy() for name, output in function(**tensors).items()}

    return predict
