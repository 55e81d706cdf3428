"""Every benchmark that has a goal ends with its figures, in its smallest form; how large they are,
`make bench` says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from draws import drawn
from e2e import kept_environments
from places import ROOT

from benchmarks import __main__ as bench
from benchmarks.figures import MISSED, Figure, emit, from_json
from pages import benchmarks as page

FIGURES = {"epoch": 8, "fanout": 9, "start": 4}


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True)


def test_a_benchmark_ends_with_its_figures(tmp_path: Path, shared_caches: Path) -> None:
    name = drawn(tuple(bench.BENCHMARKS))
    if name == "fanout" and not shutil.which("rsync"):
        pytest.skip("pyinfra is at its fastest with rsync, which is not installed here")
    kept_environments.give_bytecode(shared_caches)
    done = run(name, "--smallest", "--figures", tmp_path / "figures.json")
    assert done.returncode == 0, done.stdout + done.stderr
    (entry,) = json.loads((tmp_path / "figures.json").read_text()).values()
    figures = [from_json(figure) for figure in entry["figures"]]
    assert len({(figure.what, figure.unit) for figure in figures}) == FIGURES[name]
    for figure in figures:
        assert len(figure.ours) == 1 and figure.compared[0] > 0 and figure.goal > 0, figure


def test_a_goal_is_about_the_median_of_the_ratios_of_each_round() -> None:
    figure = Figure("x", "s", [1, 30, 2], 0.5, "peer", [10, 10, 4])
    assert figure.compared == [0.1, 3.0, 0.5] and figure.kept
    assert not Figure("x", "s", [1, 30, 2.1], 0.5, "peer", [10, 10, 4]).kept
    assert Figure("x", "ms", [9, 11, 10], 10).kept
    assert not Figure("x", "ms", [9, 11, 10.1], 10).kept


def test_misses_stand_in_the_table_as_what_is_kept_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCHMARK_FIGURES", str(tmp_path / "figures"))
    figures = [Figure("a", "s", [1.0], 2, "peer", [1.0]), Figure("b", "MB", [300.0], 100)]
    assert emit(*figures) == MISSED and emit(figures[0]) == 0
    lines = (tmp_path / "figures").read_text().splitlines()
    assert [from_json(json.loads(line)).what for line in lines] == ["a", "b", "a"]
    monkeypatch.setattr(page, "FILE", tmp_path / "figures.json")
    (tmp_path / "figures.json").write_text(json.dumps({"x": bench.entry(figures)}))
    rows = page.parts()["figures"].splitlines()
    assert [row.split(" | ")[5] for row in rows[2:]] == ["kept", "**missed**", "", "", ""]
    assert rows[2].startswith("| a | 1 s | peer: 1 s | 1x (1 to 1) | 2x |")
    assert rows[3].startswith("| b | 300 MB |  | 300 MB (300 to 300) | 100 MB |")


@pytest.mark.parametrize(
    ("program", "measured"),
    [
        ("raise SystemExit(2)", False),
        ("", False),
        ("raise SystemExit(emit(Figure('a', 's', [2.0], 1)))", True),  # a goal that is missed
        ("emit(Figure('a', 's', [2.0], 1)); raise ValueError", False),
        ("emit(Figure('a', 's', [2.0], 1)); import os; os.abort()", False),
    ],
)
def test_a_benchmark_that_fails_has_no_figure(
    program: str, measured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = "from benchmarks.figures import Figure, emit; "

    def replaced(command: Sequence[str], **how: object) -> object:
        return real([sys.executable, "-c", begin + program], cwd=ROOT, **how)  # type: ignore

    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", replaced)
    assert bool(bench.figures_of("epoch", ())) == measured


def test_an_unknown_benchmark_is_refused_with_the_choices() -> None:
    done = run("fanuot")
    assert done.returncode == 2
    assert "no benchmark fanuot. Choices: epoch, fanout, start" in done.stderr
