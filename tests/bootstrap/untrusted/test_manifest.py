"""A host's manifest of a run: what is read from it, and what is refused."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from bootstrap.errors import RailheadError
from bootstrap.untrusted.manifest import is_same, read_manifest, refuse_changed, skipped_line
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.runs.manifest import Entry, Manifest, Skipped

SHA = "ab" * 32


def file(path: str = "results/a", **changes: Any) -> dict[str, Any]:
    return {"path": path, "bytes": 0, "sha256": SHA, **changes}


def read(*files: Any, **changes: Any) -> Manifest:
    return read_manifest(json.dumps({"files": files, **changes}))


def test_files_and_skipped_entries_are_read() -> None:
    manifest = read(file(), file("logs/b", bytes=5), skipped=[{"path": "pipe", "kind": "FIFO"}])
    assert manifest.files == (Entry("results/a", 0, SHA), Entry("logs/b", 5, SHA))
    assert manifest.skipped == (Skipped("pipe", "FIFO"),)
    assert [entry.home for entry in manifest.files] == ["a", "logs/b"]
    assert read(file()).skipped == ()


REFUSED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "a negative size": ([file(bytes=-1)], {}, "files\\[0\\].bytes must be"),
    "a size that is text": ([file(bytes="1")], {}, "files\\[0\\].bytes must be"),
    "a size that is a truth": ([file(bytes=True)], {}, "files\\[0\\].bytes must be"),
    "a short hash": ([file(sha256="ab")], {}, "files\\[0\\].sha256 must be"),
    "no hash": ([{"path": "a", "bytes": 1}], {}, "a manifest that is not valid"),
    "files that are text": (["a"], {}, "a manifest that is not valid"),
    "a name twice": ([file(), file()], {}, "a manifest with a name twice, or with too many"),
    "a file in a file": ([file("a"), file("a/b")], {}, "a manifest with a name twice"),
    "one local name": ([file("results/outputs/a"), file("work/a")], {}, "two files for one name"),
    "another folder": ([file("../a")], {}, "files\\[0\\].path must be"),
    "skipped that is text": ([], {"skipped": ["a"]}, "skipped\\[0\\] must be"),
    "skipped without a kind": ([], {"skipped": [{"path": "a"}]}, "skipped\\[0\\] must be"),
    "a kind of a number": (
        [], {"skipped": [{"path": "a", "kind": 5}]}, "skipped\\[0\\].kind must be",
    ),
}  # fmt: skip


@pytest.mark.parametrize("files, changes, message", REFUSED.values(), ids=REFUSED)
def test_what_is_not_a_manifest_is_refused(
    files: list[Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(Hostile, match=f"the host sent .*{message}"):
        read(*files, **changes)


def test_there_may_be_a_hundred_thousand_files_and_no_more() -> None:
    files = [file(f"results/{number}") for number in range(100_001)]
    assert len(read(*files[1:]).files) == 100_000
    with pytest.raises(Hostile, match="too many"):
        read(*files)


def test_a_file_is_compared_by_its_content(tmp_path: Path) -> None:
    path, content = tmp_path / "a", b"x" * 3_000_000
    entry = Entry("a", len(content), hashlib.sha256(content).hexdigest())
    assert not is_same(entry, path)
    path.write_bytes(content)
    assert is_same(entry, path)
    path.write_bytes(content[:-1] + b"y")
    assert not is_same(entry, path)


def test_the_first_five_skipped_entries_are_named() -> None:
    entries = [Skipped(f"p{number}", "link") for number in range(7)]
    assert skipped_line([]) == []
    named = "not fetched: p0 (link), p1 (link), p2 (link), p3 (link), p4 (link)"
    assert skipped_line(entries[:5]) == [named]
    assert skipped_line(entries) == [f"{named} and 2 more"]
    assert skipped_line([Skipped("p" * 200, "k" * 200)]) == [
        f"not fetched: {'p' * 120} ({'k' * 80})"
    ]


def test_changed_files_are_named_with_the_next_command() -> None:
    refuse_changed([])
    with pytest.raises(RailheadError) as caught:
        refuse_changed(["a", "b"])
    assert caught.value.message.endswith("other content than the chief has: a, b")
    assert caught.value.hint == "fab fetch   # once more; the machines keep them"
