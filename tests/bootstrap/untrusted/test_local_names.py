"""Names of results that a tool runs by itself: the files come under other names."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from standins.hostile import RESULT, Host, Member, member, packed

from bootstrap.runs import event_files, results
from bootstrap.runs.run import Run
from bootstrap.untrusted import unpack
from bootstrap.untrusted.manifest import homes
from railhead.documents.runs.local_names import local_name

CHANGED = {
    ".git/config": "dot-git/config",
    "a/.GIT/hooks/post-checkout": "a/dot-GIT/hooks/post-checkout",
    "\uff0egit/config": "dot-git/config",
    "\u200c.git/config": "dot-.git/config",
    "HE\u200cAD": "HE\u200cAD.fetched",
    "git~1/config": "git~1.fetched/config",
    "HEAD": "HEAD.fetched",
    "deep/in/it/head": "deep/in/it/head.fetched",
    ".envrc": "dot-envrc",
    ".vscode/settings.json": "dot-vscode/settings.json",
    ".idea/workspace.xml": "dot-idea/workspace.xml",
    ".pre-commit-config.yaml": "dot-pre-commit-config.yaml",
    "Pulumi.yaml": "Pulumi.yaml.fetched",
    "pulumi.dev.yml": "pulumi.dev.yml.fetched",
    "fabfile.py": "fabfile.py.fetched",
    "fabfile/__init__.py": "fabfile.fetched/__init__.py",
    "railhead.toml": "railhead.toml.fetched",
    "MAKEFILE": "MAKEFILE.fetched",
    "Makefile. ": "Makefile. .fetched",
    "sitecustomize.py": "sitecustomize.py.fetched",
    "jupyter_server_config.py": "jupyter_server_config.py.fetched",
    "webpack.config.js": "webpack.config.js.fetched",
}
SAME = [
    "head/weights.h5", "model.keras", "outputs/run.log", "a/.zarray", ".hydra/config.yaml", "...",
    "tasks/a.json", "config.json", "saved_model.pb", "git/config", "makefile.txt", "é/ü",
]  # fmt: skip


@pytest.mark.parametrize("name", CHANGED)
def test_a_name_that_a_tool_opens_by_itself_is_changed(name: str) -> None:
    assert local_name(name) == CHANGED[name]
    assert local_name(CHANGED[name]) == CHANGED[name], "a changed name is known to no tool"


@pytest.mark.parametrize("name", SAME)
def test_other_names_stay(name: str) -> None:
    assert local_name(name) == name


def test_two_files_that_would_get_one_name_are_refused() -> None:
    with pytest.raises(unpack.Hostile, match="two files for one name"):
        homes(["work/.git/config", "work/dot-git/config"])


def repository(top: str, marker: Path) -> list[Member]:
    """A repository whose configuration names a program that makes `marker`."""
    config = f'[core]\n\trepositoryformatversion = 0\n\tfsmonitor = "touch {marker}; false"\n'
    config += "\tbare = false\n\tworktree = .\n" if not top.endswith(".git/") else ""
    return [
        member(f"{top}HEAD", b"ref: refs/heads/main\n"),
        member(f"{top}config", config.encode()),
        member(f"{top}objects/info/x", b""),
        member(f"{top}refs/heads/x", b""),
        member(f"{top}index.txt", b"x"),
    ]


def status_everywhere(folder: Path) -> None:
    """What a prompt that shows the branch does in each folder of the results."""
    variables = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    for place in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        subprocess.run(["git", "status"], cwd=place, env=variables, capture_output=True, timeout=20)


LAYOUTS = ["results/.git/", "work/.git/", "work/a/.Git/", "results/", "work/"]


@pytest.mark.parametrize("top", LAYOUTS)
def test_git_finds_no_repository_in_fetched_results(tmp_path: Path, top: str) -> None:
    marker, run = tmp_path / "ran", Run("r1", tmp_path / "results/r1")
    lines: list[str] = []
    members = [*repository(top, marker), member("results/result.json", RESULT)]
    results.fetch(cast(Any, Host(packed(members))), run, lines.append)
    status_everywhere(run.results)
    assert not marker.exists()
    head = homes([f"{top}HEAD"])[f"{top}HEAD"]
    assert (run.results / local_name(head)).read_text() == "ref: refs/heads/main\n"
    listed = (run.results / "renamed.txt").read_text()
    assert f"{head}  ->  {local_name(head)}\n" in listed
    assert [line for line in lines if str(run.results / "renamed.txt") in line]


@pytest.mark.parametrize("top", [".git/", ""])
def test_git_runs_the_program_of_such_a_repository_under_its_own_names(
    tmp_path: Path, top: str
) -> None:
    """The layouts above do what they should."""
    marker = tmp_path / "ran"
    for entry, data in repository(top, marker):
        path = tmp_path / "r1" / entry.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    status_everywhere(tmp_path / "r1")
    assert marker.exists()


def events(host: Host, run: Run) -> None:
    """`fab tensorboard`."""
    cast(Any, host).sizes = lambda *_: [("work/.git/x.tfevents", 1)]
    event_files.HostEvents(run).bring(cast(Any, host))


def killed(host: Host, run: Run) -> None:
    """A fetch that is killed leaves what it has unpacked."""
    run.results.mkdir(parents=True)
    (run.results / "packed").write_bytes(host.archive)
    unpack.unpack(run.results / "packed", run.results / ".fetch-1", 1000)


@pytest.mark.parametrize("way", [events, killed])
def test_each_way_to_the_results_changes_the_names(
    tmp_path: Path, way: Callable[[Host, Run], None]
) -> None:
    run = Run("r1", tmp_path / "results/r1")
    way(Host(packed([member("work/.git/x.tfevents", b"1")])), run)
    names = {path.name for path in run.results.rglob("*")}
    assert "dot-git" in names and ".git" not in names
