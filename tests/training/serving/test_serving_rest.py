"""Requests and responses of a served model, by the documentation of the REST contract."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest

from training.serving import rest
from training.serving.settings import ServeSettings, SettingsError
from training.serving.signature import InvalidRequest, Signature, Tensor

IMAGE = Signature(
    "serving_default", (Tensor("x", "float32", (None, 2, 2)),), (Tensor("y", "float32", (None,)),)
)
PAIR = Signature(
    "serving_default",
    (Tensor("a", "int32", (None,)), Tensor("text", "string", (None,))),
    (Tensor("y", "float32", (None,)),),
)
FLAG = Signature("serving_default", (Tensor("b", "bool", (None,)),), ())


def read(body: Any, signature: Signature = IMAGE) -> dict[str, Any]:
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return rest.PredictRequest.read(text).arrays(signature)


SQUARE = [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "body",
    [
        {"instances": [SQUARE]},
        {"instances": [{"x": SQUARE}]},
        {"inputs": [SQUARE]},
        {"inputs": {"x": [SQUARE]}},
        {"signature_name": "serving_default", "instances": [SQUARE]},
    ],
    ids=str,
)
def test_all_forms_of_a_request_give_the_same_array(body: Any) -> None:
    loaded = read(body)["x"]
    assert loaded.dtype == np.float32 and loaded.tolist() == [SQUARE]


def test_text_and_bytes_of_several_inputs() -> None:
    encoded = {"b64": base64.b64encode(b"\xff\x00").decode()}
    rows = {"instances": [{"a": 1, "text": "ä"}, {"a": 2, "text": encoded}]}
    loaded = read(rows, PAIR)
    assert loaded["a"].tolist() == [1, 2] and loaded["a"].dtype == np.int32
    assert loaded["text"].tolist() == ["ä".encode(), b"\xff\x00"]
    columns = {"inputs": {"a": [1, 2], "text": ["ä", encoded]}}
    assert read(columns, PAIR)["text"].tolist() == loaded["text"].tolist()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error"),
        (b'{"instances": [[[1, 2], [3, 4]]', "JSON Parse error"),
        (b"[" * 100_000, "nested too deeply"),
        (b"[1]", "must be a JSON object"),
        ({}, "Missing 'inputs' or 'instances' key"),
        ({"instances": [SQUARE], "inputs": [SQUARE]}, "only one of"),
        ({"instances": []}, "at least one element"),
        ({"instances": {"x": 1}}, "must be a list"),
        ({"instances": [[1, 2]]}, "expected float32 [-1, 2, 2], got shape [1, 2]"),
        ({"instances": [[[1, 2], [3]]]}, "rows of unequal lengths"),
        ({"instances": [[["1", "2"], ["3", "4"]]]}, "expected float32 [-1, 2, 2], got text"),
        ({"instances": [[[True, False], [True, True]]]}, "got true or false"),
        ({"instances": [[[None, 1], [2, 3]]]}, "expected float32"),
        (b'{"instances": [[[NaN, 1], [2, 3]]]}', "expected finite numbers, got NaN"),
        (b'{"instances": [[[1e999, 1], [2, 3]]]}', "expected finite numbers of float32"),
        ({"instances": [[[1e39, 1], [2, 3]]]}, "expected finite numbers of float32"),
        ({"instances": [{"z": SQUARE}]}, "unknown input 'z'; the inputs: x"),
        ({"instances": [{"x": SQUARE}, {"z": 1}]}, "instance 1 has other inputs"),
        ({"inputs": {"x": [SQUARE], "z": 1}}, "unknown input 'z'"),
        ({"signature_name": 1, "instances": [SQUARE]}, "must be a string"),
    ],
)
def test_a_wrong_request_is_refused_and_names_what_is_expected(body: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(body)
    assert message in str(refused.value)


def test_a_request_is_decoded_for_its_signature() -> None:
    body = json.dumps({"signature_name": "pair", "inputs": {"a": [1], "text": ["x", "y"]}}).encode()
    decoded = rest.decode(body, {"pair": PAIR, "serving_default": IMAGE})
    assert (decoded.signature, decoded.by_row, decoded.rows) == ("pair", False, 0)
    assert {name: len(array) for name, array in decoded.arrays.items()} == {"a": 1, "text": 2}
    with pytest.raises(InvalidRequest, match="the signatures: serving_default"):
        rest.decode(body, {"serving_default": IMAGE})


@pytest.mark.parametrize(
    ("signature", "row", "message"),
    [
        (PAIR, 7, "each needs its name: a, text"),
        (PAIR, {"a": 1}, "Missing named input: text"),
        (PAIR, {"a": 1.5, "text": "x"}, "expected int32 [-1], got numbers with a fraction"),
        (PAIR, {"a": 1 << 40, "text": "x"}, "out of the range of int32"),
        (PAIR, {"a": 1, "text": 3}, "expected string, got int"),
        (PAIR, {"a": 1, "text": "\ud800"}, "expected string, got text that is not Unicode"),
        (PAIR, {"a": 1, "text": {"b64": "%"}}, '{"b64": "BASE64"}'),
        (FLAG, 1, "expected bool"),
    ],
)
def test_a_value_of_another_type_is_refused(signature: Signature, row: Any, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read({"instances": [row]}, signature)
    assert message in str(refused.value)


@pytest.mark.parametrize("signature", [IMAGE, PAIR])
def test_a_value_in_any_number_of_lists_is_refused(signature: Signature) -> None:
    """The parser of JSON accepts more levels than what follows."""
    for levels in range(10, 1100, 30):
        value = b"[" * levels + b"]" * levels
        row = value if signature is IMAGE else b'{"a": 1, "text": %s}' % value
        with pytest.raises(InvalidRequest):
            read(b'{"instances": [%s]}' % row, signature)


@pytest.mark.parametrize(
    ("outputs", "by_row", "answer"),
    [
        ({"y": np.array([1.5, 2])}, True, {"predictions": [1.5, 2.0]}),
        ({"y": np.array([1.5, 2])}, False, {"outputs": [1.5, 2.0]}),
        (
            {"y": np.array([1, 2]), "z": np.array([[3], [4]])},
            True,
            {"predictions": [{"y": 1, "z": [3]}, {"y": 2, "z": [4]}]},
        ),
        ({"y": np.array([1, 2]), "z": np.array(3)}, False, {"outputs": {"y": [1, 2], "z": 3}}),
        ({"t": np.array([b"a", b"b"], object)}, True, {"predictions": ["a", "b"]}),
        (
            {"t_bytes": np.array([b"a", b"\xff"], object)},
            True,
            {"predictions": [{"b64": "YQ=="}, {"b64": "/w=="}]},
        ),
    ],
)
def test_responses(outputs: dict[str, Any], by_row: bool, answer: Any) -> None:
    assert json.loads(rest.predict_response(outputs, by_row, 2)) == answer


def test_outputs_without_rows_need_the_column_form() -> None:
    with pytest.raises(InvalidRequest, match="send 'inputs'"):
        rest.predict_response({"y": np.array(3)}, True, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "a b"}, "name: 'a b' is not 1 to 63 letters"),
        ({"port": 0}, "port: 0 is not a whole number from 1 to 65535"),
        ({"max_batch": 0}, "max_batch: 0 is not a whole number from 1"),
        ({"timeout_s": 0}, "timeout_s"),
    ],
)
def test_settings_are_checked(change: dict[str, Any], message: str, tmp_path: Any) -> None:
    with pytest.raises(SettingsError, match=message):
        ServeSettings(**{"model": tmp_path, "name": "m", **change})


def test_batch_sizes_end_with_the_largest(tmp_path: Any) -> None:
    sizes = {n: ServeSettings(tmp_path, "m", max_batch=n).batch_sizes for n in (1, 8, 20)}
    assert sizes == {1: (1,), 8: (1, 2, 4, 8), 20: (1, 2, 4, 8, 16, 20)}
