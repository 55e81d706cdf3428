"""Which tests are skipped because nothing that decides them has changed."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import skip_list
import unchanged
from places import ROOT, TESTS, parsed

pytest_plugins = ["pytester"]
PROGRAMS = ("training/strategies/probe.py", "training/strategies/uneven.py")
PLUGIN = Path(unchanged.__file__).read_text()


def imported(path: Path) -> Iterator[str]:
    """The names that a file imports, with dots."""
    folder = path.relative_to(TESTS if path.is_relative_to(TESTS) else ROOT).parent
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = folder.parts[: len(folder.parts) - node.level + 1] if node.level else ()
            module = ".".join([*above, *filter(None, [node.module])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def files_of(name: str) -> Iterator[Path]:
    """The files of a module and of its packages, and of the module that a name is in."""
    parts = name.split(".")
    for number in range(1, len(parts) + 1):
        for root in (ROOT, TESTS):
            place = root.joinpath(*parts[:number])
            yield from (p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file())


def test_what_they_import_decides() -> None:
    """But for the Python interface, which `railhead` loads where a name of it is used, and for what
    records a run."""
    files = [p for p in TESTS.rglob("*.py") if unchanged.is_decided(str(p.relative_to(ROOT)))]
    pending = [*files, *(TESTS / name for name in PROGRAMS), *(ROOT / "training").rglob("*.py")]
    outside = {ROOT / "railhead/__init__.py", ROOT / "bootstrap/inventory/local_state.py"}
    seen = {*outside}
    assert len(files) > 10
    while pending:
        path = pending.pop()
        if path not in seen:
            seen.add(path)
            pending += [one for name in imported(path) for one in files_of(name)]
    names = {path.relative_to(ROOT) for path in seen - outside}
    packages = {path for path in names if path.name == "__init__.py"}
    assert not [
        name for name in names - packages if not any(map(name.is_relative_to, unchanged.DECIDE))
    ]


def test_ci_allows_each_skip() -> None:
    skips = [(file, f"Skipped: {unchanged.REASON}") for file in unchanged.FILES]
    assert skip_list.unexpected(skips, skip_list.allowed()) == []


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """One file that is decided by `training`, with two tests, of which one fails while a file
    says so."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(pytester.path / "caches"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (ROOT, TESTS))))
    (pytester.mkdir("training") / "train.py").write_text("")
    file = pytester.mkdir("tests") / "test_a.py"
    file.write_text(
        "import pathlib\n"
        "def test_one(): pass\n"
        "def test_two(): assert not pathlib.Path('fails').exists()\n"
    )
    text = PLUGIN.replace("tests/training/*cases_*.py", "tests/test_a.py")
    text = text.replace("from places import ROOT", "ROOT = Path.cwd()")
    pytester.makepyfile(own_unchanged=text)
    return pytester


def outcomes(suite: pytest.Pytester, *args: str) -> dict[str, int]:
    """How many tests passed, failed and were skipped."""
    return suite.runpytest_subprocess("-p", "own_unchanged", *args).parseoutcomes()


def test_a_file_is_skipped_after_all_of_it_has_passed_until_something_changes(
    suite: pytest.Pytester,
) -> None:
    (suite.path / "fails").touch()
    assert outcomes(suite, "--unchanged") == {"passed": 1, "failed": 1}
    (suite.path / "fails").unlink()
    assert outcomes(suite, "--unchanged", "-k", "two") == {"passed": 1, "deselected": 1}
    assert outcomes(suite, "--unchanged") == {"passed": 2}
    assert outcomes(suite, "--unchanged") == {"skipped": 2}
    assert outcomes(suite) == {"passed": 2}
    (suite.path / "training/train.py").write_text("x = 1")
    assert outcomes(suite, "--unchanged") == {"passed": 2}
