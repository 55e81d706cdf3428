"""The command: `fab` of a clone, otherwise `railhead`. It is Fabric's program, with our tasks in
every folder. A fabfile of the user's own runs with `fab` as with Fabric alone.
"""

from __future__ import annotations

import gc
import itertools
import logging
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fabric import Config, Executor, __version__
from fabric.main import Fab
from invoke import Argument, Exit, Task
from invoke.exceptions import ParseError, UnknownFileType
from invoke.parser import Parser
from invoke.parser.context import ParserContext
from invoke.util import yaml  # type: ignore[attr-defined]

from railhead.bytecode import keep
from railhead.ctrl_c import raise_again
from railhead.installation import IS_WHEEL, PROGRAM, PROJECT
from railhead.version import VERSION

from ..console.output import error_as_json, printable
from ..errors import DONE, FAILED, INTERRUPTED, USAGE, Command, UsageError
from ..inventory.files import RUN_ID, refuse_of_others
from .command_line import help
from .command_line.arguments import join_task_names, name_first_arguments
from .command_line.core_options import WORKING, refuse_without_effect
from .executor import RUNNING, ClusterExecutor, dashed, error_output, is_ours, output_closed
from .task import GroupTask

if TYPE_CHECKING:
    from .command_line.answers import Answer

FILE = "fabfile.py"
FORMATS = ("flat", "nested", "json")  # of --list
SCRIPT_OPTION = "--print-completion-script"
MISSING = r"'([\w-]+)' did not receive required positional arguments: (.+)"
OWN_SSH = "RAILHEAD_SSH"  # for ssh/login/choice.py, which is not imported for each command
# The options of Fabric that name other tasks.
OTHER_TASKS = ("-c", "--collection", "-r", "--search-root")


