"""The list of environment variables is complete, and has no other."""

from __future__ import annotations

import re

import pytest
from places import ROOT

from railhead.variables import INSIDE, OF_RUNS, OF_TESTS, OF_YOU

NAME = re.compile(r"\bRAILHEAD_[A-Z][A-Z_]*[A-Z]\b")
FOLDERS = (
    "bootstrap",
    "stacks",
    "training",
    "railhead",
    "scripts",
    "pages",
    "benchmarks",
    "campaigns",
    "tests",
    ".ci",
)
LISTS = (OF_YOU, OF_RUNS, INSIDE, OF_TESTS)
DECLARED = {name for names in LISTS for name in names}
OF_DATA = re.compile(r"RAILHEAD_DATA_[A-Z]+(_MODE)?")
HERE = ("railhead/variables.py", "tests/documents/test_variables.py")


def used(folder: str) -> set[str]:
    """The variables that are named in the files of a folder."""
    paths = [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    texts = [
        path for path in paths if path.suffix in ("", ".py", ".sh") or path.parent.name == "bin"
    ]
    names = set()
    for path in texts:
        if str(path.relative_to(ROOT)) not in HERE and "__pycache__" not in path.parts:
            names |= {*NAME.findall(path.read_text(errors="replace"))}
    return names


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_code_uses_a_variable_that_is_not_declared(folder: str) -> None:
    assert {name for name in used(folder) - DECLARED if not OF_DATA.fullmatch(name)} == set()


def test_each_declared_variable_is_used_and_named_once() -> None:
    everywhere = set().union(*map(used, FOLDERS))
    ours = {name for name in DECLARED if name.startswith("RAILHEAD_") and "<" not in name}
    assert ours - everywhere == set() and len(DECLARED) == sum(map(len, LISTS))
