"""Fabric's core options: each has its effect on our tasks, or is refused before any host is
contacted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from invoke import Argument
from places import ROOT
from standins.forks import forked_fab

from bootstrap.cli import executor
from bootstrap.cli.collection import ns
from bootstrap.cli.command_line.core_options import INSTEAD, WORKING, name_of
from bootstrap.cli.program import Program, main, new_program

CLOSED = "127.0.0.1:9"  # no sshd: a task that contacts it says so
OPTIONS: dict[str, Argument] = {
    name_of(one): one for one in new_program().initial_context.args.values()
}


def typed(argument: Argument, name: str) -> list[str]:
    option = f"-{name}" if len(name) == 1 else f"--{name}"
    value = "1" if argument.kind is int else "x"
    return [option, value] if argument.takes_value else [option]


def test_each_option_of_the_installed_fabric_works_or_is_refused() -> None:
    assert {*WORKING} | {*INSTEAD} == {*OPTIONS}
    assert not {*WORKING} & {*INSTEAD}


@pytest.mark.parametrize("name", sorted(INSTEAD))
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_an_option_without_an_effect_is_refused_before_a_host_is_contacted(
    tmp_path: Path, home: Path, name: str, before: bool
) -> None:
    option = typed(OPTIONS[name], min(OPTIONS[name].names, key=len))
    task = ["teardown", "--hosts", CLOSED]
    process = forked_fab(tmp_path, *([*option, *task] if before else [*task, *option]))
    assert (process.returncode, process.stdout) == (2, "")
    assert process.stderr.startswith(f"fab: --{name}: ") and str(INSTEAD[name]) in process.stderr
    assert not (home / ".railhead").exists()


def test_an_option_that_only_a_newer_fabric_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    core_args = Program.core_args
    newer = Argument(names=("newer",), kind=bool)
    monkeypatch.setattr(Program, "core_args", lambda self: [*core_args(self), newer])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fab", "--newer", "teardown", "--hosts", CLOSED])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert (end.value.code, printed.out) == (2, "")
    assert printed.err.startswith("fab: --newer: ") and "next: fab --help" in printed.err


@pytest.mark.parametrize("task", ["bootstrap", "plan", "train --preset smoke"])
def test_dry_prints_the_plan_of_a_task_that_has_one(tmp_path: Path, home: Path, task: str) -> None:
    """The plan reads the hosts first, and fails as `fab plan` does; train would start a run."""
    process = [
        forked_fab(tmp_path, *args.split(), "--hosts", CLOSED)
        for args in (f"--dry {task}", f"{task} --dry", "plan")
    ]
    assert {(one.returncode, one.stdout) for one in process} == {(4, process[2].stdout)}
    reasons = [one.stderr.partition(": ")[2] for one in process]
    assert "cannot be reached" in reasons[0] and {*reasons} == {reasons[2]}


def tasks_without_a_plan() -> dict[str, list[str]]:
    """By name the values of their arguments without a name."""
    named = {name: ["x" for _ in ns[name].positional] for name in ns.task_names}
    return {name: named[name] for name in sorted({*named} - {"bootstrap", "plan", "train"})}


@pytest.mark.parametrize(("task", "values"), tasks_without_a_plan().items())
def test_dry_is_refused_where_a_task_has_no_plan(
    tmp_path: Path, home: Path, task: str, values: list[str]
) -> None:
    process = forked_fab(tmp_path, "--dry", task, *values)
    assert (process.returncode, process.stdout) == (2, ""), process.stderr
    rule = "--dry is for tasks that have a plan, bootstrap and train: fab "
    assert rule + executor.dashed(task) in process.stderr
    assert not (home / ".railhead").exists()


def test_a_configuration_that_makes_fabric_dry_does_the_same(tmp_path: Path) -> None:
    (tmp_path / "dry.json").write_text('{"run": {"dry": true}}')
    process = forked_fab(tmp_path, "teardown", "--hosts", CLOSED, INVOKE_RUNTIME_CONFIG="dry.json")
    assert (process.returncode, process.stdout) == (2, "")


def test_help_shows_each_task_and_each_option_that_works(tmp_path: Path) -> None:
    process = forked_fab(tmp_path, "--help")
    assert (process.returncode, process.stderr) == (0, "")
    words = {word.strip(",") for word in process.stdout.split()}
    listed = json.loads(forked_fab(tmp_path, "--list", "--list-format", "json").stdout)
    names = {word for task in listed["tasks"] for word in executor.dashed(task["name"]).split()}
    assert names <= words
    assert {f"--{name}" for name in WORKING} <= words
    assert not {f"--{name}" for name in INSTEAD} & words
    assert max(map(len, process.stdout.splitlines())) <= 100


def test_the_help_of_a_projects_own_fabfile_is_that_of_fabric(tmp_path: Path) -> None:
    (tmp_path / "fabfile.py").write_text("from fabric import task\n")
    assert "--warn-only" in forked_fab(tmp_path, "--help").stdout


OWN = """
from invoke import task
from bootstrap.cli import tasks

