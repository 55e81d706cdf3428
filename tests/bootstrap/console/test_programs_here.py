"""Programs that are started on the user's computer: by one module, which gets their variables,
folder and input."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path

import pytest

from bootstrap.console import log
from bootstrap.plan.runtimes import REPO

ON_HOSTS = ("bootstrap/host", "training")
STARTS = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput"},
    "os": {"system", "popen", "fork", "posix_spawn", "startfile"},
    "pty": {"spawn", "fork"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
    "webbrowser": {"open", "open_new", "open_new_tab"},
}
OTHERS = {
    "bootstrap/console/log.py": "the module itself",
    "bootstrap/ssh/login/proxy_command.py": "what ssh_config names, started as ssh does",
    "bootstrap/ssh/login/ssh_config.py": "`ssh -G`, which starts what ssh does, with all of it",
    "bootstrap/ssh/login/process_channel.py": "a shell that stands for a host, or ssh to one",
    "bootstrap/ssh/login/openssh.py": "ssh, for logins that only it can do",
    "bootstrap/cli/machine_tasks.py": "fab ssh becomes ssh, in the user's terminal",
    "bootstrap/cli/result_tasks.py": "the user's browser, with a page that was written here",
    "bootstrap/cli/generate.py": "ruff, for make generate",
    "railhead/__main__.py": "this command again, in Python's UTF-8 mode",
    "stacks/live_prices.py": "stacks import nothing of bootstrap",
    "stacks/local.py": "stacks import nothing of bootstrap",
    "stacks/program.py": "stacks import nothing of bootstrap",
    "stacks/timer/idle.py": "runs on a machine",
}


def files() -> Iterator[tuple[str, ast.Module]]:
    for room in ("bootstrap", "stacks", "railhead"):
        for path in (REPO / room).rglob("*.py"):
            name = path.relative_to(REPO).as_posix()
            if not name.startswith(ON_HOSTS):
                yield name, ast.parse(path.read_text())


def starts(tree: ast.AST) -> bool:
    """Whether code starts a program without `log`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if {alias.name for alias in node.names} & STARTS.get(node.module or "", set()):
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            module, name = getattr(node.func.value, "id", ""), node.func.attr
            replaces = module == "os" and name.startswith(("exec", "spawn"))
            if replaces or name in STARTS.get(module, ()):
                return True
    return False


def test_one_module_starts_programs_here() -> None:
    starting = {name for name, tree in files() if starts(tree)}
    assert starting == set(OTHERS)


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess\nsubprocess.run(['x'])",
        "from subprocess import Popen\nPopen(['x'])",
        "import os\nos.execvp('x', [])",
        "import os\nos.system('x')",
    ],
)
def test_a_start_that_goes_around_it_is_found(text: str) -> None:
    assert starts(ast.parse(text)) and not starts(ast.parse("import subprocess\nsubprocess.PIPE"))


@pytest.mark.parametrize("start", [log.run, log.started])
def test_each_start_says_with_which_variables_and_folder(start: object) -> None:
    parameters = inspect.signature(start).parameters  # type: ignore[arg-type]
    for name in ("env", "cwd"):
        assert parameters[name].default is inspect.Parameter.empty
    assert {"stdin", "input"} & set(parameters)


def test_a_program_without_input_reads_nothing_of_the_terminal(tmp_path: Path) -> None:
    done = log.run(["sh", "-c", "cat; pwd; env"], env={"A": "1"}, cwd=tmp_path, capture_output=True)
    lines = done.stdout.splitlines()
    assert lines[0] == str(tmp_path.resolve()) and "A=1" in lines
    assert not [line for line in lines if line.startswith("HOME=")]
