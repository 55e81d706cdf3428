"""The pages about tasks: the options of each, the presets and the settings."""

from __future__ import annotations

import re
import textwrap
from typing import Any

from bootstrap.cli.command_line.help import takes
from bootstrap.cli.program import TASKS
from bootstrap.cli.task import GROUPS, Part, Task, page_of
from bootstrap.errors import EXIT_CODES
from bootstrap.facts.xid import REPLACE, RESET, XIDS
from bootstrap.plan.runtimes import ROWS
from railhead.documents import codec
from railhead.documents.options.hosts import ReadyOptions, TargetOptions
from railhead.documents.options.jobs import JobOptions
from railhead.documents.options.option import Option, described
from railhead.documents.options.runs import EndingOptions, ProgramOptions
from railhead.documents.runs.evaluation import Evaluation
from training.config import describe_fields
from training.presets import summaries

from .marked import table

PAGES = ("tasks.md", *map(page_of, GROUPS), "own-script.md", "settings.md")
# Described in the table of train.
OF_TRAIN = (ProgramOptions, ReadyOptions, EndingOptions, JobOptions)
WHICH_HOSTS = ("hosts", "stack")


def parts() -> dict[str, str]:
    """The generated parts of these pages."""
    with_options = {name: task for name, task in TASKS.items() if any(task.options())}
    named = {f"options-{name}": options(task) for name, task in with_options.items()}
    about = {f"about-{name}": what_it_does(task) for name, task in TASKS.items()}
    return {
        **named,
        "exit-codes": exit_codes(),
        **about,
        "tasks": task_table(),
        "presets": presets(),
        "settings": settings(),
        "runtimes": runtimes(),
        "evaluation": evaluation(),
        "xids": xids(),
    }


def exit_codes() -> str:
    """The exit codes of the command."""
    return table(("code", "meaning"), list(EXIT_CODES.items()))


def task_table() -> str:
    """The tasks with the first line of their help."""
    named = {name: task.about for name, task in TASKS.items()}
    rows = [(f"[{name}](#{name})", _first_line(doc)) for name, doc in sorted(named.items())]
    return table(("task", "what it does"), rows)


def what_it_does(task: Task) -> str:
    """The first line of a task's help, below its heading."""
    return _line(f"{_first_line(task.about)}.")


def _first_line(doc: str) -> str:
    return " ".join(doc.split("\n\n")[0].split()).removesuffix(".")


def options(task: Task) -> str:
    """The options of a task: its own table, and the names of those described elsewhere."""
    pairs = [(part, option) for part in task.parts for option in part.options]
    hosts = [option for part, option in pairs if _says_which_hosts(part, option)]
    others = [(part, option) for part, option in pairs if option not in hosts]
    shared = [option for part, option in others if _is_of_train(task, part, option)]
    texts = []
    if rows := [(_typed(task, o), described(o)) for _, o in others if o not in shared]:
        texts.append(table(("option", "meaning"), rows))
    if hosts:
        texts.append(_line(f"Which hosts ([rules](#hosts)): {_names(hosts)}."))
    if shared:
        texts.append(_line(f"As with [`train`](#train): {_names(shared)}."))
    return "\n".join(texts)


def _says_which_hosts(part: Part, option: Option) -> bool:
    noted = part.selection is not None and option.name in part.selection.notes
    return part.group is TargetOptions and option.name in WHICH_HOSTS and not noted


def _is_of_train(task: Task, part: Part, option: Option) -> bool:
    if task.name == "train" or (part.selection and option.name in part.selection.notes):
        return False
    return part.group in OF_TRAIN or option.name == "slots"


def _names(some: list[Option]) -> str:
    return ", ".join(f"`--{option.flag}`" for option in some)


def _line(text: str) -> str:
    return textwrap.fill(text, 120, break_on_hyphens=False, break_long_words=False) + "\n"


def _typed(task: Task, option: Option) -> str:
    """How an option is typed; in brackets what may be left out."""
    flag = f"--{option.flag}"
    may_omit = option.rule.positional or option.flag in task.first
    return (
        f"`{f'[{flag}]' if may_omit else flag} {takes(option)}".rstrip().replace("|", "\\|") + "`"
    )


def presets() -> str:
    """The presets of the built-in training."""
    rows = [(f"`{name}`", summary) for name, summary in summaries().items()]
    return table(("preset", "what it is"), rows)


def settings() -> str:
    """The settings of the built-in training."""
    rows = [
        (f"`{name}`", _value(field), _rules(field)) for name, field in describe_fields().items()
    ]
    return table(("setting", "default", "meaning"), rows)


def _value(field: dict[str, Any]) -> str:
    value = "none" if field["default"] is None else field["default"]
    return f"`{value}`" if value != "" else "empty"


def _rules(field: dict[str, Any]) -> str:
    """What a setting means, and which values it takes."""
    texts = [field["bounds"]] if field["bounds"] else []
    if field["choices"]:
        texts.insert(0, "one of " + ", ".join(f"`{choice}`" for choice in field["choices"]))
    doc = re.sub(r"\s+", " ", field["doc"])
    return "; ".join([doc, *([", ".join(texts)] if texts else [])])


def runtimes() -> str:
    """The runtimes: what `--runtime` takes."""
    rows = [
        (
            f"`{row.name}`",
            f"{row.framework.title} {row.version}",
            ", ".join(sorted(row.pythons, key=lambda python: int(python.partition(".")[2]))),
            ", ".join(f"`{launcher}`" for launcher in row.launchers),
        )
        for row in ROWS.values()
    ]
    return table(("`--runtime`", "framework", "Python of the hosts", "`--launcher`"), rows)


def evaluation() -> str:
    """The keys of evaluation.json."""
    rows = [(f"`{name}`", doc) for name, doc in codec.described(Evaluation).items() if doc]
    return table(("key", "value"), rows)


def xids() -> str:
    """The Xids that `fab health` explains."""
    rows = [
        (number, meaning.problem, f"{'note: ' * meaning.harmless}{_remedy(meaning.todo)}")
        for number, meaning in XIDS.items()
    ]
    return table(("Xid", "meaning", "what to do"), rows)


def _remedy(todo: str) -> str:
    return todo.replace(REPLACE, "reset; if it happens again, use another machine").replace(
        RESET, "reset"
    )
