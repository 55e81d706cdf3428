"""The git commit of a program, read from real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

from bootstrap.runs.request import commit_of


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=Ann", "-c", "user.email=ann@example.com"]
    argv = ["git", "-C", str(folder), *who, *arguments]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def test_the_commit_of_a_program_and_whether_it_was_changed(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    assert commit_of(tmp_path) is None and commit_of(tmp_path / "nowhere") is None
    git(tmp_path, "init", "-q")
    assert commit_of(tmp_path) is None, "a repository without a commit"
    (tmp_path / "train.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    git(tmp_path, "tag", "-a", "v1", "-m", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit_of(tmp_path) == commit_of(tmp_path / "inside") == head
    (tmp_path / "train.py").write_text("2")
    assert commit_of(tmp_path) == f"{head}-dirty"
