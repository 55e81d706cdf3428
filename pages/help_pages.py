"""What `fab --list`, `fab --help` and `fab --help TASK` print, for the tests to compare with."""

from __future__ import annotations

from pathlib import Path

from bootstrap.cli.command_line import help
from bootstrap.cli.program import TASKS

from .marked import ROOT

FOLDER = ROOT / "tests/cases/help"
LIST, HELP = "-list", "-help"  # the pages that are not those of a task


def files() -> dict[Path, str]:
    """The content of each file."""
    pages = {name: help.task_page(task) for name, task in TASKS.items()}
    pages |= {LIST: help.listing(TASKS.values(), {}), HELP: help.page(TASKS.values())}
    return {FOLDER / f"{name}.txt": text + "\n" for name, text in pages.items()}
