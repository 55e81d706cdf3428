"""Local data: which files it has, what is refused by name, and when a file is read again."""

from __future__ import annotations

import json
import os
import re
import shlex
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standins import ctrl_c
from standins.waiting import wait_until

from bootstrap.data import folders
from bootstrap.data.folders import LocalData, hashed, listed
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import caches


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with files, one of them in a folder that .gitignore excludes."""
    for name, text in {
        "a/1.jpg": "one",
        "a/2.jpg": "two",
        "b/3.jpg": "",
        ".gitignore": "a/",
    }.items():
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).write_text(text)
    (tmp_path / "data" / "link").symlink_to("a")
    return tmp_path / "data"


def names(listing: LocalData) -> list[str]:
    return [file.path for file in listing.files]


def hash_all(listing: LocalData) -> LocalData:
    return hashed(listing, lambda count: None)


def test_every_file_belongs_to_the_data(data: Path) -> None:
    listing = listed(data, "--data train")
    expected = [".gitignore", "a/1.jpg", "a/2.jpg", "b/3.jpg", "link/1.jpg", "link/2.jpg"]
    assert names(listing) == expected
    assert listing.total_bytes == 3 + 3 + 3 + 3 + 2


def test_one_file_is_a_folder_with_this_file(data: Path) -> None:
    assert names(listed(data / "a" / "1.jpg", "--data train")) == ["1.jpg"]


def test_the_digest_is_of_names_and_contents(data: Path) -> None:
    first = hash_all(listed(data, "")).digest
    assert hash_all(listed(data, "")).digest == first
    (data / "a/1.jpg").write_text("eno")
    changed = hash_all(listed(data, "")).digest
    (data / "b/3.jpg").rename(data / "b/4.jpg")
    assert len({first, changed, hash_all(listed(data, "")).digest}) == 3


def test_a_share_has_every_file_once(data: Path) -> None:
    listing = listed(data, "")
    shares = [listing.share(index, 3) for index in range(3)]
    assert sorted(name for share in shares for name in names(share)) == names(listing)
    assert names(shares[1]) == ["a/1.jpg", "link/1.jpg"]


def test_every_host_gets_the_manifest_of_shards_and_it_counts_for_no_share(data: Path) -> None:
    (data / "manifest.json").write_text("{}")
    shares = [listed(data, "").share(index, 3) for index in range(3)]
    assert all("manifest.json" in names(share) for share in shares)
    assert [len(share.files) - 1 for share in shares] == [2, 2, 2]
    (data / "z.jpg").write_text("after the manifest")
    whole = hash_all(listed(data, ""))
    assert whole.share(0, 1).digest == whole.digest, "a host alone has it already"


def make_empty(data: Path) -> None:
    for path in sorted(data.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    (data / "folder").mkdir()


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (make_empty, "has no files"),
        (lambda data: os.mkfifo(data / "pipe"), "pipe is not a file but a FIFO"),
        (
            lambda data: (data / "away").symlink_to("/etc"),
            "away is a link to /etc, which is outside",
        ),
        (lambda data: (data / "gone").symlink_to("nowhere"), "gone is a link to .*does not exist"),
        (lambda data: (data / "a/up").symlink_to(".."), "a link to a folder that contains it"),
        (lambda data: (data / "two\nlines").write_text(""), "is not one line of UTF-8"),
    ],
)
def test_what_cannot_be_sent_is_named(
    data: Path, spoil: Callable[[Path], None], expected: str
) -> None:
    spoil(data)
    with pytest.raises(UsageError) as caught:
        listed(data, "--data train")
    assert re.search(expected, str(caught.value)), caught.value


def test_a_file_without_the_right_to_read_is_named(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data.rename(data.with_name("my data"))
    real = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: (Path(path).name, mode) != ("2.jpg", os.R_OK) and real(path, mode),
    )
    with pytest.raises(UsageError, match=r"cannot read .*2\.jpg: Permission denied") as caught:
        listed(data, "--data train")
    path = Path(shlex.split(caught.value.hint)[-1])
    assert path.name == "2.jpg" and path.exists()


def test_a_fifo_that_is_named_itself_is_refused(data: Path) -> None:
    os.mkfifo(data / "pipe")
    with pytest.raises(UsageError, match="pipe is not a file but a FIFO"):
        listed(data / "pipe", "--data train")


def test_an_unchanged_file_is_not_read_again(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "SETTLED", 0)
    first = hash_all(listed(data, ""))
    kept = kept_hashes()
    marked = {name: {**entry, "sha256": "0" * 64} for name, entry in kept.items()}
    (cache,) = caches.cache("data-hashes").iterdir()
    cache.write_text(json.dumps(marked))  # what is taken from there differs from a new hash
    assert {file.sha256 for file in hash_all(listed(data, "")).files} == {"0" * 64}
    (data / "a/1.jpg").write_text("eno")
    again = {file.path: file.sha256 for file in hash_all(listed(data, "")).files}
    read = {name for name, sha256 in again.items() if sha256 != "0" * 64}
    assert read == {"a/1.jpg", "link/1.jpg"} and first.files[1].sha256 != again["a/1.jpg"]


def kept_hashes() -> dict[str, Any]:
    """The hashes that are kept for the next time, by the path of the file."""
    (cache,) = caches.cache("data-hashes").iterdir()
    hashes: dict[str, Any] = json.loads(cache.read_text())
    return hashes


def test_the_hash_of_a_file_that_just_changed_is_not_kept(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may change again within the resolution of the file system's clock."""
    monkeypatch.setattr(folders, "SETTLED", 300 * 10**9)
    for path in (data / "a/1.jpg", data / "a/2.jpg"):
        os.utime(path, (0, 0))  # a program may set this time, but not that of the last change
    hash_all(listed(data, ""))
    assert kept_hashes() == {}
    monkeypatch.setattr(folders, "SETTLED", 0)
    hash_all(listed(data, ""))
    assert "a/1.jpg" in kept_hashes(), "the hash of an old file is kept"


@pytest.mark.parametrize("spoil", [lambda p: p.write_text("longer"), lambda p: p.unlink()])
def test_a_file_that_changes_after_the_list_is_named(
    data: Path, spoil: Callable[[Path], None]
) -> None:
    listing = listed(data, "")
    spoil(data / "a/1.jpg")
    with pytest.raises(RailheadError, match=r"1\.jpg"):
        hash_all(listing)


def test_ctrl_c_does_not_wait_for_the_hash_of_a_large_file(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 42)  # without blocks on the disk: to read it takes an hour

    def press() -> None:
        wait_until(lambda: ctrl_c.is_anywhere_in("size_and_sha256"))
        ctrl_c.press()

    threading.Thread(target=press).start()
    with pytest.raises(KeyboardInterrupt):
        hash_all(listed(tmp_path, ""))
    assert not ctrl_c.is_anywhere_in("size_and_sha256")
