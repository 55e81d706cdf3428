"""The pages of `fab --help` and `fab --help TASK`."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping

from railhead.documents.options.option import Option
from railhead.installation import DOCS, PROGRAM

from ..task import GROUPS, Task, help_text, page_of
from .arguments import CORE, flags_of

WIDTH = 80
COLUMN = 26  # of the texts
NAMES = 15  # the width of the names of tasks, with their indent
# By the name of a group of options; the others are "Options".
TITLES = {
    "TargetOptions": "Hosts",
    "ProgramOptions": "Program",
    "ReadyOptions": "Preparation of the hosts",
    "EndingOptions": "End of the run",
    "StartOptions": "Start and retries",
    "JobOptions": "Job file",
    "JsonOption": "Output",
}
TAKES = {"int": "N", "float": "NUMBER"}
# One command for each task, without the program's name.
EXAMPLES = {
    "adopt": "adopt 0a1b2c3d4e5f --region us-east-1",
    "attach": "attach",
    "bootstrap": "bootstrap --hosts a,b",
    "cancel": "cancel --hosts a,b",
    "costs": "costs --since 7d --by person",
    "data list": "data list bucket",
    "data push": "data push ~/mnist bucket",
    "data shard": "data shard ~/images ~/shards --set data=images",
    "data index": "data index s3://theirs/records --to s3://ours/index",
    "demo": "demo",
    "deploy": "deploy --name digits --hours 2h",
    "doctor": "doctor --stack gpu",
    "evaluate": "evaluate 20261122-052802-6693 --min accuracy=0.97",
    "exec": "exec --hosts a,b -- nvidia-smi -L",
    "extend": "extend --hours 4h",
    "fetch": "fetch --checkpoints",
    "health": "health --hosts a,b",
    "init": "init",
    "leaks": "leaks --json",
    "logs": "logs --rank 1 --follow",
    "notebook": "notebook --hours 2h",
    "plan": "plan --hosts a,b --json",
    "predict": "predict digits --file seven.png",
    "price": "price --gpus 8 --gpu t4,l4,a100 --hours 5",
    "prune": "prune --keep 3 --hosts a,b",
    "report": "report 20261122-052802-6693,20261123-100000-0a1b",
    "runs": "runs --sort accuracy",
    "scale": "scale --counts 1,2,4 --preset digits",
    "ssh": "ssh a",
    "ssh-config": "ssh-config",
    "ssh-key": "ssh-key bob.pub",
    "start": "start --hours 4h",
    "status": "status",
    "stop": "stop --stack gpu",
    "sweep": "sweep --preset digits --set learning_rate=0.01,0.001",
    "teardown": "teardown --purge",
    "tensorboard": "tensorboard",
    "train": "train --hosts a,b --preset digits --set epochs=3 --max-hours 2h",
    "trust": "trust --hosts a,b",
    "tunnel": "tunnel 6006",
    "undeploy": "undeploy digits",
    "up": "up --stack gpu",
    "wheel": "wheel --gpu",
}
OTHERS = "Of this fabfile"


def in_groups(tasks: Iterable[Task]) -> dict[str, list[Task]]:
    """The tasks by the titles of their groups."""
    grouped: dict[str, list[Task]] = {title: [] for title in GROUPS}
    for task in tasks:
        grouped[task.group].append(task)
    return {title: some for title, some in grouped.items() if some}


def listing(tasks: Iterable[Task], others: Mapping[str, str]) -> str:
    """The text of `fab --list`: each task with a line, in groups.

    Args:
        others: the first lines about the tasks of the user's own fabfile, by their names.
    """
    groups = [
        (title, {task.typed: summary(task) for task in some})
        for title, some in in_groups(tasks).items()
    ]
    lines = []
    for title, some in [*groups, *([(OTHERS, others)] if others else [])]:
        lines += ["", f"{title}:"]
        for name, text in some.items():
            about = textwrap.wrap(text, WIDTH - NAMES) or [""]
            lines.append(f"  {name:<{NAMES - 3}} {about[0]}".rstrip())
            lines += [" " * NAMES + line for line in about[1:]]
    return "\n".join(lines[1:])


def listing_as_json(tasks: Iterable[Task], others: Mapping[str, str]) -> str:
    """The text of `fab --list --list-format json`, in the form of Invoke."""
    about = {task.name: summary(task) for task in tasks} | {**others}
    listed = [{"name": name, "help": text} for name, text in about.items()]
    return json.dumps({"name": "fabfile", "tasks": listed}, indent=1)


def summary(task: Task) -> str:
    """The first paragraph about a task."""
    return task.about.partition("\n\n")[0]


def page(tasks: Iterable[Task]) -> str:
    """The text of `fab --help`: the groups of tasks, and the options of all tasks."""
    options = {_typed(option): option.rule.text for option in CORE}
    width = max(map(len, options))
    return "\n".join(
        [
            f"Usage: {PROGRAM} TASK [OPTION ...]",
            *(line for title, some in in_groups(tasks).items() for line in _group(title, some)),
            "",
            "Options before or after the task:",
            *(f"  {flags:{width}}  {text}" for flags, text in options.items()),
            "",
            f"next: {PROGRAM} --help TASK   # its options; {DOCS}/tasks.md lists them",
        ]
    )


def _group(title: str, tasks: list[Task]) -> list[str]:
    names = ", ".join(task.typed for task in tasks)
    indent = "  "
    return [
        "",
        f"{title}:",
        *textwrap.wrap(
            names, WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        ),
    ]


def task_page(task: Task) -> str:
    """The text of `fab --help TASK`."""
    name = task.typed
    positional = [option.name.upper() for option in task.options() if option.rule.positional]
    first = [f"[{'|'.join(task.first).upper()}]"] if task.first else []
    more = ["[OPTION ...]"] if task.parts else []
    usage = " ".join([PROGRAM, name, *positional, *first, *more])
    lines = [f"Usage: {usage}", "", *textwrap.wrap(task.about, WIDTH)]
    titles: dict[str, list[Option]] = {}
    for part in task.parts:
        titles.setdefault(TITLES.get(part.group.__name__, "Options"), []).extend(part.options)
    for title, options in titles.items():
        lines += ["", f"{title}:", *(line for option in options for line in _lines(option))]
    example = f"{PROGRAM} {EXAMPLES[name]}"
    return "\n".join(
        [
            *lines,
            "",
            f"Example: {example}",
            f"More: {DOCS}/{page_of(task.group)}#{name.replace(' ', '-')}",
        ]
    )


def _lines(option: Option) -> Iterator[str]:
    """An option with what it takes and its text, wrapped."""
    flags = f"  {_typed(option)}"
    indent = " " * COLUMN
    wrapped = textwrap.wrap(help_text(option), WIDTH - COLUMN, break_on_hyphens=False)
    if len(flags) < COLUMN:
        yield f"{flags:{COLUMN}}{wrapped[0]}"
        wrapped = wrapped[1:]
    else:
        yield flags
    yield from (indent + line for line in wrapped)


def _typed(option: Option) -> str:
    """How an option is typed: `-f, --follow`, `--hosts TEXT`."""
    if option.rule.positional:
        return option.name.upper()
    return f"{', '.join(flags_of(option))} {takes(option)}".rstrip()


def takes(option: Option) -> str:
    """What stands for the value of an option; empty for a switch."""
    if option.kind == "flag":
        return ""
    if option.kind == "mapping":
        return "NAME=VALUE"
    if option.rule.choices:
        choices = "|".join(map(str, option.rule.choices))
        return choices if option.rule.bare is None else f"[{choices}]"
    if option.rule.unit:
        return "TIME"
    return TAKES.get(option.kind, "PATH" if option.rule.path else "TEXT")
