"""Converts files and arrays to samples of a model, and its outputs to arrays. The only module for
this computer that uses NumPy and Pillow; import it only when it is needed."""

from __future__ import annotations

import base64
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, UnidentifiedImageError

from ...errors import UsageError
from ...inventory.files import read_given, text_given
from .rest import Signature, Tensor

PIXELS = 25_000_000  # of a picture for a model: 300 MB
SAMPLE_BYTES = 1_000_000_000  # of one file

FORMATS = ("PNG", "JPEG")
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def read_file(path: Path, signature: Signature) -> Any:
    """The samples in a file, for a model with this signature: an array [batch, ...], or the list of
    instances of a .json file.

    Raises:
        UsageError: the file has the wrong form, or shapes that the model does not accept.
    """
    if path.suffix.lower() == ".json":
        return _json_instances(path)
    if len(signature.inputs) != 1:
        raise UsageError(
            f"the model has the inputs {', '.join(signature.inputs)}: send them as .json"
        )
    tensor = next(iter(signature.inputs.values()))
    readers = {".npy": _numpy_array, ".csv": _csv_array}
    reader = readers.get(path.suffix.lower())
    array = reader(path) if reader else _picture(path, tensor)
    return shaped(array, tensor, path.name)


def rows_of_file(path: Path, signature: Signature) -> list[Any]:
    """The samples in a file as instances of JSON; UsageError as for `read_file`."""
    samples = read_file(path, signature)
    return samples if isinstance(samples, list) else listed(samples)


def write(samples: Any, folder: Path) -> str:
    """Write samples into a folder as the client on the host reads them; returns the file's name."""
    if isinstance(samples, list) or samples.dtype.kind in "SO":
        rows = samples if isinstance(samples, list) else listed(samples)
        (folder / "input.json").write_text(json.dumps(rows))
        return "input.json"
    np.save(folder / "input.npy", samples, allow_pickle=False)
    return "input.npy"


def check(samples: Any) -> None:
    """UsageError if the value is neither an array nor {input: array}."""
    for value in samples.values() if isinstance(samples, Mapping) else (samples,):
        as_array(value)


def has_array(samples: Any) -> bool:
    """Whether the value contains NumPy arrays, not lists."""
    values = samples.values() if isinstance(samples, Mapping) else (samples,)
    return any(isinstance(value, np.ndarray) for value in values)


def body_of(samples: Any, signature: Signature) -> Any:
    """The JSON of a request: the rows of an array for a model with one input, or a column for each
    input of a mapping.

    Raises:
        UsageError: the inputs or their shapes are not those of the signature.
    """
    inputs = signature.inputs
    if isinstance(samples, Mapping):
        if {*map(str, samples)} != {*inputs}:
            names = ", ".join(map(str, samples)) or "none"
            raise UsageError(f"inputs {names}: the model takes {', '.join(inputs)}")
        return {
            str(name): listed(shaped(value, inputs[str(name)], f"input {name}"))
            for name, value in samples.items()
        }
    if len(inputs) != 1:
        several = ", ".join(f'"{name}": ...' for name in inputs)
        raise UsageError(
            f"the model has {len(inputs)} inputs", hint=f"endpoint.predict({{{several}}})"
        )
    return listed(shaped(samples, next(iter(inputs.values())), "the samples"))


def shaped(value: Any, tensor: Tensor, name: str) -> Any:
    """An array in the form that an input accepts: integer pixels become 0..1, a flat row is
    reshaped, a single sample becomes one row.

    Raises:
        UsageError: it is not an array, or has another shape.
    """
    array = as_array(value)
    if array.dtype == np.uint8 and tensor.dtype.startswith(("float", "bfloat")):
        array = array / np.float32(255)
    if tensor.shape is None:
        return array
    if not tensor.shape:
        return _fitting(array, (), name)
    return _rows(array, tensor.shape[1:], name)


def _rows(array: Any, shape: tuple[int | None, ...], name: str) -> Any:
    known = [size for size in shape if size is not None]
    if len(known) == len(shape):
        if _is_sample(array.shape, known):
            return array.reshape(1, *known)
        if array.ndim > 1 and _is_sample(array.shape[1:], known):
            return array.reshape(-1, *known)
    return _fitting(array, (None, *shape), name)


