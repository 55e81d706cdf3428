"""The table of what comes to this computer from others, and the code that reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from bootstrap.plan.runtimes import REPO
from bootstrap.untrusted.crossings import CROSSINGS

# What turns something of others into a file or a document.
READERS = {
    "unpack.unpack", "unpack.place", "unpack.place_text", "unpack.new_file", "parsed",
    "json_object", "json_line", "json_text", "text_given", "read_given", "refuse_of_others",
    "read_manifest", "read_state", "read_result", "read_run_document",
}  # fmt: skip
OURS = ("host.", "untrusted.")
DECLARE = {"inventory.files"}


def name_of(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        return f"{function.value.id}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""


def readers() -> Iterator[str]:
    """The modules that call one of READERS."""
    for path in (REPO / "bootstrap").rglob("*.py"):
        module = ".".join(path.relative_to(REPO / "bootstrap").with_suffix("").parts)
        calls = (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call))
        if not module.startswith(OURS) and any(name_of(call.func) in READERS for call in calls):
            yield module


def test_each_module_that_reads_what_others_wrote_is_in_a_row() -> None:
    listed = {module for row in CROSSINGS for module in row.modules}
    assert {*readers()} - DECLARE <= listed
    for module in listed:
        assert (REPO / "bootstrap" / (module.replace(".", "/") + ".py")).is_file(), module


def test_each_row_says_who_wrote_it_and_what_it_may_run() -> None:
    for row in CROSSINGS:
        assert all((row.data, row.writer, row.opened_by, row.runs, row.modules))
