"""Files and arrays that become samples of a model, on this side and without TensorFlow."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bootstrap.errors import UsageError
from bootstrap.serving.calls import rest, samples
from bootstrap.serving.calls.rest import Tensor

GREY = rest.Signature({"x": Tensor("float32", (None, 2, 2))}, {})
SQUARE = [[0.0, 1.0], [0.5, 0.25]]


def numpy_bytes(array: Any, save: Callable[..., None] = np.save) -> bytes:
    out = io.BytesIO()
    save(out, array)
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
    assert samples.rows_of_file(tmp_path / name, GREY) == [SQUARE]


def test_bytes_of_an_array_are_pixels(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(numpy_bytes(np.full((3, 2, 2), 255, np.uint8)))
    assert samples.rows_of_file(tmp_path / "x.npy", GREY) == [[[1.0, 1.0]] * 2] * 3
    for kind, value in (("bfloat16", 1.0), ("uint8", 255), ("int32", 255)):
        pixels = rest.Signature({"x": Tensor(kind, (None, 2, 2))}, {})
        assert samples.rows_of_file(tmp_path / "x.npy", pixels)[0][0] == [value, value]


def test_a_row_of_numbers_is_not_taken_for_several_samples_of_one_number() -> None:
    tensor = Tensor("float32", (None, 1))
    assert samples.shaped([7.0], tensor, "x").tolist() == [[7.0]]
    assert samples.shaped([[7.0], [8.0]], tensor, "x").tolist() == [[7.0], [8.0]]
    with pytest.raises(UsageError, match=r"expected the shape \[-1, 1\], got \[2\]"):
        samples.shaped([7.0, 8.0], tensor, "x")


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 4, 4), (4, 3, 4), (8, 6), (2, 8, 6)])
def test_values_in_another_order_are_not_a_picture(shape: tuple[int, ...]) -> None:
    """Such as channels first: the same number of values, each at another place."""
    tensor = Tensor("float32", (None, 4, 4, 3))
    with pytest.raises(UsageError, match=r"expected the shape \[-1, 4, 4, 3\]"):
        samples.shaped(np.zeros(shape), tensor, "x")
    for accepted in ((4, 4, 3), (2, 4, 4, 3), (48,), (2, 48)):
        array = np.arange(np.prod(accepted)).reshape(accepted)
        rows = samples.shaped(array, tensor, "x")
        assert rows.ravel().tolist() == [*range(rows.size)] and rows.shape[1:] == (4, 4, 3)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.npy", b"no array", "is not an array"),
        ("x.npy", b"PK\x03\x04 no archive", "is not an array"),
        ("x.npy", numpy_bytes(np.zeros(9)).replace(b"(9,)", b"(%d,)" % 10**15), "is not an array"),
        ("x.npy", numpy_bytes(np.zeros(9)).replace(b"(9,)", b"(%d,)" % 10**23), "is not an array"),
        ("x.npy", numpy_bytes(np.array(SQUARE), np.savez), "is not an array"),
        ("x.npy", numpy_bytes(np.array([{}], object)), "is not an array"),
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
    with pytest.raises(UsageError, match=message):
        samples.read_file(tmp_path / name, GREY)


def grey(shape: tuple[int | None, ...], dtype: str = "float32") -> Any:
    return rest.Signature({"x": Tensor(dtype, shape)}, {})


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "I;16", "CMYK"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_picture_has_the_size_and_the_colours_of_the_input(
    tmp_path: Path, mode: str, channels: int
) -> None:
    path = tmp_path / ("x.jpg" if mode == "CMYK" else "x.png")
    half = Image.new("L", (5, 4), 128)
    picture = Image.fromarray(np.full((4, 5), 128 << 8, np.uint16)) if mode == "I;16" else half
    (picture if mode in ("L", "I;16") else half.convert("RGB").convert(mode)).save(path)
    picture_rows = samples.read_file(path, grey((None, 2, 3, channels)))
    assert picture_rows.shape == (1, 2, 3, channels)
    assert np.abs(picture_rows[..., :3] - 128 / 255).max() < 0.02
    if channels == 4:
        assert (picture_rows[..., 3] == 1).all()


def test_a_shape_of_the_host_takes_no_memory_without_an_end(tmp_path: Path) -> None:
    Image.new("L", (2, 2)).save(tmp_path / "x.png")
    for shape in ((None, 50_000, 50_000, 1), (None, 1, 2**40, 1)):
        with pytest.raises(UsageError, match="must have at most 25000000 pixels"):
            samples.read_file(tmp_path / "x.png", grey(shape))


def test_a_picture_for_whole_numbers_is_not_scaled(tmp_path: Path) -> None:
    Image.new("L", (2, 2), 200).save(tmp_path / "x.png")
    assert (
        samples.read_file(tmp_path / "x.png", grey((None, None, None, 1), "uint8")) == 200
    ).all()


def test_a_picture_is_sized_as_in_training() -> None:
    """Half-pixel centres, bilinear, nothing smoothed: what tf.image.resize gives for these."""
    row = np.array([0.0, 10, 20, 30]).reshape(1, 4, 1)
    assert samples.resized(row, 1, 2).ravel().tolist() == [5.0, 25.0]
    assert samples.resized(row, 1, 8).ravel().tolist() == [
        0.0, 2.5, 7.5, 12.5, 17.5, 22.5, 27.5, 30.0,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "shape", "message"),
    [
        (b"no picture", (None, 2, 2, 1), "x.png is not a picture: not a PNG or JPEG"),
        (b"", (None, 2, 2, 1), "x.png is not a picture"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 40, (None, 2, 2, 1), "x.png is not a picture"),
        (b"", (None, 4), r"does not accept pictures: its input has the shape \[-1, 4\]"),
        (b"", None, "does not accept pictures"),
    ],
)
def test_what_is_not_a_picture_is_refused(
    tmp_path: Path, content: bytes, shape: Any, message: str
) -> None:
    (tmp_path / "x.png").write_bytes(content)
    with pytest.raises(UsageError, match=message):
        samples.read_file(tmp_path / "x.png", grey(shape))


@pytest.mark.parametrize("value", [np.zeros((2, 3), np.float32), [{"a": 1}], np.array(["a", b"b"])])
def test_samples_reach_the_client_on_the_host_unchanged(tmp_path: Path, value: Any) -> None:
    from training.serving.client import read_file

    name = samples.write(value, tmp_path)
    expected = value if isinstance(value, list) else samples.listed(value)
    assert read_file(tmp_path / name).instances == expected


def test_bytes_and_text_are_sent_as_the_contract_has_them() -> None:
    assert samples.listed(np.array([b"\xff", b"a"], object)) == [{"b64": "/w=="}, {"b64": "YQ=="}]
    assert samples.listed(np.array([["a"], ["b"]])) == [["a"], ["b"]]
