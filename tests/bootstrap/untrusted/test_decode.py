"""JSON and archives of any content: memory and numbers stay bounded, and only Hostile is raised."""

from __future__ import annotations

import contextlib
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from properties import bounded
from standins.hostile import member, packed

from bootstrap.untrusted import decode, unpack
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.runs.manifest import fault
from railhead.documents.runs.result import Result

NUMBERS = st.integers() | st.floats() | st.sampled_from([2**63, -(2**63), 2**63 - 1, 10**30])
TEXTS = st.text('",:[{\\aé', max_size=6)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(TEXTS, inside, max_size=4),
    max_leaves=12,
)


def expected(value: Any) -> Any:
    """What comes of a value: a number that is not finite, or of 2^63 and more, becomes None."""
    match value:
        case bool() | None | str():
            return value
        case int() | float():
            return value if math.isfinite(value) and abs(value) < 2**63 else None
        case list():
            return [expected(item) for item in value]
        case _:
            return {name: expected(item) for name, item in value.items()}


@given(JSON)
@bounded()
def test_documents_keep_their_values_but_for_numbers_that_are_too_large(value: Any) -> None:
    assert decode.decoded(json.dumps(value)) == expected(value)
    assert decode.decoded(json.dumps(value).encode()) == expected(value)


@given(st.binary(max_size=40) | st.text(max_size=40))
@example(b"[" * 100_000)
@example("9" * 5000)
@example("\ud800")
@bounded()
def test_any_text_is_a_document_or_a_value_error(text: str | bytes) -> None:
    with contextlib.suppress(ValueError):
        decode.decoded(text)
    with contextlib.suppress(Hostile):
        decode.parsed(Result, text, "a result.json")


@pytest.mark.parametrize(
    "document", [[[]] * 6, {str(number): 0 for number in range(6)}, [{}] * 6, [0] * 12]
)
def test_a_document_of_too_many_values_is_not_decoded(
    document: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A list takes 56 bytes of memory, and two in the text."""
    monkeypatch.setattr(decode, "MARKS", 10)
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match="too many values"):
        decode.decoded(json.dumps(document))
    assert decode.json_line(json.dumps({"a": document})) == {}


@given(st.lists(TEXTS, max_size=8))
@bounded()
def test_marks_within_texts_are_not_values(texts: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decode, "MARKS", 10)
        assert decode.decoded(json.dumps(texts, ensure_ascii=False)) == texts


@given(st.text(max_size=20) | st.text("a./\\é\x1b", max_size=8))
@example("../a")
@example("/a")
@bounded()
def test_a_name_is_below_its_folder_or_refused(name: str) -> None:
    try:
        path = Path("/root/results") / unpack.checked(name)
    except Hostile:
        assert fault(name)
        return
    assert path.relative_to("/root/results").as_posix() == name
    assert ".." not in path.parts and not any(ord(char) < 32 for char in name)


ARCHIVE = packed([member("d/a", b"x" * 600), member("b", b"y")])


@given(st.integers(0, len(ARCHIVE) - 1), st.integers(0, 255), st.integers(0, len(ARCHIVE)))
@bounded()
def test_an_archive_with_a_changed_byte_gives_its_files_or_is_refused(
    place: int, byte: int, length: int
) -> None:
    changed = bytearray(ARCHIVE)
    changed[place] = byte
    with tempfile.TemporaryDirectory() as folder:
        archive, into = Path(folder, "archive"), Path(folder, "new")
        archive.write_bytes(bytes(changed[: max(length, place + 1)]))
        with contextlib.suppress(Hostile):
            assert unpack.unpack(archive, into, 1000) == ["d/a", "b"]
        assert {path.name for path in Path(folder).iterdir()} <= {"archive", "new"}
