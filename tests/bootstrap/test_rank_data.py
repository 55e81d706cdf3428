"""A host's share of a folder that all hosts have. tests/e2e/test_data_runs.py runs scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.remote.rank.rank_data import share_of


def test_a_host_without_a_file_of_the_folder_is_refused(tmp_path: Path) -> None:
    """Its ranks would train on nothing."""
    (tmp_path / "all").mkdir()
    for name in ("a", "b", "manifest.json"):
        (tmp_path / "all" / name).touch()
    shares = [share_of(str(tmp_path / "all"), str(tmp_path / f"{i}"), i, 2) for i in (0, 1)]
    assert [sorted(path.name for path in Path(share).iterdir()) for share in shares] == [
        ["a", "manifest.json"],
        ["b", "manifest.json"],
    ]
    for path, index, count in ((tmp_path / "all", 2, 3), (tmp_path / "all/a", 0, 2)):
        with pytest.raises(SystemExit, match=f"has no file for host {index + 1} of {count}"):
            share_of(str(path), str(tmp_path / "none"), index, count)
