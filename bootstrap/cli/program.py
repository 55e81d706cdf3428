"""The command `fab` of this clone: Fabric's program, with our tasks also in other folders."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from fabric.main import program
from invoke import Exit
from invoke.exceptions import ParseError

from bootstrap.console.output import printable
from bootstrap.inventory.files import RUN_ID

CLONE = Path(__file__).resolve().parents[2]
FILE = "fabfile.py"
FORMATS = ("flat", "nested", "json")  # of --list
# The options of Fabric that name other tasks.
OTHER_TASKS = ("-c", "--collection", "-r", "--search-root")


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    program.parse_core = _checked(program.parse_core)
    program.print_help = _with_fabfile(program.print_help)
    program.run([sys.argv[0], *_with_tasks(sys.argv[1:], Path.cwd())])


def _with_fabfile(print_help: Callable[[], None]) -> Callable[[], None]:
    """Load the fabfile before the help is printed: ours has a page of its own, which replaces
    Fabric's."""

    def load_and_print() -> None:
        program.print_help = print_help
        program.load_collection()
        program.print_help()

    return load_and_print


def _with_tasks(args: Sequence[str], folder: Path) -> list[str]:
    """The arguments; with the folder of the fabfile, if nothing names others: the folder or one
    above it, otherwise this clone. Not fetched results: hosts have written their files."""
    if any(arg.startswith(OTHER_TASKS) for arg in args if arg.startswith("-")):
        return [*args]
    places = (folder, *folder.parents)
    first = max(
        (n + 1 for n, place in enumerate(places) if RUN_ID.fullmatch(place.name)), default=0
    )
    found = (place for place in places[first:] if (place / FILE).exists())
    return ["--search-root", str(next(found, CLONE)), *args]


def _checked(parse: Callable[[list[str]], None]) -> Callable[[list[str]], None]:
    """A core option with a wrong value is the user's error, and Fabric runs no command itself: it
    would accept any host key."""

    def parse_or_exit(argv: list[str]) -> None:
        try:
            parse(argv)
        except ParseError as wrong:
            raise _usage(str(wrong), "fab --help") from None
        except ValueError as wrong:
            raise _usage(f"an option needs a number: {wrong}", "fab --help") from None
        core = program.core
        form = core[0].args["list-format"].value
        if form not in FORMATS:
            raise _usage(f"--list-format {form}: one of {', '.join(FORMATS)}", "fab --list")
        if core.remainder and not core.unparsed and not core[0].args.complete.value:
            raise _usage("no task is named", "fab exec --hosts a,b --cmd 'COMMAND'")

    return parse_or_exit


def _usage(rule: str, hint: str) -> Exit:
    return Exit(printable(f"fab: {rule}\n  next: {hint}"), code=2)


if __name__ == "__main__":
    main()
