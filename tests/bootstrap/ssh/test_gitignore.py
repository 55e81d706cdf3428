"""Git itself is the oracle: what it would add of a folder is what is sent."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bootstrap.ssh.bundle import pack_folder

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="compares with git")

Tree = Mapping[str, str]

CASES: dict[str, tuple[Tree, Sequence[str]]] = {
    "a name at any depth": ({".gitignore": "*.log\n"}, ["a.log", "d/b.log", "d/b.txt"]),
    "a folder and not a file of its name": ({".gitignore": "build/\n"}, ["build/x", "d/build"]),
    "anchored by a first slash": ({".gitignore": "/out\n"}, ["out", "d/out"]),
    "anchored by a slash inside": ({".gitignore": "d/out\n"}, ["d/out", "e/d/out"]),
    "negation keeps one": ({".gitignore": "*.h5\n!best.h5\n"}, ["a.h5", "best.h5", "d/best.h5"]),
    "negation comes too early": ({".gitignore": "!best.h5\n*.h5\n"}, ["a.h5", "best.h5"]),
    "no way back into a left out folder": (
        {".gitignore": "data\n!data/keep.txt\n"},
        ["data/keep.txt", "data/x"],
    ),
    "a way back where only the contents were left out": (
        {".gitignore": "data/*\n!data/keep.txt\n"},
        ["data/keep.txt", "data/x", "data/sub/y"],
    ),
    "contents left out at every depth": (
        {".gitignore": "data/**\n!data/.gitkeep\n"},
        ["data/.gitkeep", "data/x", "data/sub/y", "data/sub/.gitkeep"],
    ),
    "folders kept for the files in them": (
        {".gitignore": "data/**\n!data/**/\n!data/**/*.csv\n"},
        ["data/a.csv", "data/x", "data/s/t/b.csv", "data/s/t/x"],
    ),
    "a kept folder does not keep its files": (
        {".gitignore": "*.txt\n!notes/\n"},
        ["notes/a.txt", "notes/b.md"],
    ),
    "all but": ({".gitignore": "/*\n!/src\n!.gitignore\n"}, ["src/a/b.py", "x", "d/y"]),
    "stars over folders": ({".gitignore": "a/**/z\n"}, ["a/z", "a/b/z", "a/b/c/z", "b/a/z"]),
    "stars first": ({".gitignore": "**/cache/x\n"}, ["cache/x", "d/cache/x", "d/cache/y"]),
    "stars in a name are one star": ({".gitignore": "d/a**z\n"}, ["d/az", "d/a/z", "d/abz"]),
    "a nested file": ({"d/.gitignore": "/x\ny\n"}, ["x", "y", "d/x", "d/y", "d/e/x", "d/e/y"]),
    "a nested file overrules": (
        {".gitignore": "*.bin\n", "d/.gitignore": "!keep.bin\n"},
        ["keep.bin", "d/keep.bin", "d/x.bin", "d/e/keep.bin"],
    ),
    "a nested file in a left out folder counts for nothing": (
        {".gitignore": "d/\n", "d/.gitignore": "!x\n"},
        ["d/x"],
    ),
    "a nested file that leaves out all": ({"env/.gitignore": "*\n"}, ["env/lib/x", "env/y", "z"]),
    "sets": ({".gitignore": "f[0-35]\nf[!a-z]x\n"}, ["f1", "f4", "f5", "fax", "f7x", "fAx"]),
    "a set matches no slash": ({".gitignore": "/d[!x]e\n"}, ["d/e", "dye", "dxe"]),
    "odd sets": ({".gitignore": "[]]a\n[^]]b\n[a-]c\n"}, ["]a", "xa", "]b", "xb", "-c", "bc"]),
    "kinds": ({".gitignore": "x[[:digit:]_]\ny[[:nokind:]]\n"}, ["x1", "x_", "xa", "y:", "yn"]),
    "an open set matches nothing": ({".gitignore": "a[b\n"}, ["a[b", "ab"]),
    "a reversed range is its start": ({".gitignore": "[z-a]\n[!z-a]x\n"}, ["b", "z", "bx"]),
    "escapes": ({".gitignore": "\\#a\n\\!b\n\\*c\n\\[d]\n"}, ["#a", "!b", "*c", "xc", "[d]"]),
    "an escape of nothing": ({".gitignore": "a\\\n"}, ["a", "a\\"]),
    "a question mark is one character": ({".gitignore": "a?c\n"}, ["abc", "ac", "abbc", "a/c"]),
    "comments and blank lines": ({".gitignore": "# all\n\n \n#x\n"}, ["#x", "all", " "]),
    "spaces": ({".gitignore": "a  \nb\\ \n c\n"}, ["a", "b", "b ", "c", " c"]),
    "a tab is not a space": ({".gitignore": "a\t\n"}, ["a", "a\t"]),
    "lines that end as on Windows": ({".gitignore": "a\r\nb/\r\n"}, ["a", "b/x", "c"]),
    "a byte order mark": ({".gitignore": "\ufeffa\n"}, ["a", "b"]),
    "no last newline": ({".gitignore": "a\nb"}, ["a", "b", "c"]),
    "umlauts": ({".gitignore": "größe*\n"}, ["größe.txt", "grösse.txt"]),
    "slashes alone": ({".gitignore": "/\n//\n!\n"}, ["a", "d/b"]),
    "everything": ({".gitignore": "*\n"}, ["a", "d/b"]),
    "every folder": ({".gitignore": "*/\n"}, ["a", "d/b"]),
    "every folder but one": ({".gitignore": "*/\n!d/\n"}, ["a", "d/b", "d/e/f", "e/f"]),
}


def plant(root: Path, tree: Tree, files: Sequence[str]) -> None:
    for path, content in {**dict.fromkeys(files, "x"), **tree}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode())


def git(folder: Path, *args: str) -> str:
    """Git with nothing of this machine's own settings."""
    nowhere = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    command = ["git", "-c", f"core.excludesFile={os.devnull}", *args]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **nowhere}, check=True, capture_output=True
    ).stdout.decode()