class Program(Fab):  # type: ignore[misc]
    """Fabric's program, in which a usage error is one line and exit code 2, and a task runs once
    for all hosts."""

    words_after_dashes: Sequence[str] = ()
    wants_json = False
    typed: Sequence[str] = ()  # the words of the tasks

    @property
    def has_our_tasks(self) -> bool:
        """Whether the fabfile that was loaded has tasks of Railhead."""
        collection = getattr(self, "collection", None)
        return collection is not None and any(map(is_ours, collection.tasks.values()))

    def core_args(self) -> list[Argument]:
        """The options of Fabric, and ours."""
        ours = (("quiet", "q"), ("ssh",))
        arguments = [Argument(names=n, kind=bool, help=WORKING[n[0]][1]) for n in ours]
        return [*super().core_args(), *arguments]

    def parse_core(self, argv: list[str]) -> None:
        """A core option with a wrong value is the user's error, and Fabric runs no command itself:
        it would accept any host key."""
        own = argv[: argv.index("--")] if "--" in argv else argv
        self.words_after_dashes = argv[len(own) + 1 :]
        self.wants_json = "--json" in own
        if SCRIPT_OPTION in own:
            _print_completion_script(own)
        try:
            super().parse_core(argv)
        except ParseError as wrong:
            raise _usage(str(wrong), f"{PROGRAM} --help") from None
        except ValueError as wrong:
            raise _usage(f"an option needs a number: {wrong}", f"{PROGRAM} --help") from None
        core = self.core
        form = core[0].args["list-format"].value
        if form not in FORMATS:
            raise _usage(f"--list-format {form}: one of {', '.join(FORMATS)}", f"{PROGRAM} --list")
        if core.remainder and not core.unparsed and not core[0].args.complete.value:
            raise _usage("no task is named", str(Command("exec", hosts="a,b", cmd="nvidia-smi -L")))

    def load_collection(self) -> None:
        """Load the fabfile, and the executor of its tasks.

        With --debug Invoke has set the root logger to DEBUG: it would print the configuration that
        it reads now, with passwords, and later paramiko and botocore their signed requests. For our
        tasks `--debug` shows only the lines of console/log.py.
        """
        logging.getLogger().setLevel(logging.WARNING)
        super().load_collection()
        if self.has_our_tasks:
            keep()
        self.executor_class = ClusterExecutor if self.has_our_tasks else Executor
        RUNNING.collection = self.collection if self.has_our_tasks else None
        if self.core[0].args.debug.value and not self.has_our_tasks:
            logging.getLogger().setLevel(logging.DEBUG)

    def parse_tasks(self) -> None:
        """Find the tasks and their options."""
        if not self.has_our_tasks:
            super().parse_tasks()
            return
        with self._usage_is_2():
            topic = self.core[0].args.help
            if self.core.unparsed == ["help"] and "help" not in self._tasks():
                self.print_help()
                raise Exit(code=DONE)
            if isinstance(topic.value, str):
                words = [topic.value, *self.core.unparsed]
                topic.value, *self.core.unparsed = self._joined(words)
            else:
                words = self._joined(self._help_as_option(self.core.unparsed))
                if words[1:] and "--help" in (words[1], words[-1]):
                    # Invoke takes it for a positional argument
                    topic.value, words = words[0], []
                self.typed = words
                self._refuse_habits(words)
                self.core.unparsed = self._named(words)
            super().parse_tasks()  # with the core options after the name of a task
            RUNNING.quiet = self.core[0].args.quiet.value
            RUNNING.debug = self.core[0].args.debug.value
            if self.core[0].args.ssh.value:
                os.environ[OWN_SSH] = "1"
            named = [self.collection[context.name] for context in self.tasks]
            if not named or any(map(is_ours, named)):
                self._refuse_empty_lists()
                refuse_without_effect(self.core[0].args.values())

    def _make_parser(self) -> Parser:
        """Invoke's parser, with the tasks that are named: it copies the options of each."""
        if not self.has_our_tasks:
            parser: Parser = super()._make_parser()
            return parser
        named = {*self.core.unparsed, self.core[0].args.help.value}
        tasks = [
            ParserContext(name, aliases, self.collection[name].get_arguments())
            for name, aliases in self.collection.task_names.items()
            if not named.isdisjoint((name, *aliases))
        ]
        return Parser(tasks, self.initial_context)

    def _help_as_option(self, words: list[str]) -> list[str]:
        """`help train` and `train help` as `train --help`."""
        others = [word for word in words if word != "help"]
        is_help = len(others) < len(words) <= 3 and "help" in (words[0], words[-1])
        return [*others, "--help"] if others and is_help and "help" not in self._tasks() else words

    def _refuse_habits(self, words: list[str]) -> None:
        """Exit 2 with the line to type instead of one that other programs have."""
        if not (words or self.words_after_dashes):
            return
        from .command_line import answers

        found = answers.answer(words, self._tasks(), self._core_with_value(), _has_job(words))
        if found or (found := answers.after_dashes(words, self.words_after_dashes)):
            raise _answered(found)

    def _joined(self, words: list[str]) -> list[str]:
        return join_task_names(words, self.collection.task_names)

    def _named(self, words: list[str]) -> list[str]:
        """The words with the names of the options that were left out; `exec -- COMMAND` too."""
        core = self._core_with_value()
        named = name_first_arguments(words, self._tasks(), core, _has_job(words))
        after = self.words_after_dashes
        if after and words[:1] == ["exec"] and "--cmd" not in named:
            named += ["--cmd", after[0] if len(after) == 1 else shlex.join(after)]
            self.core.remainder = ""
        return named

    def _core_with_value(self) -> set[str]:
        """The flags of Fabric and Invoke that take a value, in our tasks."""
        some = [one for one in self.initial_context.args.values() if one.takes_value]
        flags = {
            f"-{name}" if len(name) == 1 else f"--{name}" for one in some for name in one.names
        }
        return flags - {"--help", "-h"}

    def _tasks(self) -> dict[str, Task[Any]]:
        return {name: self.collection[name] for name in self.collection.task_names}

    def _refuse_empty_lists(self) -> None:
        """Refuse a list option without a value, as in `--min $EMPTY`: Invoke takes it for an empty
        list."""
        words = [*self.core.unparsed, "--"]
        for context in self.tasks:
            flags = {f"--{one.name.replace('_', '-')}": one for one in context.args.values()}
            for word, after in zip(words, words[1:], strict=False):
                if word in flags and flags[word].kind is list and after in {*flags, "--"}:
                    raise ParseError(f"{word} needed value and was not given one!", context)

    def parse_cleanup(self) -> None:
        """Print the help, the list of tasks, or what completes a command."""
        with self._usage_is_2():
            if self.has_our_tasks:
                self._complete()
            super().parse_cleanup()

    def _complete(self) -> None:
        """Answer a shell that completes a command."""
        if self.core[0].args.complete.value:
            from .command_line import completion

            found = completion.candidates(self.words_after_dashes[1:], self._tasks())
            print("".join(f"{word}\n" for word in found), end="")
            raise Exit(code=DONE)

    def update_config(self, merge: bool = True) -> None:
        """Read the configuration files of Fabric and ssh."""
        with self._usage_is_2():
            super().update_config()

    def execute(self) -> None:
        """Run the tasks: each ends its work at Ctrl-C."""
        raise_again()
        gc.freeze()
        gc.enable()
        super().execute()

    def no_tasks_given(self) -> None:
        """`fab` alone prints the tasks, where Fabric prints its own options."""
        if not self.has_our_tasks:
            super().no_tasks_given()
        self.list_tasks()
        raise Exit(code=DONE)

    def list_flat(self) -> None:
        """`fab --list`: our tasks in groups, or Invoke's list for a fabfile of the user."""
        if self.has_our_tasks:
            print(help.listing(self._tasks().values()))
        else:
            super().list_flat()

    def print_version(self) -> None:
        """`fab --version`: Railhead, then what it runs on."""
        print(f"Railhead {VERSION}")
        super().print_version()

    def print_help(self) -> None:
        """`fab --help`: our page, or Fabric's for a fabfile of the user."""
        self.load_collection()
        if not self.has_our_tasks:
            super().print_help()
            return
        with self._usage_is_2():
            print(help.page(self.initial_context.args.values(), self._tasks().values()))

    def print_task_help(self, name: str) -> None:
        """`fab --help TASK`: our page, or Invoke's for a task of the user."""
        task = self.collection[name]
        if isinstance(task, GroupTask):
            print(help.task_page(task))
        else:
            super().print_task_help(name)

    @contextmanager
    def _usage_is_2(self) -> Iterator[None]:
        """A step before the tasks: the user's errors exit with 2, a closed stdout with 1."""
        if not self.has_our_tasks:
            yield
            return
        with error_as_json(self.wants_json, partial(error_output, options={})):
            try:
                yield
            except ParseError as wrong:
                raise self._refused(wrong) from None
            except BrokenPipeError:
                raise output_closed() from None
            except Exit:  # before the next line, which loads yaml
                raise
            except (UnknownFileType, OSError, UsageError, yaml.YAMLError) as wrong:
                raise Exit(
                    f"{PROGRAM}: a configuration of Fabric or ssh: {wrong}", code=USAGE
                ) from None

    def _refused(self, wrong: ParseError) -> Exit:
        """What Invoke's parser refuses, with the task or option that it is most like."""
        if match := re.search(r"No idea what '(.+?)' is", str(wrong)):
            from .command_line import answers

            unknown = match[1].partition("=")[0]
            return _answered(answers.without_habit(unknown, self.typed, self._tasks()))
        # Invoke's message contains a repr: Flag <Argument: preset (p)> needed value ...
        message = re.sub(r"Flag <Argument: ([\w-]+)[^>]*>", r"--\1", str(wrong))
        message = re.sub(MISSING, _missing, message)
        name = wrong.context.name if wrong.context else None
        page = f"--help {dashed(name)}" if name else "--list"
        return Exit(f"{message}\n  next: {PROGRAM} {page}", code=USAGE)


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    try:
        argv = [sys.argv[0], *_with_tasks(sys.argv[1:], Path.cwd())]
        new_program().run(argv)
    except UsageError as wrong:
        print(printable(f"{PROGRAM}: {wrong}"), file=sys.stderr)
        sys.exit(USAGE)
    except BrokenPipeError:  # before the tasks are read, as of `--version | head`
        output_closed()
        sys.exit(FAILED)
    except KeyboardInterrupt:  # before a task has begun
        sys.exit(INTERRUPTED)


