"""What a command lists of the results that it has fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.workflows import attach


def test_files_are_listed_by_name_and_folders_with_the_number_of_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("worst/1.png", "worst/more/2.png", "logs/rank-0.log", "result.json", "a.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    lines = ["a.svg", "result.json", "logs/  1 file", "worst/  2 files"]
    assert attach.listing(tmp_path) == lines
    monkeypatch.setattr(attach, "SHOWN_ENTRIES", 3)
    assert attach.listing(tmp_path) == [*lines[:3], "... and 1 more"]
