"""Hints are values: their commands exist, are quoted, and get the hosts that were typed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from places import ROOT

from bootstrap.cli import running
from bootstrap.cli.program import TASKS
from bootstrap.cli.task import parameter
from bootstrap.errors import Command, Hint
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory, parse_hosts
from railhead.documents.runs.run_record import RunRecord

ROOT = ROOT / "bootstrap"
# What names a task in prose, and is not to be typed: {file: its texts}.
PROSE = {"gpu_tools/tested_on.py": ["`fab train` on a GPU; the checks"]}

STACK, HOSTS = {"stack": "gpu a"}, {"hosts": "a,b*2", "stack": None}
COMPLETED = {
    "fab stop{}": Hint(Command("stop")),
    "fab start{}   # later": Hint(Command("start"), "   # later"),
    "move it away, then: fab fetch{}": Hint("move it away, then: ", Command("fetch")),
    "fab stop{}, then fab start{} --hours 4": Hint(
        Command("stop"), ", then ", Command("start", hours=4)
    ),
    "fab fetch --run r1   # or: fab teardown{} --destroy": Hint(
        Hint(Command("fetch", run="r1")), "   # or: ", Command("teardown", destroy=True)
    ),
    "fab exec{} --cmd 'du; ls'": Hint(Command("exec", cmd="du; ls")),
    "fab evaluate r1{} --script x": Hint(Command("evaluate", "r1", script="x")),
    "fab stop --stack other --yes": Hint(Command("stop", stack="other", yes=True)),
    "fab undeploy digits": Hint(Command("undeploy", "digits")),
    "fab runs": Hint(Command("runs")),
    "pulumi up; fab --list": Hint("pulumi up; fab --list"),
}


def aimed(hint: Hint, options: Mapping[str, str | None]) -> str:
    return str(hint.completed(partial(running._aimed, options=options, tasks=TASKS)))


@pytest.mark.parametrize("text", COMPLETED)
def test_each_command_of_a_hint_gets_the_hosts_that_were_typed(text: str) -> None:
    hint = COMPLETED[text]
    assert aimed(hint, STACK) == text.replace("{}", " --stack 'gpu a'")
    assert aimed(hint, HOSTS) == text.replace("{}", " --hosts 'a,b*2'")
    assert aimed(hint, {"hosts": None}) == str(hint) == text.replace("{}", "")


def test_a_task_gets_only_an_option_that_it_takes() -> None:
    for command, with_stack in (
        (Command("up", refresh=True), "fab up --stack 'gpu a' --refresh"),
        (Command("data push", "F", "bucket"), "fab data push F bucket --stack 'gpu a'"),
    ):
        assert aimed(Hint(command), STACK) == with_stack
        assert aimed(Hint(command), HOSTS) == str(command)


def test_a_command_is_typed_as_a_shell_reads_it() -> None:
    command = Command("fetch", "$(x)", run="a b", args="--epochs 3", hours=0, to=None, here=False)
    assert str(command) == "fab fetch '$(x)' --run 'a b' --args='--epochs 3' --hours 0"


def hint_of_command(monkeypatch: pytest.MonkeyPatch, **options: str) -> str:
    """The hint `fab stop` of a failed command with these options."""
    monkeypatch.setattr(running.RUNNING, "tasks", TASKS)
    return str(running._with_target(Hint(Command("stop")), options))


@pytest.mark.parametrize(
    ("cluster", "completed"),
    [
        (replace(parse_hosts("h1"), cloud="aws", stack="gpu"), "fab stop --stack gpu"),
        (parse_hosts("a,b*2"), "fab stop --hosts 'a,b*2'"),
        (replace(parse_hosts("h1"), cloud="local"), "fab stop"),
    ],
)
def test_a_command_that_names_only_a_run_gets_the_hosts_of_the_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, cluster: Inventory, completed: str
) -> None:
    local_state.save_cluster(cluster)
    local_state.save_run(RunRecord("r1", cluster.name, str(home / "results/r1")))
    assert hint_of_command(monkeypatch, run="r1") == completed
    assert hint_of_command(monkeypatch, run="r1", stack="other") == "fab stop --stack other"
    for unknown in ("r2", "../x"):
        assert hint_of_command(monkeypatch, run=unknown) == "fab stop"


def test_the_option_of_hosts_names_them_all() -> None:
    assert parse_hosts("a,root@[::1]:22*2").option == " --hosts 'a,root@[::1]:22*2'"


# --- The commands in the code ------------------------------------------------------------------


def files() -> list[str]:
    paths = (path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
    return sorted(path for path in paths if not path.startswith("host/"))


def wrong_commands(text: str) -> Iterator[str]:
    """Each Command whose task or whose options do not exist."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(func=ast.Name(id="Command"), args=[ast.Constant(value=name), *values]):
                task = TASKS[str(name).replace(" ", "-")]
                known = {parameter(option) for option in task.options()}
                positional = [option for option in task.options() if option.rule.positional]
                most = len(positional) + bool(task.first)
                # With `**target` it needs an option that names hosts.
                named = {word.arg for word in node.keywords if word.arg}
                aimed = known & {"hosts", "stack"} or all(word.arg for word in node.keywords)
                if not (named <= known and aimed and len(values) <= most):
                    yield ast.unparse(node)
            case ast.Call(func=ast.Name(id="Command")):
                yield ast.unparse(node)


# Commands whose task is a variable: that of another command, and one that takes a job.
OF_ANY_TASK = {
    "errors.py": [
        "Command(self.task, *self.values, **{**self.options, **options})",
        "Command(self.task, *self.values, **{**target, **self.options})",
    ]
}


def test_the_commands_of_hints_exist() -> None:
    wrong = {name: [*wrong_commands((ROOT / name).read_text())] for name in files()}
    assert {name: commands for name, commands in wrong.items() if commands} == OF_ANY_TASK


def test_a_wrong_command_is_found() -> None:
    for wrong in ('Command("stop", force=1)', 'Command("runs", **target)', 'Command("stop", "x")'):
        assert list(wrong_commands(wrong)) == [wrong.replace('"', "'")]
    assert not list(wrong_commands('Command("stop", **target)'))
    with pytest.raises(KeyError):
        list(wrong_commands('Command("halt")'))


def test_a_command_is_a_value_and_no_text() -> None:
    """Else it gets no hosts, and nothing checks it."""
    names = "|".join([*TASKS, "data (push|list|shard)"])
    typed = re.compile(rf"\bfab ({names})\b")
    for name in {*files()} - {"cli/generate.py"}:
        texts, prose = [t for t in texts_of(ROOT / name) if typed.search(t)], PROSE.get(name, [])
        assert len(texts) == len(prose), (name, texts)
        assert all(map(str.startswith, texts, prose)), (name, texts)


def texts_of(path: Path) -> list[str]:
    """The texts of a file that are not docstrings."""
    nodes = [*ast.walk(ast.parse(path.read_text()))]
    described = (ast.Module, ast.FunctionDef, ast.ClassDef)
    docs = {ast.get_docstring(n, clean=False) for n in nodes if isinstance(n, described)}
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return [value for value in values if isinstance(value, str) and value not in docs]
