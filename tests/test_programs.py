"""The table of tested programs in docs/training.md, and the list of public ones."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from places import ROOT
from tested_programs import KINDS, Kind

from bootstrap.runs.strategies import STRATEGIES
from campaigns.__main__ import CAMPAIGNS
from campaigns.public_programs import sources
from campaigns.public_programs.outcomes import Outcome, read, table, write
from campaigns.public_programs.programs import PROGRAMS, Program


@pytest.mark.parametrize("kind", KINDS, ids=Kind.row)
def test_what_runs_a_program_exists(kind: Kind) -> None:
    for reference in filter(None, (kind.on_2_18, kind.on_2_21)):
        file, _, name = reference.partition("::")
        if not name:
            assert reference in CAMPAIGNS
            continue
        functions = ast.parse((ROOT / file).read_text()).body
        names = [part.name for part in functions if isinstance(part, ast.FunctionDef)]
        assert name in names, reference


def test_public_programs_are_named_by_a_commit() -> None:
    assert len(PROGRAMS) >= 30
    names = [program.name for program in PROGRAMS]
    assert len({*names}) == len(names)
    for program in PROGRAMS:
        assert re.fullmatch(r"[\w.-]+/[\w.-]+", program.repository), program
        assert re.fullmatch("[0-9a-f]{40}", program.commit), program
        assert program.path.endswith(".py") and program.strategy in STRATEGIES, program


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of GitHub, without a repository."""
    here = tmp_path / "github"
    here.mkdir()
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{here}/.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"{sources.GITHUB}/")
    monkeypatch.delenv("RAILHEAD_PROGRAMS", raising=False)
    return here


def repository_with(folder: Path, *files: str) -> str:
    """A repository with these files; returns its first commit. A later one has none of them."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(file)
    own = ("-c", "user.name=x", "-c", "user.email=x@y", "-C", str(folder))
    sources.git("init", "--quiet", str(folder))
    for name in ("allowFilter", "allowAnySHA1InWant"):  # as GitHub has them
        sources.git(*own, "config", f"uploadpack.{name}", "true")
    sources.git(*own, "add", ".")
    sources.git(*own, "commit", "--quiet", "-m", "first")
    commit = next((folder / ".git/refs/heads").iterdir()).read_text().strip()
    sources.git(*own, "rm", "--quiet", "-r", ".")
    sources.git(*own, "commit", "--quiet", "-m", "second")
    return commit


def test_a_program_is_fetched_at_its_commit_with_its_folder_only(
    github: Path, tmp_path: Path
) -> None:
    files = ("a/train.py", "a/net.py", "b/train.py", "train.py", "c/large.bin")
    commit = repository_with(github / "me/mine", *files)
    for script in ("train.py", "a/train.py", "b/train.py"):
        program = Program("me/mine", commit, script)
        place = sources.folder_of(program, tmp_path / "caches")
        assert (place / "train.py").read_text() == script
    root = place.parent
    left = {str(file.relative_to(root)) for file in root.rglob("*.*") if ".git" not in str(file)}
    assert left == {*files[:4]}


def test_a_program_that_cannot_be_fetched_has_a_reason(
    github: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = Program("me/mine", "0" * 40, "a/train.py")
    with pytest.raises(sources.NotFetched, match="me/mine cannot be fetched: .+"):
        sources.folder_of(program, tmp_path)
    assert not [*tmp_path.glob("railhead/public-programs/*")]
    monkeypatch.setenv("RAILHEAD_PROGRAMS", str(tmp_path))
    with pytest.raises(sources.NotFetched, match="train.py does not exist"):
        sources.folder_of(program, tmp_path)


def test_outcomes_are_kept_one_for_each_program_and_counted(tmp_path: Path) -> None:
    seed = ("tf2.18", "auto")
    for outcome in (
        Outcome("a/x.py", "failed", 3, why="it failed"),
        Outcome("a/x.py", "succeeded", 2, retried=True),
        Outcome("b/y.py", "refused", why="error: it needs Keras 2"),
        Outcome("c/z.py", "not fetched", why="no network"),
    ):
        write(tmp_path, seed, outcome)
    lines = table({seed: read(tmp_path, seed), ("tf2.21", "3"): []}).splitlines()
    assert lines[2:] == [
        "| 2.18 | `auto` | 2 | 1 | 1 |",
        "| 2.21 | `3` | 0 | 0 | 0 |",
        "- tf2.18 auto: b/y.py: refused: error: it needs Keras 2",
    ]
