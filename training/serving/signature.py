"""The inputs and outputs of a model, and checks of arrays against them. Needs NumPy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

STRING = "string"
Arrays = Mapping[str, Any]  # name of an input or output -> NumPy array
# NumPy type -> name in the contract
_DTYPES = {
    "float32": "DT_FLOAT", "float64": "DT_DOUBLE", "float16": "DT_HALF", "bfloat16": "DT_BFLOAT16",
    "int8": "DT_INT8", "int16": "DT_INT16", "int32": "DT_INT32", "int64": "DT_INT64",
    "uint8": "DT_UINT8", "uint16": "DT_UINT16", "uint32": "DT_UINT32", "uint64": "DT_UINT64",
    "bool": "DT_BOOL", STRING: "DT_STRING",
}  # fmt: skip


class InvalidRequest(ValueError):
    """A request that cannot be answered; the message names what is expected."""


@dataclass(frozen=True)
class Tensor:
    """An input or an output; `shape` has None for any length and is None for any rank."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None

    def __str__(self) -> str:
        return f"{self.dtype} {shown(self.shape)}"

    @property
    def has_batch(self) -> bool:
        """Whether its first dimension counts samples."""
        return bool(self.shape) and self.shape is not None and self.shape[0] is None

    def metadata(self) -> dict[str, Any]:
        """As the contract's `metadata` has it."""
        sizes = [-1 if size is None else size for size in self.shape or ()]
        return {
            "dtype": _DTYPES.get(self.dtype, "DT_INVALID"),
            "tensor_shape": {
                "dim": [{"size": str(size), "name": ""} for size in sizes],
                "unknown_rank": self.shape is None,
            },
            "name": self.name,
        }

    def array(self, value: Any, where: str) -> Any:
        """The value of a request as an array of this type and shape.

        Raises:
            InvalidRequest: it is not such an array; `where` names it in the message.
        """
        array = _strings(value, where) if self.dtype == STRING else self._numbers(value, where)
        if self.shape is not None and not _fits(array.shape, self.shape):
            raise InvalidRequest(f"{where}: expected {self}, got shape {shown(array.shape)}")
        return array

    def _numbers(self, value: Any, where: str) -> Any:
        array = self._parsed(value, where)
        with np.errstate(all="ignore"):
            cast = array.astype(self.dtype)
        if np.issubdtype(array.dtype, np.floating) or cast.dtype.kind not in "iub":
            if not np.isfinite(cast.astype("float64")).all():
                raise InvalidRequest(f"{where}: expected finite numbers of {self.dtype}")
        elif array.size and (cast != array).any():
            raise InvalidRequest(f"{where}: a number is out of the range of {self.dtype}")
        return cast

    def _parsed(self, value: Any, where: str) -> Any:
        """The array that the value is, before the cast; its kind fits the type."""
        try:
            array = np.asarray(value)
        except (ValueError, OverflowError):
            raise InvalidRequest(f"{where}: expected {self}, got rows of unequal lengths") from None
        kinds = {"b": "b", "i": "iu", "u": "iu"}.get(np.dtype(self.dtype).kind, "fiu")
        if array.size and array.dtype.kind not in kinds:
            raise InvalidRequest(f"{where}: expected {self}, got {_kind(array)}")
        return array


@dataclass(frozen=True)
class Signature:
    """What a model can be called with. `mixes_rows`: the output of a row may depend on the other
    rows of its call."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    mixes_rows: bool = False

    @property
    def batches(self) -> bool:
        """Whether samples of several requests can go into one call."""
        rows = all(tensor.has_batch for tensor in (*self.inputs, *self.outputs))
        return rows and not self.mixes_rows

    def metadata(self) -> dict[str, Any]:
        """As the contract's `metadata` has it."""
        return {
            "inputs": {tensor.name: tensor.metadata() for tensor in self.inputs},
            "outputs": {tensor.name: tensor.metadata() for tensor in self.outputs},
            "method_name": "tensorflow/serving/predict",
        }

    def zeros(self, rows: int) -> dict[str, Any]:
        """Inputs of `rows` samples for a trial call; unknown lengths are 1."""
        return {tensor.name: _zeros(tensor, rows) for tensor in self.inputs}


def shown(shape: tuple[int | None, ...] | None) -> str:
    """A shape as text: [-1, 8, 8, 1], or "of any shape"."""
    if shape is None:
        return "of any shape"
    return f"[{', '.join('-1' if size is None else str(size) for size in shape)}]"


def have_equal_rows(arrays: Arrays) -> bool:
    """Whether all inputs have the same number of rows: the column form allows others."""
    return len({len(array) for array in arrays.values()}) == 1


def rows_of(arrays: Arrays) -> int:
    """The number of rows, if it is equal in all inputs."""
    return len(next(iter(arrays.values())))


def _zeros(tensor: Tensor, rows: int) -> Any:
    known = [1 if size is None else size for size in tensor.shape or (None,)]
    shape = [rows, *known[1:]] if tensor.has_batch or tensor.shape is None else known
    if tensor.dtype == STRING:
        return np.full(shape, b"", dtype=object)
    return np.zeros(shape, dtype=tensor.dtype)


def _fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    return len(shape) == len(expected) and all(
        size in (None, actual) for actual, size in zip(shape, expected, strict=True)
    )


def _strings(value: Any, where: str) -> Any:
    """Nested lists of text or bytes as an array of bytes."""
    array = np.asarray(_encoded(value, where), dtype=object)
    if any(isinstance(item, list) for item in array.ravel()):  # `flat` has at most 32 dimensions
        raise InvalidRequest(f"{where}: expected {STRING}, got rows of unequal lengths")
    return array


def _encoded(value: Any, where: str) -> Any:
    if isinstance(value, list):
        return [_encoded(item, where) for item in value]
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:  # a half of a surrogate pair
            raise InvalidRequest(
                f"{where}: expected {STRING}, got text that is not Unicode"
            ) from None
    raise InvalidRequest(f"{where}: expected {STRING}, got {type(value).__name__}")


def _kind(array: Any) -> str:
    kinds = {"U": "text", "S": "bytes", "b": "true or false", "f": "numbers with a fraction"}
    return kinds.get(array.dtype.kind, "a mixture of types or rows of unequal lengths")