class Settings(Config):  # type: ignore[misc]
    """Fabric's settings. What it reads of ssh_config is for tasks of a user's own fabfile; ours ask
    ssh itself (ssh/login/ssh_config.py)."""

    def _load_ssh_files(self) -> None:
        """Once: each clone would add the files again. Fabric does without what it cannot read."""
        if not self.base_ssh_config._config:
            with suppress(Exception):
                super()._load_ssh_files()


def new_program() -> Program:
    """The program, before it has read a command line."""
    return Program(name="Fabric", version=__version__, config_class=Settings)


def _with_tasks(args: Sequence[str], folder: Path) -> list[str]:
    """The arguments; with the folder of the fabfile, if nothing names others: the folder or one
    above it, otherwise that of our tasks. Not fetched results: hosts have written their files.

    Raises:
        UsageError: another user has written the fabfile, or can.
    """
    before = itertools.takewhile(lambda pair: _is_core(*pair), zip(args, ("", *args), strict=False))
    if any(arg.startswith(OTHER_TASKS) for arg, _ in before):
        return [*args]
    places = (folder, *folder.parents)
    first = max(
        (n + 1 for n, place in enumerate(places) if RUN_ID.fullmatch(place.name)), default=0
    )
    folders = (place for place in places[first:] if _is_loaded(place / FILE))
    chosen = next(folders, PROJECT)
    if chosen != PROJECT:
        refuse_of_others(chosen / FILE)
    return ["--search-root", str(chosen), *args]


def _is_core(arg: str, before: str) -> bool:
    """Whether an argument is an option before the first task, or perhaps the value of one."""
    return arg != "--" and (arg.startswith("-") or before.startswith("-"))


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


def _print_completion_script(words: Sequence[str]) -> None:
    """Print our script for a shell and end; other shells are left to Invoke, which refuses them."""
    from .command_line import completion

    for option, shell in zip(words, words[1:], strict=False):
        if option == SCRIPT_OPTION and shell in completion.SCRIPTS:
            print(completion.script(shell))
            raise Exit(code=DONE)


def _missing(message: re.Match[str]) -> str:
    """What Invoke says of positional arguments that are missing, in our words."""
    needed = re.findall(r"'([\w-]+)'", message[2])
    return f"{PROGRAM} {dashed(message[1])} needs {' and '.join(map(str.upper, needed))}"


def _answered(found: Answer) -> Exit:
    return Exit(printable(f"{found.rule}\n  next: {PROGRAM} {found.next}"), code=USAGE)


def _usage(rule: str, hint: str) -> Exit:
    return Exit(printable(f"{PROGRAM}: {rule}\n  next: {hint}"), code=USAGE)


if __name__ == "__main__":
    main()
