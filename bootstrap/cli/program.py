"""The command: `fab` of a clone, otherwise `railhead`. Our tasks are there in every folder; a task
of the user's own fabfile is run by Fabric."""

from __future__ import annotations

import gc
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from railhead.ctrl_c import raise_again
from railhead.installation import IS_WHEEL, PROGRAM
from railhead.version import VERSION

from ..console.output import error_as_json, printable
from ..errors import DONE, INTERRUPTED, USAGE, Command, UsageError, refusal
from ..inventory.files import folders_above, refuse_of_others
from . import machine_tasks, result_tasks, serving_tasks
from . import tasks as run_tasks
from .command_line import help
from .command_line.arguments import Line, Wrong, read, with_name
from .running import RUNNING, Exit, error_output, output_closed
from .task import Task

FILE = "fabfile.py"
OWN_SSH = "RAILHEAD_SSH"  # for ssh/login/choice.py, which is not imported for each command
# The options that name another fabfile.
OTHER_TASKS = ("-c", "--collection", "-r", "--search-root")
HELP = ("-h", "--help")
MODULES = (run_tasks, result_tasks, serving_tasks, machine_tasks)
TASKS: Mapping[str, Task] = {
    task.name: task for m in MODULES for task in vars(m).values() if isinstance(task, Task)
}


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    try:
        try:
            _run_with_own_tasks(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except Exit as end:
        if end.message:
            print(end.message, file=sys.stderr)
        sys.exit(end.code)
    except UsageError as wrong:
        print(printable(f"{PROGRAM}: {wrong}"), file=sys.stderr)
        sys.exit(USAGE)
    except BrokenPipeError:
        sys.exit(output_closed().code)
    except OSError as error:  # of a list or a help text; `reported` has those of a task
        if (refused := refusal(error)) is None:
            raise
        print(printable(f"{PROGRAM}: {refused}"), file=sys.stderr)
        os._exit(refused.code)  # Python would write to the full disk again
    except KeyboardInterrupt:  # before a task has begun
        sys.exit(INTERRUPTED)


def _run_with_own_tasks(words: Sequence[str]) -> None:
    if for_fabric := _for_fabric(words, _present_folder()):
        from .own_fabfile import run_with

        run_with(for_fabric, partial(run, _without_fabfile(words)))
    else:
        run(words, TASKS)


def _present_folder() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UsageError("the folder in which this shell is was deleted", hint="cd") from None


def run(
    words: Sequence[str], tasks: Mapping[str, Task], others: Mapping[str, str] | None = None
) -> None:
    """Run a command line.

    Args:
        words: those after the program's name. tasks: ours, by name. others: the first lines about
            the tasks of the user's own fabfile, for the list.

    Raises:
        Exit: it was wrong, or has failed.
    """
    RUNNING.tasks = tasks
    before = words[: words.index("--")] if "--" in words else words
    after = words[len(before) + 1 :]
    with error_as_json("--json" in before, partial(error_output, options={})):
        try:
            line = _understood(before, after, tasks)
        except UsageError as wrong:
            raise Exit(printable(f"{PROGRAM}: {wrong}"), USAGE) from None
        if line.task is None:
            _show(line, after, tasks, others or {})
            return
    RUNNING.quiet, RUNNING.debug, RUNNING.dry = line.core.quiet, line.core.debug, line.core.dry
    if line.core.ssh:
        os.environ[OWN_SSH] = "1"
    raise_again()
    gc.freeze()
    gc.enable()
    line.task(**line.texts)


def _understood(words: Sequence[str], after: Sequence[str], tasks: Mapping[str, Task]) -> Line:
    """What a command line says; Exit 2 with the line to type if it is wrong."""
    typed: Sequence[str] = words
    try:
        wants_help, words = _without_help(words)
        name, rest = with_name(words, tasks)
        typed = [name, *rest] if name else rest
        if wants_help and (not name or name in tasks):
            print(help.task_page(tasks[name]) if name else help.page(tasks.values()))
            raise Exit("", DONE)
        if not wants_help and (name or after):
            _refuse_habits(typed if name else (), after, tasks)
        return read(name, rest, tasks, after)
    except Wrong as wrong:
        from .command_line import answers

        reply = answers.without_habit(wrong, typed, tasks)
        raise _answered(reply.rule, reply.next) from None


def _without_help(words: Sequence[str]) -> tuple[bool, Sequence[str]]:
    """Whether it is for help, and the other words: of `--help train`, `train -h`, `help train` and
    `data push help`."""
    others = [word for word in words if word not in HELP]
    if others[:1] == ["help"]:
        return True, others[1:]
    if others[-1:] == ["help"] and not any(word.startswith("-") for word in others):
        return True, others[:-1]
    return len(others) < len(words), others


def _refuse_habits(words: Sequence[str], after: Sequence[str], tasks: Mapping[str, Task]) -> None:
    """Exit 2 with the line to type instead of one that other programs have."""
    from .command_line import answers

    reply = answers.answer(words, tasks, _has_job(words)) or answers.after_dashes(words, after)
    if reply:
        raise _answered(reply.rule, reply.next)


def _show(
    line: Line, after: Sequence[str], tasks: Mapping[str, Task], others: Mapping[str, str]
) -> None:
    """Answer a command line without a task."""
    core = line.core
    if core.complete or core.print_completion_script:
        from .command_line import completion

        if core.print_completion_script:
            print(completion.script(core.print_completion_script))
        else:
            words = completion.candidates(after[1:], tasks)
            print("".join(f"{word}\n" for word in words), end="")
    elif after:
        example = Command("exec", hosts="a,b", cmd="nvidia-smi -L")
        raise Exit(f"{PROGRAM}: no task is named\n  next: {example}", USAGE)
    elif core.version:
        print("\n".join(_versions()))
    elif core.list_format == "json":
        print(help.listing_as_json(tasks.values(), others))
    else:
        print(help.listing(tasks.values(), others))


def _versions() -> Iterator[str]:
    from importlib.metadata import version

    yield f"Railhead {VERSION}"
    yield from (f"{name} {version(name.lower())}" for name in ("Fabric", "Paramiko", "Invoke"))


def _for_fabric(words: Sequence[str], folder: Path) -> Sequence[str]:
    """The command line with the folder of the user's own fabfile, which the words name, or which is
    in `folder` or above; empty where there is none. Not fetched results: hosts have written their
    files.

    Raises:
        UsageError: another user has written the fabfile, or can.
    """
    if any(word.startswith(OTHER_TASKS) for word, _ in _before_task(words)):
        return words
    chosen = next((place for place in folders_above(folder) if _is_loaded(place / FILE)), None)
    if chosen is None:
        return ()
    refuse_of_others(chosen / FILE)
    return () if _has_ours_alone(chosen / FILE) else ["--search-root", str(chosen), *words]


def _without_fabfile(words: Sequence[str]) -> list[str]:
    """The words without the options that name a fabfile, which is known now."""
    pairs = _before_task(words)
    others = [
        word
        for word, before in pairs
        if not word.startswith(OTHER_TASKS) and before not in OTHER_TASKS
    ]
    return [*others, *words[len(pairs) :]]


def _has_ours_alone(fabfile: Path) -> bool:
    """Whether it is as in a clone and as `railhead init` writes it: a line about it, and one that
    names our tasks."""
    lines = [line for line in fabfile.read_text(errors="replace").splitlines() if line.strip()]
    return lines[1:] == ["from railhead.tasks import ns as ns"]


def _before_task(words: Sequence[str]) -> list[tuple[str, str]]:
    """The options before the first task and what may be their values, each with the word before:
    they may be Fabric's."""

    def is_option(pair: tuple[str, str]) -> bool:
        word, before = pair
        return word != "--" and (word.startswith("-") or before.startswith("-"))

    return [*itertools.takewhile(is_option, zip(words, ("", *words), strict=False))]


def _is_loaded(fabfile: Path) -> bool:
    """Whether it is the fabfile of this program: `fab` loads any, `railhead` one that names it."""
    try:
        return fabfile.exists() and (not IS_WHEEL or "railhead" in fabfile.read_text())
    except (OSError, ValueError):
        return False


def _has_job(words: Sequence[str]) -> Callable[[str], bool]:
    """Whether the job file that the words name has a job."""
    files = [after for word, after in zip(words, words[1:], strict=False) if word == "--file"]

    def has(name: str) -> bool:
        from ..project import job_file  # imported late: few words may be a job

        return job_file.has(Path(next(iter(files), job_file.FILE)), name)

    return has


def _answered(rule: str, following: str) -> Exit:
    return Exit(printable(f"{rule}\n  next: {PROGRAM} {following}"), USAGE)


if __name__ == "__main__":
    main()
