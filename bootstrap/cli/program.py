"""The command `fab` of this clone: Fabric's program, with our tasks also in other folders."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fabric.exceptions import NothingToDo
from fabric.main import program
from invoke import Exit

from bootstrap.console.output import printable

CLONE = Path(__file__).resolve().parents[2]
FILE = "fabfile.py"
FORMATS = ("flat", "nested", "json")  # of --list
# The options of Fabric that name other tasks.
OTHER_TASKS = ("-c", "--collection", "-r", "--search-root")


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    program.parse_core = _checked(program.parse_core)
    try:
        program.run([sys.argv[0], *_with_tasks(sys.argv[1:], Path.cwd())])
    except NothingToDo:
        sys.exit(_usage("a command after -- needs hosts", "fab exec --hosts a,b --cmd 'COMMAND'"))
    except EOFError:  # of an option such as --prompt-for-passphrase
        sys.exit(_usage("stdin is not a terminal: nobody can answer the prompt", "fab --list"))


def _usage(what: str, hint: str) -> int:
    """Print an error of the user; returns its exit code."""
    print(f"fab: {what}\n  next: {hint}", file=sys.stderr)
    return 2


def _with_tasks(args: Sequence[str], folder: Path) -> list[str]:
    """The arguments; with the tasks of this clone, if nothing names others and no fabfile is in the
    folder or above it."""
    named = any(arg.startswith(OTHER_TASKS) for arg in args if arg.startswith("-"))
    found = any((place / FILE).exists() for place in (folder, *folder.parents))
    return [*args] if named or found else ["--search-root", str(CLONE), *args]


def _checked(parse: Callable[[list[str]], None]) -> Callable[[list[str]], None]:
    """Fabric's own options: a text in place of a number, or a missing file, is the user's error."""

    def parse_or_exit(argv: list[str]) -> None:
        try:
            parse(argv)
        except ValueError as wrong:
            message = f"fab: an option needs a number: {wrong}\n  next: fab --help"
            raise Exit(message, code=2) from None
        form = program.core[0].args["list-format"].value
        if form not in FORMATS:
            rule = f"--list-format {form}: one of {', '.join(FORMATS)}"
            raise Exit(printable(f"fab: {rule}\n  next: fab --list"), code=2)
        config = program.core[0].args.config.value
        if config and not os.path.isfile(config):  # noqa: PTH113  no file has a name too long
            raise Exit(printable(f"fab: --config {config}: there is no such file"), code=2)

    return parse_or_exit


if __name__ == "__main__":
    main()
