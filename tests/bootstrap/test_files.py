"""Local files and folders appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.inventory.files import atomic_folder


def test_a_folder_appears_with_all_its_content(tmp_path: Path) -> None:
    wanted = tmp_path / "cache" / "folder"
    with atomic_folder(wanted) as part:
        (part / "a").write_text("a")
        (part.parent / "scratch").write_text("temporary")
        assert not wanted.exists()
    assert [path.name for path in wanted.iterdir()] == ["a"]
    assert list(wanted.parent.iterdir()) == [wanted]


def test_an_error_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "folder") as part:
        (part / "a").write_text("a")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_not_in_the_next_folder(tmp_path: Path) -> None:
    wanted = tmp_path / "folder"
    killed = atomic_folder(wanted)
    (killed.__enter__() / "half").write_text("half")
    with atomic_folder(wanted) as part:
        assert not list(part.iterdir())
        (part / "whole").write_text("whole")
    assert [path.name for path in wanted.iterdir()] == ["whole"]


def test_a_folder_that_is_there_already_is_kept(tmp_path: Path) -> None:
    wanted = tmp_path / "folder"
    with atomic_folder(wanted) as part:
        (part / "a").write_text("first")
    with pytest.raises(OSError), atomic_folder(wanted) as part:
        (part / "a").write_text("second")
    assert (wanted / "a").read_text() == "first"
    assert list(tmp_path.iterdir()) == [wanted]
