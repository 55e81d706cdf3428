"""Writes the generated parts of the pages, and those of `--help`: `make generate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from . import (
    benchmarks,
    config,
    documents,
    help_pages,
    interface,
    schemas,
    tables,
    tasks,
    training,
    variables,
)
from .marked import DOCS, filled, spread

PAGES: Mapping[str, Callable[[], dict[str, str]]] = {
    "benchmarks.md": benchmarks.parts,
    "contributing.md": variables.of_tests,
    "config.md": config.parts,
    "architecture.md": documents.parts,
    "training.md": training.parts,
    "data.md": training.parts_of_data,
    "troubleshooting.md": tables.causes,
    "python.md": interface.parts,
    "reliability.md": tables.campaigns,
    "security.md": tables.crossings,
}


def files() -> dict[Path, str]:
    """The content of each page that has generated parts, and of each page of `--help`."""
    pages = {
        DOCS / name: filled((DOCS / name).read_text(), parts()) for name, parts in PAGES.items()
    }
    of_tasks = {**tasks.parts(), **variables.of_tasks(), **schemas.parts()}
    return {**pages, **spread(tasks.PAGES, of_tasks), **help_pages.files(), **schemas.files()}


if __name__ == "__main__":
    for path, content in files().items():
        path.write_text(content)
