"""The command `fab` of this clone: Fabric's program, with our tasks also in other folders."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fabric.main import program
from invoke import Exit

CLONE = Path(__file__).resolve().parents[2]
FILE = "fabfile.py"
# The options of Fabric that name other tasks.
OTHER_TASKS = ("-c", "--collection", "-r", "--search-root")


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    program.parse_core = _checked(program.parse_core)
    program.run([sys.argv[0], *_with_tasks(sys.argv[1:], Path.cwd())])


def _with_tasks(args: Sequence[str], folder: Path) -> list[str]:
    """The arguments; with the tasks of this clone, if nothing names others and no fabfile is in the
    folder or above it."""
    named = any(arg.startswith(OTHER_TASKS) for arg in args if arg.startswith("-"))
    found = any((place / FILE).exists() for place in (folder, *folder.parents))
    return [*args] if named or found else ["--search-root", str(CLONE), *args]


def _checked(parse: Any) -> Any:
    """Fabric's own options: a text in place of a number, or a missing file, is the user's error."""

    def parse_or_exit(argv: list[str]) -> None:
        try:
            parse(argv)
        except ValueError as wrong:
            message = f"fab: an option needs a number: {wrong}\n  next: fab --help"
            raise Exit(message, code=2) from None
        config = program.core[0].args.config.value
        if config and not Path(config).is_file():
            raise Exit(f"fab: --config {config}: there is no such file", code=2)

    return parse_or_exit


if __name__ == "__main__":
    main()