train = tasks.train

@task
def mine(c):
    print("mine")
"""


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("--collection other mine", "mine\n"),
        (f"--search-root {ROOT} --list", "bootstrap"),
        ("--list", "Of this fabfile:"),
        ("--list --list-format json", '"name": "mine"'),
        ("mine mine", "mine\nmine\n"),
        ("--complete -- fab mi", "mine"),
        ("--print-completion-script bash", "complete -F"),
        ("--version", "Paramiko"),
    ],
)
def test_a_core_option_about_tasks_works(tmp_path: Path, args: str, expected: str) -> None:
    for name in ("fabfile", "other"):
        (tmp_path / f"{name}.py").write_text(OWN)
    process = forked_fab(tmp_path, *args.split())
    assert (process.returncode, process.stderr) == (0, "")
    output = process.stdout
    assert output == expected if expected.endswith("\n") else expected in output


@pytest.mark.parametrize(("args", "stored"), [(["--write-pyc"], True), ([], False)])
def test_python_stores_a_compiled_fabfile_on_request(
    tmp_path: Path, args: list[str], stored: bool
) -> None:
    (tmp_path / "fabfile.py").write_text(OWN)
    forked_fab(tmp_path, *args, "mine")
    assert (tmp_path / "__pycache__").exists() is stored


def test_the_keys_of_the_agent_are_listed(tmp_path: Path) -> None:
    key = str(tmp_path / "key")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "of ann", "-f", key])
    script = f"ssh-add -q {key}; echo $SSH_AUTH_SOCK; read line"
    pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["ssh-agent", "sh", "-c", script], **pipe, text=True) as agent:
        assert agent.stdin and agent.stdout
        socket = agent.stdout.readline().strip()
        process = forked_fab(tmp_path, "--list-agent-keys", SSH_AUTH_SOCK=socket)
        agent.stdin.close()
    assert (process.returncode, process.stdout.split()[2:4]) == (0, ["of", "ann"])


@pytest.mark.parametrize(
    ("args", "code", "expected"),
    [
        ("-H a,b mine", 0, "mine\nmine\n"),
        ("--dry --echo mine", 0, "mine\n"),
        (f"-H {CLOSED} mine -- ls", 2, ""),
        (f"--dry mine teardown --hosts {CLOSED}", 2, ""),
    ],
)
def test_tasks_of_a_user_beside_ours_run_as_with_fabric(
    tmp_path: Path, args: str, code: int, expected: str
) -> None:
    own = OWN.replace("train = tasks.train", "from bootstrap.cli.machine_tasks import teardown")
    (tmp_path / "fabfile.py").write_text(own)
    process = forked_fab(tmp_path, *args.split())
    assert (process.returncode, process.stdout) == (code, expected)
