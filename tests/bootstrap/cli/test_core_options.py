"""The options of all tasks, and fabfiles of the user's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT
from standins.forks import forked_fab

from bootstrap.cli.command_line.arguments import CORE
from bootstrap.cli.command_line.completion import SCRIPTS
from bootstrap.cli.core_options import SHELLS
from bootstrap.cli.program import TASKS

CLOSED = "127.0.0.1:9"  # no sshd: a task that contacts it says so


def test_each_shell_has_a_script() -> None:
    assert {*SHELLS} == {*SCRIPTS}


@pytest.mark.parametrize("task", ["bootstrap", "plan", "train --preset smoke"])
def test_dry_prints_the_plan_of_a_task_that_has_one(tmp_path: Path, home: Path, task: str) -> None:
    """The plan reads the hosts first, and fails as `fab plan` does; train would start a run."""
    process = [
        forked_fab(tmp_path, *args.split(), "--hosts", CLOSED)
        for args in (f"--dry {task}", f"{task} --dry", "plan")
    ]
    assert {(done.returncode, done.stdout) for done in process} == {(4, process[2].stdout)}
    reasons = [done.stderr.partition(": ")[2] for done in process]
    assert "cannot be reached" in reasons[0] and {*reasons} == {reasons[2]}


def tasks_without_a_plan() -> dict[str, list[str]]:
    """By name the values of their arguments without a name."""
    named = {
        name: ["x" for option in task.options() if option.rule.positional]
        for name, task in TASKS.items()
    }
    return {name: named[name] for name in sorted({*named} - {"bootstrap", "plan", "train"})}


@pytest.mark.parametrize(("task", "values"), tasks_without_a_plan().items())
def test_dry_is_refused_where_a_task_has_no_plan(
    tmp_path: Path, home: Path, task: str, values: list[str]
) -> None:
    process = forked_fab(tmp_path, "--dry", task, *values)
    assert (process.returncode, process.stdout) == (2, ""), process.stderr
    rule = "--dry is for tasks that have a plan, bootstrap and train: fab "
    assert rule + TASKS[task].typed in process.stderr
    assert not (home / ".railhead").exists()


def test_help_shows_each_task_and_each_option(tmp_path: Path) -> None:
    process = forked_fab(tmp_path, "--help")
    assert (process.returncode, process.stderr) == (0, "")
    words = {word.strip(",") for word in process.stdout.split()}
    listed = json.loads(forked_fab(tmp_path, "--list", "--list-format", "json").stdout)
    assert {task["name"] for task in listed["tasks"]} == {*TASKS}
    assert {word for task in TASKS.values() for word in task.typed.split()} <= words
    assert {f"--{option.flag}" for option in CORE} <= words
    assert max(map(len, process.stdout.splitlines())) <= 100


def test_the_help_of_a_projects_own_fabfile_is_that_of_fabric(tmp_path: Path) -> None:
    (tmp_path / "fabfile.py").write_text("from fabric import task\n")
    assert "--warn-only" in forked_fab(tmp_path, "--help").stdout


OWN = """
from invoke import task
from railhead.tasks import ns

@task
def mine(c):
    "Theirs."
    print("mine")

ns.add_task(mine)
"""


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("--collection other mine", "mine\n"),
        (f"--search-root {ROOT} --list", "bootstrap"),
        ("--list", "Of this fabfile:"),
        ("", "Of this fabfile:"),
        ("--list --list-format json", '"name": "mine"'),
        ("mine mine", "mine\nmine\n"),
        ("-H a,b mine", "mine\nmine\n"),
        ("--dry --echo mine", "mine\n"),
        ("--complete -- fab sta", "status\nstart\n"),
        ("--print-completion-script bash", "complete -F"),
        ("--version", "Paramiko"),
        ("--help train", "Usage: fab train"),
        ("help", "Options before or after the task:"),
        ("help data push", "Usage: fab data push FOLDER URI"),
        ("data push help", "Usage: fab data push FOLDER URI"),
    ],
)
def test_a_fabfile_has_the_users_tasks_and_ours(tmp_path: Path, args: str, expected: str) -> None:
    for name in ("fabfile", "other"):
        (tmp_path / f"{name}.py").write_text(OWN)
    process = forked_fab(tmp_path, *args.split())
    assert (process.returncode, process.stderr) == (0, "")
    output = process.stdout
    assert output == expected if expected.endswith("\n") else expected in output


@pytest.mark.parametrize("place", ["9" * 300, __file__])
def test_a_search_root_that_is_no_folder_is_refused(tmp_path: Path, place: str) -> None:
    process = forked_fab(tmp_path, "--search-root", place, "--list")
    assert process.returncode == 2
    assert place in process.stderr
    assert process.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        f"--dry mine teardown --hosts {CLOSED}",
        f"-H {CLOSED} mine teardown -- ls",
        f"teardown --hosts {CLOSED} --dry",
    ],
)
def test_our_task_after_one_of_the_users_changes_nothing_with_dry(
    tmp_path: Path, args: str
) -> None:
    (tmp_path / "fabfile.py").write_text(OWN)
    assert forked_fab(tmp_path, *args.split()).returncode == 2


@pytest.mark.parametrize(("args", "stored"), [(["--write-pyc"], True), ([], False)])
def test_python_stores_a_compiled_fabfile_on_request(
    tmp_path: Path, args: list[str], stored: bool
) -> None:
    (tmp_path / "fabfile.py").write_text(OWN)
    forked_fab(tmp_path, *args, "mine")
    assert (tmp_path / "__pycache__").exists() is stored


def fabrics(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Fabric's own `fab`."""
    argv = [sys.executable, "-m", "fabric", *args]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True)


def test_fabrics_own_fab_lists_our_tasks_in_a_clone() -> None:
    listed = fabrics(ROOT, "--list")
    assert listed.returncode == 0, listed.stderr
    lines = [line[2:] for line in listed.stdout.splitlines() if line.startswith("  ")]
    assert {line.split()[0] for line in lines if line[0] != " "} == {*TASKS}


@pytest.mark.parametrize("args", ["train --hosts {}", "-H {} train", "--hosts={} train"])
def test_fabrics_own_fab_runs_a_task_once_for_all_hosts(home: Path, args: str) -> None:
    both = f"{CLOSED},127.0.0.1:11"
    done = fabrics(ROOT, *args.format(both).split(), "--preset", "smoke")
    assert (done.returncode, done.stdout.count(both)) == (4, 0), done.stderr
    assert done.stderr.startswith("fab train: 2 of 2 hosts cannot be reached\n")


def test_fabrics_own_fab_passes_on_what_is_wrong_and_dry(home: Path) -> None:
    done = fabrics(ROOT, "train", "--hosts", "a", "--preset", "smok")
    assert done.returncode == 2 and done.stderr.startswith("fab train: unknown preset 'smok'.")
    done = fabrics(ROOT, "--dry", "teardown", "--stack", "none")
    assert done.returncode == 2 and done.stderr.startswith("fab: --dry is for tasks that have")