def _is_sample(shape: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether an array of a shape is one sample, perhaps as a flat row. It is not if it has the
    same lengths in another order, as a picture whose channels come first."""
    given, wanted = ([size for size in sizes if size != 1] for sizes in (shape, expected))
    is_flat = min(len(given), len(wanted)) < 2
    return given == wanted or (is_flat and math.prod(given) == math.prod(wanted))


def _fitting(array: Any, shape: tuple[int | None, ...], name: str) -> Any:
    fits = array.ndim == len(shape) and all(
        expected in (None, size) for expected, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        expected = [-1 if size is None else size for size in shape]
        raise UsageError(f"{name}: expected the shape {expected}, got {list(array.shape)}")
    return array


def as_array(value: Any) -> Any:
    """Numbers or text as an array; UsageError for anything else."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise UsageError(f"the samples are not an array of numbers: {error}") from None
    if array.dtype.kind == "O" and not all(isinstance(item, str | bytes) for item in array.flat):
        raise UsageError(
            "the samples are not an array of numbers: objects, or rows of unequal lengths"
        )
    return array


def listed(array: Any) -> Any:
    """An array as JSON values; bytes in the form of the REST contract."""
    return _encoded(array.tolist()) if array.dtype.kind in "SO" else array.tolist()


def _encoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    return {"b64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def arrays_of(outputs: Any, signature: Signature) -> Any:
    """A model's answer, in rows or columns, as an array; {name: array} for several outputs.

    Raises:
        ValueError: the outputs are not those of the signature.
    """
    tensors = signature.outputs
    if len(tensors) == 1:
        return _array(outputs, next(iter(tensors.values())))
    if isinstance(outputs, Mapping):
        return {name: _array(outputs.get(name), tensor) for name, tensor in tensors.items()}
    rows = [row if isinstance(row, Mapping) else {} for row in outputs]
    return {
        name: _array([row.get(name) for row in rows], tensor) for name, tensor in tensors.items()
    }


def _array(values: Any, tensor: Tensor) -> Any:
    kind = {"string": None, "bfloat16": "float32", "unknown": None}.get(tensor.dtype, tensor.dtype)
    return np.asarray(values, dtype=kind)


def _json_instances(path: Path) -> list[Any]:
    try:
        document = json.loads(text_given(path, path.name, SAMPLE_BYTES))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path.name} is not JSON: {error}") from None
    instances = document.get("instances") if isinstance(document, dict) else document
    if not isinstance(instances, list) or not instances:
        raise UsageError(f"{path.name} must be a list of instances, or have one as 'instances'")
    return instances


def _numpy_array(path: Path) -> Any:
    try:
        content = io.BytesIO(read_given(path, path.name, SAMPLE_BYTES))
        return np.lib.format.read_array(content, allow_pickle=False)  # np.load accepts archives
    except (ValueError, OSError, EOFError, OverflowError, MemoryError) as error:
        raise UsageError(f"{path.name} is not an array: {error}") from None


def _csv_array(path: Path) -> Any:
    """Numbers, a sample per line; a first line with names is left out."""
    try:
        lines = text_given(path, path.name, SAMPLE_BYTES).splitlines()
        if not all(map(_is_number, lines[0].split(","))) if lines else False:
            lines = lines[1:]
        return np.loadtxt(lines, delimiter=",", dtype=np.float64, ndmin=2)
    except ValueError as error:
        raise UsageError(f"{path.name} must have numbers, separated by commas: {error}") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _picture(path: Path, tensor: Tensor) -> Any:
    """A picture as [1, height, width, channels] of 0..1, in the size and the colours of the input;
    of 0..255 for an input of whole numbers."""
    shape = tensor.shape
    if shape is None or len(shape) != 4:
        expected = "any" if shape is None else [-1 if size is None else size for size in shape]
        raise UsageError(f"the model does not accept pictures: its input has the shape {expected}")
    try:
        with Image.open(
            io.BytesIO(read_given(path, path.name, SAMPLE_BYTES)), formats=FORMATS
        ) as image:
            picture = np.asarray(_eight_bits(image).convert(MODES.get(shape[3] or 3, "RGB")))
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        why = "not a PNG or JPEG" if isinstance(error, UnidentifiedImageError) else error
        raise UsageError(f"{path.name} is not a picture: {why}") from None
    picture = picture.reshape(*picture.shape[:2], -1)
    height, width = shape[1] or picture.shape[0], shape[2] or picture.shape[1]
    if height * width > PIXELS:  # the host has named the shape
        raise UsageError(
            f"{path.name} would have {height}x{width} pixels for this model: it must have at most"
            f" {PIXELS} pixels"
        )
    sized = resized(picture, height, width)
    is_integer = tensor.dtype.startswith(("int", "uint"))
    return (sized.round() if is_integer else sized / np.float32(255))[None]


def _eight_bits(picture: Any) -> Any:
    """Pillow cuts 16 bits at 255; TensorFlow, with which models are trained, drops the lower 8."""
    if not picture.mode.startswith("I"):
        return picture
    return Image.fromarray((np.asarray(picture) >> 8).astype(np.uint8))


def resized(picture: Any, height: int, width: int) -> Any:
    """A picture [h, w, channels] in another size, as float32: bilinear between the nearest pixels,
    as tf.image.resize does it when a model is trained. (Pillow's smooths when it shrinks.)"""
    pixels = picture.astype(np.float32)
    for axis, size in enumerate((height, width)):
        place = (np.arange(size) + 0.5) * pixels.shape[axis] / size - 0.5
        low = np.floor(place).astype(int)
        weight = (place - low).astype(np.float32)
        weight = weight.reshape([-1 if n == axis else 1 for n in range(3)])
        last = pixels.shape[axis] - 1
        below, above = (pixels.take(np.clip(low + n, 0, last), axis) for n in (0, 1))
        pixels = below + (above - below) * weight
    return pixels
