"""Archives and names from a host: what is refused, with its reason, and what is still allowed."""

from __future__ import annotations

import fnmatch
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from standins.hostile import Member, member, packed, symlink

from bootstrap.errors import RailheadError
from bootstrap.untrusted import unpack
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.runs.manifest import DEPTH, FILES, NAME, PART

LONG = "/".join(["p" * 200] * 30)
FAULTS: dict[str, tuple[Any, str]] = {
    "a number": (5, "'5', which is not a text"),
    "an escape": ("a\x1bb", "which has control characters or is not UTF-8"),
    "a byte that is not a text": ("a\udcff", "which has control characters or is not UTF-8"),
    "a writing direction": ("a\u202eb", "which has control characters or is not UTF-8"),
    "empty": ("", "'', which is not a plain path below its folder"),
    "this folder": ("a/./b", "'a/./b', which is not a plain path below its folder"),
    "the folder above": ("a/../b", "which is not a plain path below its folder"),
    "absolute": ("/a", "which is not a plain path below its folder"),
    "too deep": ("/".join("a" * (DEPTH + 1)), f"which is more than {DEPTH} folders deep"),
    "a long part": ("p" * (PART + 1), f"longer than {NAME} bytes, or {PART} between two slashes"),
}
ALLOWED = ["a", "...", ".hidden", "a b", "é", "/".join("a" * DEPTH), "p" * PART, "a" * 30]


@pytest.mark.parametrize("name, why", FAULTS.values(), ids=FAULTS)
def test_a_name_that_is_refused_has_its_reason(name: Any, why: str) -> None:
    with pytest.raises(Hostile) as caught:
        unpack.checked(name)
    assert caught.value.message.startswith("the host sent the name '") and why in str(caught.value)
    assert caught.value.hint.startswith("fab ssh   # look at the host: its files or its Python")


@pytest.mark.parametrize("name", ALLOWED, ids=range(len(ALLOWED)))
def test_a_plain_name_is_allowed(name: str) -> None:
    assert unpack.checked(name) == name


def test_a_long_name_is_shown_in_part() -> None:
    with pytest.raises(Hostile, match=f"the name '{'p' * 80}', which"):
        unpack.checked("p" * 300)


def test_a_name_may_have_so_many_bytes() -> None:
    parts = ["p" * PART] * (NAME // (PART + 1))
    name = "/".join([*parts, "x" * (NAME - len(parts) * (PART + 1))])
    assert len(name) == NAME and unpack.checked(name) == name
    with pytest.raises(Hostile, match=f"longer than {NAME} bytes"):
        unpack.checked(f"{name}x")


@pytest.mark.parametrize("name", ["a*", "b?", "c[d]", "plain"])
def test_a_literal_pattern_matches_its_own_name_alone(name: str) -> None:
    assert fnmatch.fnmatchcase(name, unpack.literal(name))
    assert not fnmatch.fnmatchcase("axd", unpack.literal("a?d"))
    assert unpack.literal("a*?[") == "a[*][?][[]"


def test_an_archive_may_be_as_large_as_its_content_and_headers() -> None:
    assert unpack.packed_limit(5_000) == 5_000 + 5 + FILES * 4 * 512


def opened(tmp_path: Path, members: list[Member], limit: int = 100) -> list[str]:
    (tmp_path / "archive").write_bytes(packed(members))
    return unpack.unpack(tmp_path / "archive", tmp_path / "new", limit)


def test_regular_files_and_their_folders_are_written(tmp_path: Path) -> None:
    long = member("/".join(["p" * 60] * 4), b"deep")
    folder = member("d/", kind=tarfile.DIRTYPE)
    names = opened(tmp_path, [folder, member("d/a", b"x" * 96), long, member("empty")])
    assert names == ["d/a", long[0].name, "empty"]
    assert (tmp_path / "new/d/a").read_bytes() == b"x" * 96
    assert (tmp_path / "new" / long[0].name).read_bytes() == b"deep"
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "new/d/a").stat().st_mode & 0o133 == 0


ARCHIVES: dict[str, tuple[list[Member], str]] = {
    "a link": ([symlink("a", "b")], "a link, 'a'"),
    "a hard link": ([member("a", kind=tarfile.LNKTYPE)], "a hard link, 'a'"),
    "a device": ([member("a", kind=tarfile.CHRTYPE)], "a device, 'a'"),
    "a disk": ([member("a", kind=tarfile.BLKTYPE)], "a device, 'a'"),
    "a FIFO": ([member("a", kind=tarfile.FIFOTYPE)], "a FIFO, 'a'"),
    "another kind": ([member("a", kind=b"Z")], "a special entry, 'a'"),
    "too much": ([member("a", b"x" * 101)], "more than 100 bytes"),
    "too much in all": ([member("a", b"x" * 60), member("b", b"x" * 41)], "more than 100 bytes"),
    "a name twice": ([member("a"), member("a")], "an archive with two entries named 'a'"),
    "a file in a file": (
        [member("d/a"), member("d/a/b")],
        "an archive with two entries named 'd/a'",
    ),
    "a file for a folder": ([member("d/a"), member("d")], "an archive with two entries named 'd'"),
    "a folder with content": ([member("d", b"x", tarfile.DIRTYPE)], "a special entry, 'd'"),
}


@pytest.mark.parametrize("members, reason", ARCHIVES.values(), ids=ARCHIVES)
def test_an_archive_is_refused_with_its_reason(
    tmp_path: Path, members: list[Member], reason: str
) -> None:
    with pytest.raises(Hostile) as caught:
        opened(tmp_path, members)
    assert caught.value.message == f"the host sent {reason}: nothing of it was kept"


@pytest.mark.parametrize("cut", [100, 20_000])  # bytes after its end are not read
def test_a_cut_archive_is_refused(tmp_path: Path, cut: int) -> None:
    whole = packed([member("a", os.urandom(20_000))])
    (tmp_path / "archive").write_bytes(whole[: max(1, len(whole) - cut)])
    with pytest.raises(Hostile, match="the host sent a damaged archive:"):
        unpack.unpack(tmp_path / "archive", tmp_path / "new", 100_000)


def test_what_is_in_the_way_of_a_file_is_named(tmp_path: Path) -> None:
    root, file = tmp_path / "results", tmp_path / "file"
    (root / "folder").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    for name, why in {"folder": "is a folder here", "link/a": "is a link or not a folder"}.items():
        file.write_text("x")
        with pytest.raises(RailheadError, match=why):
            unpack.place(file, root, name)
        assert file.exists()
    unpack.place(file, root, "link")
    assert not (root / "link").is_symlink() and (root / "link").read_text() == "x"


def test_a_list_of_files_is_read() -> None:
    assert unpack.pairs([("a", 0), ("b", 5)]) == [("a", 0), ("b", 5)]


@pytest.mark.parametrize("files", [[("a", -1)], [("a", 1)] * (FILES + 1)])
def test_what_is_not_a_list_of_files_is_refused(files: list[tuple[str, int]]) -> None:
    with pytest.raises(Hostile, match="sent a list of files that is not valid:"):
        unpack.pairs(files)
