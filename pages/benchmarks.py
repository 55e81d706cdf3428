"""The table of docs/benchmarks.md, from what `make bench` measured."""

from __future__ import annotations

import json

from benchmarks.__main__ import FILE, table

from . import marked


def parts() -> dict[str, str]:
    """The generated parts of the page."""
    head, *rows = table(json.loads(FILE.read_text()))
    return {"figures": marked.table(head, rows)}
