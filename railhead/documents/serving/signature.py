"""The answer to GET /v1/models/NAME/metadata, as TensorFlow Serving and our server have it."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

WHOLE = r"-?[0-9]{1,18}"  # JSON of protocol buffers has 64-bit integers as text


@dataclass(frozen=True)
class Dimension:
    """The length of one dimension; -1 is any."""

    size: str = key(pattern=WHOLE)


@dataclass(frozen=True)
class Shape:
    """The dimensions of a tensor, the number of samples among them."""

    dim: tuple[Dimension, ...] | None = None
    unknown_rank: bool = False


@dataclass(frozen=True)
class TensorInfo:
    """An input or an output; `dtype` is such as DT_FLOAT."""

    dtype: str
    tensor_shape: Shape | None = None


@dataclass(frozen=True)
class ServingDefault:
    """The inputs and outputs of a model, by name."""

    inputs: Mapping[str, TensorInfo]
    outputs: Mapping[str, TensorInfo]


@dataclass(frozen=True)
class Signatures:
    """The signatures of a model that are used here."""

    serving_default: ServingDefault


@dataclass(frozen=True)
class SignatureMap:
    """The protocol buffer SignatureDefMap."""

    signature_def: Signatures


@dataclass(frozen=True)
class ModelInfo:
    """The metadata of a model."""

    signature_def: SignatureMap


@dataclass(frozen=True)
class ModelSpec:
    """The model that answered."""

    version: str = key(pattern=r"[0-9]{1,18}")


@dataclass(frozen=True)
class ModelMetadata:
    """The version that serves, and its signature."""

    model_spec: ModelSpec
    metadata: ModelInfo