def by_git(folder: Path) -> list[str]:
    listed = git(folder, "ls-files", "-coz", "--exclude-standard").split("\0")
    return sorted(path for path in listed if path)


def by_us(folder: Path) -> list[str]:
    return [file.path for file in pack_folder(folder).files]


@pytest.mark.parametrize("case", CASES)
def test_gitignore_means_what_it_means_to_git(tmp_path: Path, case: str) -> None:
    git(tmp_path, "init", "-q")
    plant(tmp_path, *CASES[case])
    assert by_us(tmp_path) == by_git(tmp_path)


@pytest.mark.parametrize("case", CASES)
def test_gitignore_counts_without_a_repository(tmp_path: Path, case: str) -> None:
    plant(tmp_path, *CASES[case])
    ours = by_us(tmp_path)
    git(tmp_path, "init", "-q")
    assert ours == by_git(tmp_path)


def test_the_rules_above_the_folder_count_up_to_the_top_of_the_repository(tmp_path: Path) -> None:
    repo = tmp_path / "above" / "repo"
    tree = {
        "../.gitignore": "*\n",
        ".gitignore": "*.log\n/src/deep/b\n",
        "src/.gitignore": "deep/c\n!x.log\n",
    }
    plant(repo, tree, [f"src/deep/{name}" for name in ("a", "b", "c", "x.log", "y.log")])
    git(repo, "init", "-q")
    assert by_us(repo / "src" / "deep") == by_git(repo / "src" / "deep") == ["a", "x.log"]


@pytest.mark.parametrize("rule", ["scratch/", "*", "/play"])
def test_a_folder_that_was_requested_ships_though_rules_above_leave_it_out(
    tmp_path: Path, rule: str
) -> None:
    tree = {".gitignore": f"{rule}\n*.log\n", "play/scratch/.gitignore": "*.tmp\n"}
    plant(tmp_path, tree, ["play/scratch/train.py", "play/scratch/x.tmp"])
    git(tmp_path, "init", "-q")
    assert by_us(tmp_path / "play" / "scratch") == [".gitignore", "train.py"]


def test_files_of_the_index_are_sent_though_rules_leave_them_out(tmp_path: Path) -> None:
    files = ["base.cfg", "new.cfg", "out/a", "out/b", "out/__pycache__/c", "env/pyvenv.cfg"]
    plant(tmp_path, {".gitignore": "*.cfg\nout/\n"}, files)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", *(name for name in files if name not in ("new.cfg", "out/b")))
    git(tmp_path, "config", "core.fsmonitor", "touch started; false")
    assert by_us(tmp_path) == [".gitignore", "base.cfg", "out/a"]
    assert not (tmp_path / "started").exists()


def test_a_gitignore_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    plant(tmp_path, {"rules": "*.log\n"}, ["a.log"])
    (tmp_path / ".gitignore").symlink_to("rules")
    git(tmp_path, "init", "-q")
    assert by_us(tmp_path) == by_git(tmp_path) == [".gitignore", "a.log", "rules"]


SEGMENTS = ["a", "b", "d", "*", "**", "?", "*.txt", "[ab]", "[!a]", "d*", "**a", "[[:alpha:]]"]
NAMES = ["a", "b", "d", "dd", "x.txt", "a b", "#x"]


def _rule(dice: random.Random) -> str:
    body = "/".join(dice.choice(SEGMENTS) for _ in range(dice.choice([1, 1, 2, 2, 3])))
    first = dice.choice(["", "", "", "/"]) + body
    return dice.choice(["", "", "!"]) + first + dice.choice(["", "", "", "/"])


def _grow(root: Path, dice: random.Random) -> None:
    folders = [root]
    for make in [Path.mkdir] * 7 + [Path.touch] * 14:
        place = dice.choice(folders) / dice.choice(NAMES)
        if not place.exists():
            make(place)
            folders += [place] if place.is_dir() else []
    for folder in {root, dice.choice(folders)}:
        rules = [_rule(dice) for _ in range(dice.randint(1, 4))]
        (folder / ".gitignore").write_text("\n".join(rules) + "\n")


@pytest.mark.parametrize("seed", range(60))
def test_random_rules_mean_what_they_mean_to_git(tmp_path: Path, seed: int) -> None:
    git(tmp_path, "init", "-q")
    _grow(tmp_path, random.Random(seed))
    rules = {str(file): file.read_text() for file in tmp_path.rglob(".gitignore")}
    assert by_us(tmp_path) == by_git(tmp_path), rules
