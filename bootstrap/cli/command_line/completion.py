"""Completion in a shell of tasks, options and their values, as known on this computer: no host and
no cloud is contacted. Files are left to the shell."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from railhead.documents.options.option import Option
from railhead.installation import PROGRAM

from ...inventory import local_state, stack_config, stack_records
from ...plan.runtimes import REPO, ROWS
from ...project import job_file
from ...runs.strategies import LAUNCHERS, names
from ...serving import records
from ..task import TWO_WORDS, Task, typed
from .arguments import CORE, flags_of

MOST_RUNS = 20
PLAIN = re.compile(r"[\w@%+=:,./-]+")


def candidates(words: Sequence[str], tasks: Mapping[str, Task]) -> list[str]:
    """What the last word may become.

    Args:
        words: those after the program's name, the last one perhaps empty or incomplete.
        tasks: by their names.
    """
    *before, last = words or [""]
    if last == "=":  # bash makes three words of --preset=x
        before, last = [*words], ""
    before = [word for word in before if word != "="]
    task, rest = _task(before, tasks)
    if task is None:
        return _starting(last, [*_task_names(rest, tasks), *_core_flags(last)])
    before_last = before[-1] if before else ""
    awaiting = next((option for option in task.options() if before_last in flags_of(option)), None)
    if awaiting is not None and awaiting.kind != "flag" and awaiting.rule.bare is None:
        return _starting(last, _values(awaiting))
    if last.startswith("-"):
        options = [option for option in task.options() if not option.rule.positional]
        return _starting(last, [*(f"--{option.flag}" for option in options), *_core_flags(last)])
    firsts = [
        option for option in task.options() if option.flag in task.first or option.rule.positional
    ]
    return _starting(last, (value for option in firsts for value in _values(option)))


def _task(words: Sequence[str], tasks: Mapping[str, Task]) -> tuple[Task | None, Sequence[str]]:
    """The task that is typed, and the words so far where there is none."""
    for index, word in enumerate(words):
        after = words[index + 1 :]
        if task := tasks.get(f"{word}-{after[0]}" if word in TWO_WORDS and after else word):
            return task, after
    return None, words


def _task_names(words: Sequence[str], tasks: Mapping[str, Task]) -> Iterator[str]:
    """The first words of tasks, or the second ones after `data`."""
    for name in map(typed, tasks):
        first, _, second = name.partition(" ")
        if words[-1:] == [first] and second:
            yield second
        elif not (words and words[-1] in TWO_WORDS):
            yield first


def _core_flags(last: str) -> list[str]:
    return [f"--{option.flag}" for option in CORE] if last.startswith("-") else []


def _values(option: Option) -> Iterator[str]:
    """The values of an option that are known on this computer; read when they are iterated."""
    if option.rule.choices:
        yield from map(str, option.rule.choices)
    elif known := VALUES.get(option.flag):
        yield from known()


def _runs() -> list[str]:
    paths = (local_state.home() / "clusters").glob("*/runs/*.json")
    return sorted((path.stem for path in paths), reverse=True)[:MOST_RUNS]


def _hosts() -> list[str]:
    """The hosts of the last command."""
    return list(local_state.last_cluster().names)


def _stacks() -> list[str]:
    """The stacks with a file in the project, and those that this computer has recorded."""
    return [*stack_config.names(), *(record.stack for record in stack_records.every())]


def _presets() -> list[str]:
    tree = ast.parse((REPO / "training/presets.py").read_text())
    values = [statement.value for statement in tree.body if isinstance(statement, ast.Assign)]
    tables = [value for value in values if isinstance(value, ast.Dict)]
    return [str(key.value) for key in tables[0].keys if isinstance(key, ast.Constant)]


def _settings() -> list[str]:
    tree = ast.parse((REPO / "training/config.py").read_text())
    classes = [statement for statement in tree.body if isinstance(statement, ast.ClassDef)]
    (body,) = [definition.body for definition in classes if definition.name == "TrainConfig"]
    targets = [field.target for field in body if isinstance(field, ast.AnnAssign)]
    return [f"{target.id}=" for target in targets if isinstance(target, ast.Name)]


VALUES: Mapping[str, Callable[[], Iterable[str]]] = {
    "run": _runs,
    "runs": _runs,
    "resume": _runs,
    "of": _runs,
    "job": lambda: job_file.names(Path(job_file.FILE)),
    "hosts": lambda: [",".join(_hosts())],
    "stack": _stacks,
    "preset": _presets,
    "set": _settings,
    "launcher": lambda: LAUNCHERS,
    "strategy": names,
    "runtime": lambda: ROWS,
    "host": _hosts,
    "name": records.names,
    "uri": lambda: ["bucket", "s3://", "gs://"],
}


def _starting(last: str, words: Iterable[str]) -> list[str]:
    """Those that continue the last word, each once. What cannot be read completes nothing, nor
    does a name that a shell would not take as it is: it may be another user's."""
    try:
        unique = dict.fromkeys(words)
        return [word for word in unique if word.startswith(last) and PLAIN.fullmatch(word)]
    except Exception:
        return []


SCRIPTS = {
    "bash": """_complete_NAME() {
    local IFS=$'\\n'
    COMPREPLY=($(NAME --complete -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null))
    case "${COMPREPLY[*]}" in *=) compopt -o nospace ;; esac
}
complete -F _complete_NAME -o default NAME""",
    "zsh": """autoload -Uz compinit
(( $+functions[compdef] )) || compinit
_complete_NAME() {
    local -a known
    known=("${(@f)$(NAME --complete -- "${(@)words[1,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$known" ]]; then compadd -S "${${(M)known[1]%=}:+}" -a known; else _files; fi
}
compdef _complete_NAME NAME""",
    "fish": """function __complete_NAME
    set -l current (commandline --current-token)
    NAME --complete -- (commandline --tokenize --cut-at-cursor) "$current" 2>/dev/null
end
# fish has completions of its own for a `fab`
complete --command NAME --erase
complete --command NAME --arguments '(__complete_NAME)'""",
}


def script(shell: str) -> str:
    """The script that makes a shell complete this program; KeyError for another shell."""
    return SCRIPTS[shell].replace("NAME", PROGRAM)
