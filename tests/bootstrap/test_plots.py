from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from bootstrap.runs.metrics.plots import curves

Record = dict[str, Any]


def epoch(number: int, **values: Any) -> Record:
    return {"kind": "epoch", "epoch": number, "epochs": 5, **values}


FULL = [
    epoch(n, loss=2 / n, accuracy=1 - 0.5 / n, val_loss=2.2 / n, val_accuracy=1 - 0.6 / n)
    for n in range(1, 6)
]
PROGRESS = [
    {"kind": "progress", "host": host, "step": step, "loss": 2 / step + extra}
    for step in range(1, 40)
    for host, extra in (("h1", 0.0), ("h2", 0.1))
]


def written(folder: Path, records: list[Any], tail: str = "") -> Path:
    lines = [json.dumps(record) for record in records]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, tail]))
    return folder / "metrics.jsonl"


def pixels(picture: Path) -> Any:
    """The picture as an array, height x width x RGBA."""
    return matplotlib.image.imread(picture)


def drawn(picture: Path) -> int:
    """How many curves can be seen: matplotlib's first colours, each with enough pixels."""
    seen = (pixels(picture)[:, :, :3] * 255).round()
    first = [(31, 119, 180), (255, 127, 14), (44, 160, 44)]
    return sum(int((seen == colour).all(axis=2).sum() > 100) for colour in first)


RUNS: dict[str, tuple[list[Record], int, int]] = {
    "a whole run": (FULL, 2, 2),
    "one epoch": (FULL[:1], 2, 2),
    "progress does not count beside epochs": ([*PROGRESS, *FULL], 2, 2),
    "loss alone": ([epoch(n, loss=1 / n) for n in range(1, 4)], 1, 1),
    "accuracy alone": ([epoch(n, accuracy=n / 4) for n in range(1, 4)], 1, 1),
    "held-out accuracy alone": ([epoch(n, val_accuracy=n / 4) for n in range(1, 4)], 1, 1),
    "progress of two hosts": (PROGRESS, 1, 2),
    "progress of one host": (PROGRESS[::2], 1, 1),
    "a loss that was no number": (
        [epoch(1, loss=1.0), epoch(2, loss=float("nan")), epoch(3, loss=0.5)],
        1,
        1,
    ),
    "numbers as texts": (
        [{"kind": "epoch", "epoch": str(n), "loss": f"{1 / n}"} for n in range(1, 4)],
        1,
        1,
    ),
    "numbers that no picture holds": (
        [epoch(1, loss=1.0), epoch(2, loss=10**400), epoch(10**400, loss=1), epoch(3, loss=1e308)]
        + [epoch(4, loss=-1e308), epoch(5, loss=0.5)],
        1,
        1,
    ),
    "many epochs": ([epoch(n, loss=1 / n) for n in range(1, 500)], 1, 1),
}


@pytest.mark.parametrize("run", RUNS)
def test_the_curves_of_a_run_are_drawn(tmp_path: Path, run: str) -> None:
    records, panels, lines = RUNS[run]
    picture = tmp_path / "new" / "curves.png"
    assert curves(written(tmp_path, records), picture, "demo")
    assert pixels(picture).shape == (432, 576 * panels, 4)
    assert drawn(picture) == lines


def test_an_epoch_that_was_trained_again_counts_as_it_went_last(tmp_path: Path) -> None:
    again = [epoch(1, loss=1.0), epoch(2, loss=9.0), epoch(2, loss=0.5)]
    assert curves(written(tmp_path, again), tmp_path / "again.png", "demo")
    assert curves(written(tmp_path, [again[0], again[2]]), tmp_path / "once.png", "demo")
    assert (pixels(tmp_path / "again.png") == pixels(tmp_path / "once.png")).all()


@pytest.mark.parametrize(
    "records",
    [
        [],
        [{"kind": "message", "text": "hello"}],
        [epoch(1, loss=float("nan"), accuracy=None)],
        [epoch(1, loss="much")],
        [{"kind": "epoch", "loss": 1.0}],
        [epoch(1, loss=True, accuracy=[1])],
        [[1, 2], 3, None, "text"],
    ],
    ids=["no record", "a message", "no number", "a text", "no epoch", "no numbers", "no objects"],
)
def test_where_there_is_nothing_to_draw_there_is_no_file(
    tmp_path: Path, records: list[Any]
) -> None:
    picture = tmp_path / "curves.png"
    assert not curves(written(tmp_path, records), picture, "demo")
    assert not picture.exists()


def test_no_metrics_at_all_are_nothing_to_draw(tmp_path: Path) -> None:
    assert not curves(tmp_path / "metrics.jsonl", tmp_path / "curves.png", "demo")


@pytest.mark.parametrize(
    "tail", ['{"kind": "epoch", "epo', "\ufffd\0", "[" * 100_000, "1e999"], ids=range(4)
)
def test_a_torn_line_costs_only_itself(tmp_path: Path, tail: str) -> None:
    torn = written(tmp_path, FULL, tail)
    assert curves(torn, tmp_path / "torn.png", "demo")
    assert curves(written(tmp_path, FULL), tmp_path / "whole.png", "demo")
    assert (pixels(tmp_path / "torn.png") == pixels(tmp_path / "whole.png")).all()


@pytest.mark.parametrize("title", ["$x_{$", "a_b^c $ \\frac", "", "x" * 300])
def test_a_title_is_text_and_no_formula(tmp_path: Path, title: str) -> None:
    assert curves(written(tmp_path, FULL), tmp_path / "curves.png", title)


def test_a_backend_of_the_user_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPLBACKEND", "TkAgg")
    monkeypatch.delenv("DISPLAY", raising=False)
    assert curves(written(tmp_path, FULL), tmp_path / "curves.png", "demo")
