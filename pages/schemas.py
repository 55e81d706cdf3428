"""docs/schemas: the JSON Schema of what each task prints with --json."""

from __future__ import annotations

import json
from pathlib import Path

from railhead.documents.outputs import OUTPUTS

from .json_schema import schema_of
from .marked import DOCS, table

FOLDER = DOCS / "schemas"


def files() -> dict[Path, str]:
    """The content of each file."""
    return {
        FOLDER / f"{name}.json": json.dumps(schema_of(kind, f"fab {name} --json"), indent=1) + "\n"
        for name, kind in OUTPUTS.items()
    }


def parts() -> dict[str, str]:
    """The generated part about them."""
    names = [
        (f"`fab {name.replace('data-', 'data ')}`", f"`docs/schemas/{name}.json`")
        for name in OUTPUTS
        if name != "error"
    ]
    names.append(
        ("every task, after an error without another document", "`docs/schemas/error.json`")
    )
    return {"outputs": table(("task", "JSON Schema"), names)}
