"""Ranks that never join each other: seen at the first step of a library, or at the script's end."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.host.causes.causes import Failure, diagnosed
from bootstrap.host.rank import groups
from bootstrap.host.run.joining import JOIN
from bootstrap.runs.strategies import LAUNCHERS
from railhead.documents.runs.result import Culprit

# A call by which ranks join each other, and a step, for each row of the tables.
JOINS = [(module, name) for module, names in groups.JOINING.items() for name in names]
STEPS = [(module, name) for module, names in groups.STEPS.items() for name in names]


def run_of(size: int = 2, **changes: Any) -> Any:
    return run_document(**{"launcher": "tensorflow", "size": size, **changes})


@pytest.fixture
def packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], Any]]:
    """Makes a package with a function; it is imported when it is called."""
    before = {*sys.modules}
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(module: str, name: str) -> Any:
        folder = tmp_path
        for package in module.split(".")[:-1]:
            folder = folder / package
            folder.mkdir(exist_ok=True)
            (folder / "__init__.py").write_text("")
        *owners, function = name.split(".")
        text = f"def {function}(*_): return 'called'\n"
        for owner in owners:
            text = f"class {owner}:\n    {text}"
        (folder / f"{module.rpartition('.')[2]}.py").write_text(text)

        def call() -> Any:
            target: Any = importlib.import_module(module)
            for attribute in name.split("."):
                target = getattr(target, attribute)
            return target(object())

        return call

    yield make
    for module in {*sys.modules} - before:
        if module.partition(".")[0] in {row[0].partition(".")[0] for row in (*JOINS, *STEPS)}:
            del sys.modules[module]


@pytest.mark.parametrize(("module", "name"), STEPS)
def test_the_first_step_of_a_rank_alone_ends_its_script(
    packages: Callable[[str, str], Any], module: str, name: str
) -> None:
    step = packages(module, name)
    group = groups.Group(run_of())
    group.watch(steps=True)
    with pytest.raises(SystemExit, match="the 2 ranks of this script never joined"):
        step()
    group.join()
    assert step() == "called"


@pytest.mark.parametrize(("module", "name"), JOINS)
def test_a_rank_that_joins_others_is_not_alone(
    packages: Callable[[str, str], Any], module: str, name: str
) -> None:
    join, step = packages(module, name), packages(*STEPS[0])
    group = groups.Group(run_of())
    group.watch(steps=True)
    assert group.alone_at_end()
    assert join() in ("called", None) or module.endswith("server_lib")
    assert step() == "called" and group.alone_at_end() == ""


def test_without_patches_only_the_end_of_the_script_shows_it(
    packages: Callable[[str, str], Any],
) -> None:
    step = packages(*STEPS[0])
    group = groups.Group(run_of())
    group.watch(steps=False)
    assert step() == "called" and group.alone_at_end()


@pytest.mark.parametrize("run", [run_of(1), run_of(independent=True)], ids=("one", "meant"))
def test_one_rank_and_ranks_that_are_meant_to_be_alone_are_right(run: Any) -> None:
    group = groups.Group(run)
    before = [*sys.meta_path]
    group.watch(steps=True)
    assert sys.meta_path == before and group.alone_at_end() == ""


def test_a_child_that_worked_for_seconds_may_be_the_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "WORKED", 0.05)
    group = groups.Group(run_of())
    subprocess.run([sys.executable, "-c", "for _ in range(4_000_000): pass"], check=True)
    assert group.alone() and not group.alone_at_end()


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_the_cause_is_a_wrong_use_that_is_not_repeated(launcher: str) -> None:
    lines = groups.Group(run_of(launcher=launcher)).alone().splitlines()
    diagnosis = diagnosed(Failure(Culprit(0, "h1", tuple(lines), exit=1)))
    assert (diagnosis.cause.class_, diagnosis.retry) == ("usage", "never")
    assert "never joined" in diagnosis.cause.evidence and JOIN[launcher] in " ".join(lines)
