"""What `fab --list`, `fab --help` and `fab --help TASK` print, for the tests to compare with."""

from __future__ import annotations

from pathlib import Path

from bootstrap.cli.collection import ns
from bootstrap.cli.command_line import help
from bootstrap.cli.program import new_program

from .marked import ROOT

FOLDER = ROOT / "tests/cases/help"
LIST, HELP = "-list", "-help"  # the pages that are not those of a task


def files() -> dict[Path, str]:
    """The content of each file."""
    tasks = {name: ns[name] for name in ns.task_names}
    core = new_program().initial_context.args.values()
    pages = {name: help.task_page(task) for name, task in tasks.items()}
    pages |= {LIST: help.listing(tasks.values()), HELP: help.page(core, tasks.values())}
    return {FOLDER / f"{name}.txt": text + "\n" for name, text in pages.items()}
