"""JSON of requests and responses, by TensorFlow Serving's REST contract. Needs NumPy only."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .signature import Arrays, InvalidRequest, Signature

DEFAULT_SIGNATURE = "serving_default"


class Refused(Exception):
    """A request that is answered with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)  # both, because it is sent between processes
        self.status, self.message = status, message


@dataclass(frozen=True)
class Decoded:
    """A predict request for a model; `rows` is the number of its instances."""

    signature: str
    by_row: bool
    rows: int
    arrays: Arrays


def decode(body: bytes, signatures: Mapping[str, Signature]) -> Decoded:
    """The inputs of a model in a body; InvalidRequest if they do not fit."""
    request = PredictRequest.read(body)
    if request.signature not in signatures:
        raise InvalidRequest(
            f'Serving signature name: "{request.signature}" not found in signature def; '
            f"the signatures: {', '.join(sorted(signatures))}"
        )
    rows = len(request.values) if request.by_row else 0
    arrays = request.arrays(signatures[request.signature])
    return Decoded(request.signature, request.by_row, rows, arrays)


@dataclass(frozen=True)
class PredictRequest:
    """The body of a predict request. `by_row`: as `instances`, not as `inputs`."""

    signature: str
    by_row: bool
    values: Any

    @classmethod
    def read(cls, body: bytes) -> PredictRequest:
        """Parse a body.

        Raises:
            InvalidRequest: it is not JSON, or has not exactly one of `instances` and `inputs`.
        """
        document = _parsed(body)
        if not isinstance(document, dict):
            raise InvalidRequest("the body must be a JSON object with 'instances' or 'inputs'")
        name = document.get("signature_name", DEFAULT_SIGNATURE)
        if not isinstance(name, str):
            raise InvalidRequest("'signature_name' must be a string")
        forms = [form for form in ("instances", "inputs") if form in document]
        if not forms:
            raise InvalidRequest("Missing 'inputs' or 'instances' key")
        if len(forms) == 2:
            raise InvalidRequest("expecting only one of 'inputs' or 'instances' keys to exist")
        values = document[forms[0]]
        if forms[0] == "instances" and not (isinstance(values, list) and values):
            raise InvalidRequest("'instances' must be a list with at least one element")
        return cls(name or DEFAULT_SIGNATURE, forms[0] == "instances", values)

    def arrays(self, signature: Signature) -> dict[str, Any]:
        """The inputs of the model.

        Raises:
            InvalidRequest: an input is missing, unknown, or of another type or shape.
        """
        columns = self._columns(signature)
        names = [tensor.name for tensor in signature.inputs]
        if unknown := sorted(set(columns) - set(names)):
            raise InvalidRequest(f"unknown input {unknown[0]!r}; the inputs: {', '.join(names)}")
        if missing := [name for name in names if name not in columns]:
            raise InvalidRequest(f"Missing named input: {missing[0]}")
        try:
            return {
                tensor.name: tensor.array(_decoded(columns[tensor.name]), f"input {tensor.name!r}")
                for tensor in signature.inputs
            }
        except RecursionError:
            raise InvalidRequest("nested too deeply") from None

    def _columns(self, signature: Signature) -> Mapping[str, Any]:
        """{input: value}; the value of a model's only input may stand alone."""
        values = self.values
        if self.by_row:
            if not all(_is_object(row) for row in values):
                return {_only(signature): values}
            names = list(values[0])
            for number, row in enumerate(values):
                if set(row) != set(names):
                    raise InvalidRequest(f"instance {number} has other inputs than instance 0")
            return {name: [row[name] for row in values] for name in names}
        return values if _is_object(values) else {_only(signature): values}


def predict_response(outputs: Arrays, by_row: bool, rows: int) -> bytes:
    """The body that answers a predict request of `rows` instances.

    Raises:
        InvalidRequest: the outputs have no rows, so that only the column form can show them.
    """
    lists = {name: _plain(name, array) for name, array in outputs.items()}
    if not by_row:
        return _body({"outputs": _alone(lists)})
    if any(np.ndim(array) == 0 or len(array) != rows for array in outputs.values()):
        raise InvalidRequest(
            f"an output of the model has not one row per instance ({rows}): send 'inputs' instead"
        )
    if len(lists) == 1:
        return _body({"predictions": _alone(lists)})
    names = list(lists)
    return _body(
        {
            "predictions": [
                dict(zip(names, row, strict=True)) for row in zip(*lists.values(), strict=True)
            ]
        }
    )


def metadata_response(name: str, version: int, signatures: Sequence[Signature]) -> bytes:
    """The body of GET /v1/models/NAME/metadata."""
    signature_map = {signature.name: signature.metadata() for signature in signatures}
    spec = {"name": name, "signature_name": "", "version": str(version)}
    metadata = {"signature_def": {"signature_def": signature_map}}
    return _body({"model_spec": spec, "metadata": metadata})


def status_response(states: Mapping[int, tuple[str, str]]) -> bytes:
    """The body of GET /v1/models/NAME, from {version: (state, error)}."""
    entries = [
        {
            "version": str(version),
            "state": state,
            "status": {"error_code": "UNKNOWN" if error else "OK", "error_message": error},
        }
        for version, (state, error) in sorted(states.items(), reverse=True)
    ]
    return _body({"model_version_status": entries})


def error_body(message: str) -> bytes:
    """The body of every refusal."""
    return json.dumps({"error": message}).encode()


def _body(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()  # NaN and Infinity as literals


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except InvalidRequest:
        raise
    except RecursionError:
        raise InvalidRequest("JSON Parse error: nested too deeply") from None
    except ValueError as error:
        raise InvalidRequest(f"JSON Parse error: {error}") from None


def _refuse_constant(text: str) -> None:
    raise InvalidRequest(f"expected finite numbers, got {text}")


def _is_object(value: Any) -> bool:
    """Whether a JSON object names inputs; {"b64": ...} is a value."""
    return isinstance(value, dict) and set(value) != {"b64"}


def _decoded(value: Any) -> Any:
    """The value with each {"b64": text} as bytes."""
    if isinstance(value, list):
        # A list of numbers is not searched: large requests have many.
        nested = any(isinstance(item, list | dict) for item in value)
        return [_decoded(item) for item in value] if nested else value
    if isinstance(value, dict):
        try:
            return base64.b64decode(value["b64"], validate=True)
        except (KeyError, TypeError, ValueError, binascii.Error):
            raise InvalidRequest('an object in a value must be {"b64": "BASE64"}') from None
    return value


def _only(signature: Signature) -> str:
    if len(signature.inputs) == 1:
        return signature.inputs[0].name
    names = ", ".join(tensor.name for tensor in signature.inputs)
    raise InvalidRequest(f"the model has several inputs, so each needs its name: {names}")


def _alone(lists: Mapping[str, Any]) -> Any:
    return next(iter(lists.values())) if len(lists) == 1 else lists


def _plain(name: str, array: Any) -> Any:
    """An output as JSON has it; bytes as text, or as base64 if the name ends in _bytes."""
    if array.dtype.kind not in "OSU":
        return array.astype("float64").tolist() if array.dtype.kind in "fV" else array.tolist()
    return _text(array.tolist(), name.endswith("_bytes"))


def _text(value: Any, as_bytes: bool) -> Any:
    if isinstance(value, list):
        return [_text(item, as_bytes) for item in value]
    if as_bytes:
        return {"b64": base64.b64encode(value).decode()}
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
