"""What a command lists of the results that it has fetched."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.workflows import attach


def test_files_are_listed_and_of_a_folder_with_many_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [f"worst/{number}.png" for number in range(4)]
    for name in (*many, "worst/more/5.png", "logs/b/rank-0.log", "logs/a", "result.json", "a.svg"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    lines = ["a.svg", "logs/a", "logs/b/rank-0.log", "result.json", "worst/  5 files"]
    assert attach.listing(tmp_path) == lines
    monkeypatch.setattr(attach, "SHOWN_ENTRIES", 3)
    assert attach.listing(tmp_path) == [*lines[:3], "... and 2 more"]
