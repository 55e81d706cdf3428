"""Local files and folders appear whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bootstrap.errors import UsageError
from bootstrap.inventory.files import atomic_folder, existing_path, folder_option

IMPOSSIBLE = {"too long": "x" * 5000, "a home of nobody": "~no-such-user/x", "a NUL": "a\0b"}


@pytest.mark.parametrize("text", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_name_that_no_file_can_have_is_no_traceback(text: str) -> None:
    assert existing_path(text) is None
    with pytest.raises(UsageError, match="--to: no folder can have this name: "):
        folder_option(text, "--to")


def test_a_path_that_a_user_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "there").mkdir()
    assert existing_path("~/there") == folder_option("~/there", "--to") == tmp_path / "there"
    assert existing_path("~/nowhere") is None
    assert folder_option("~/nowhere", "--to") == tmp_path / "nowhere"


def test_a_folder_appears_with_all_its_content(tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "folder"
    with atomic_folder(folder) as temporary:
        (temporary / "a").write_text("a")
        (temporary.parent / "scratch").write_text("temporary")
        assert not folder.exists()
    assert [path.name for path in folder.iterdir()] == ["a"]
    assert list(folder.parent.iterdir()) == [folder]


def test_an_error_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "folder") as temporary:
        (temporary / "a").write_text("a")
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_what_a_killed_process_left_is_not_in_the_next_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    killed = atomic_folder(folder)
    (killed.__enter__() / "half").write_text("half")
    with atomic_folder(folder) as temporary:
        assert not list(temporary.iterdir())
        (temporary / "whole").write_text("whole")
    assert [path.name for path in folder.iterdir()] == ["whole"]


def test_a_folder_that_is_there_already_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with atomic_folder(folder) as temporary:
        (temporary / "a").write_text("first")
    with pytest.raises(OSError), atomic_folder(folder) as temporary:
        (temporary / "a").write_text("second")
    assert (folder / "a").read_text() == "first"
    assert list(tmp_path.iterdir()) == [folder]
