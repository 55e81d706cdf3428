"""The JSON documents of a run's folder: whole or not at all, and none that is too large."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bootstrap.host.base import json_file


def test_a_document_that_cannot_be_written_is_an_error_and_the_old_one_stays(
    tmp_path: Path,
) -> None:
    file = tmp_path / "state.json"
    json_file.save(str(file), {"state": "running"})
    (tmp_path / "state.json.part").mkdir()  # in the place of the file that becomes the new one
    with pytest.raises(OSError, match="state.json.part"):
        json_file.save(str(file), {"state": "succeeded"})
    assert json.loads(file.read_text()) == {"state": "running"}
    (tmp_path / "state.json.part").rmdir()
    with pytest.raises(TypeError):
        json_file.save(str(file), {"state": object()})
    assert json.loads(file.read_text()) == {"state": "running"}


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, '{"a": 1, "b": 2}'])
def test_what_a_program_may_have_written_is_an_object_of_a_limited_size(
    tmp_path: Path, text: str
) -> None:
    file = tmp_path / "evaluation.json"
    file.write_text('{"a": 1}')
    assert json_file.load_object(str(file), 10) == {"a": 1}
    file.write_text(text)
    assert json_file.load_object(str(file), 10) == {}
