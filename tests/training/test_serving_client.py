"""Files that become samples of a model, and outputs that become answers."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training.serving.client import ClientError, Samples, read_file, report

DIMS = [{"size": str(size), "name": ""} for size in (-1, 2, 2)]
INPUTS = {"x": {"dtype": "DT_FLOAT", "tensor_shape": {"dim": DIMS}}}
SQUARE = [[0.0, 1.0], [0.5, 0.25]]
CLASSES = {"settings": {"task": "classification"}, "classes": ["cat", "dog"]}
BINARY = {"settings": {"task": "binary"}, "classes": ["no", "yes"]}
REGRESSION = {"settings": {"task": "regression"}, "classes": []}


def numpy_bytes(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", numpy_bytes(np.array(SQUARE))),
        ("x.npy", numpy_bytes(np.array([SQUARE]))),
        ("x.npy", numpy_bytes(np.array([np.ravel(SQUARE)]))),
        ("x.npy", numpy_bytes(np.array(SQUARE)[..., None])),
        ("x.csv", b"0,1,0.5,0.25\n"),
        ("x.csv", b"a,b,c,d\n0,1,0.5,0.25\n"),
        ("x.json", json.dumps([SQUARE]).encode()),
        ("x.json", json.dumps({"instances": [SQUARE]}).encode()),
    ],
)
def test_a_file_gives_one_sample(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    assert read_file(tmp_path / name, INPUTS).instances == [SQUARE]


def test_bytes_of_an_array_are_pixels(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(numpy_bytes(np.full((3, 2, 2), 255, np.uint8)))
    assert read_file(tmp_path / "x.npy", INPUTS).instances == [[[1.0, 1.0]] * 2] * 3


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.npy", b"no array", "is no array"),
        ("x.npy", numpy_bytes(np.array([{}], object)), "is no array"),
        ("x.npy", numpy_bytes(np.zeros((2, 3))), r"expected the shape \[-1, 2, 2\], got \[2, 3\]"),
        ("x.csv", b"1,2\n1,x\n", "must have numbers"),
        ("x.csv", b"1,2\n", "expected the shape"),
        ("x.json", b"{", "is not JSON"),
        ("x.json", b"[]", "a list of instances"),
        ("x.json", b'{"inputs": [1]}', "a list of instances"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ClientError, match=message):
        read_file(tmp_path / name, INPUTS)


@pytest.mark.parametrize(
    ("training", "outputs", "labels", "answers", "accuracy"),
    [
        (CLASSES, [[0, 2], [3, 0]], [1, 1], [("dog", "dog"), ("cat", "dog")], 0.5),
        (CLASSES, [[0, 2]], None, [("dog", None)], None),
        (BINARY, [[2.0], [-2.0]], [1, 0], [("yes", "yes"), ("no", "no")], 1.0),
        (REGRESSION, [[2.5]], [2.0], [("[2.5]", "2")], None),
        (None, [[2.5]], None, [("[2.5]", None)], None),
    ],
)
def test_outputs_become_answers(
    training: Any, outputs: Any, labels: Any, answers: Any, accuracy: float | None
) -> None:
    found = report(Samples([], labels), outputs, training)
    assert [(row["prediction"], row["right"]) for row in found["rows"]] == answers
    assert found["accuracy"] == accuracy and found["outputs"] == outputs


def test_the_score_of_a_class_is_its_probability() -> None:
    (row,) = report(Samples([]), [[0.0, 1000.0]], CLASSES)["rows"]
    assert row["score"] == pytest.approx(1.0)
    (row,) = report(Samples([]), [[1.0, 1.0]], CLASSES)["rows"]
    assert row["score"] == pytest.approx(0.5)
