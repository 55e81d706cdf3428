from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bootstrap.console.charts.chart import COLUMNS, HEAD, HEIGHT
from bootstrap.console.charts.shapes import WIDTH
from bootstrap.runs.metrics.options import MOST_METRICS
from bootstrap.runs.metrics.plots import curves

Record = dict[str, Any]
SVG = "{http://www.w3.org/2000/svg}"


def epoch(number: float, **values: Any) -> Record:
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


def svg_of(folder: Path, records: list[Any], title: str = "demo", tail: str = "") -> str:
    return curves(written(folder, records, tail), title)


def panels_in(picture: str) -> int:
    """How many charts an SVG file has: each is a group of the picture itself."""
    return len(ElementTree.fromstring(picture).findall(f"{SVG}g"))


def count(picture: str, tag: str) -> int:
    """How many elements of a kind an SVG file has."""
    return len([*ElementTree.fromstring(picture).iter(f"{SVG}{tag}")])


RUNS: dict[str, tuple[list[Record], int, int]] = {
    "a whole run": (FULL, 2, 4),
    "one epoch": (FULL[:1], 2, 4),
    "progress does not count beside epochs": ([*PROGRESS, *FULL], 2, 4),
    "loss alone": ([epoch(n, loss=1 / n) for n in range(1, 4)], 1, 1),
    "accuracy alone": ([epoch(n, accuracy=n / 4) for n in range(1, 4)], 1, 1),
    "held-out accuracy alone": ([epoch(n, val_accuracy=n / 4) for n in range(1, 4)], 1, 1),
    "progress of two hosts": (PROGRESS, 1, 2),
    "progress of one host": (PROGRESS[::2], 1, 1),
    "a loss that was not a number": (
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
        + [epoch(4, loss=-1e308), epoch(1e308, loss=1), epoch(-1e308, loss=1), epoch(5, loss=0.5)],
        1,
        1,
    ),
    "many epochs": ([epoch(n, loss=1 / n) for n in range(1, 500)], 1, 1),
}


@pytest.mark.parametrize("run", RUNS)
def test_the_curves_of_a_run_are_drawn(tmp_path: Path, run: str) -> None:
    records, panels, lines = RUNS[run]
    picture = svg_of(tmp_path, records)
    assert (panels_in(picture), count(picture, "polyline")) == (panels, lines)
    assert f'viewBox="0 0 {WIDTH * panels} {HEIGHT + HEAD}"' in picture


def test_panels_that_do_not_fit_beside_each_other_are_in_rows(tmp_path: Path) -> None:
    records = [{"kind": "metric", "name": f"m{n}", "number": 1, "value": n} for n in range(7)]
    picture = svg_of(tmp_path, records)
    assert panels_in(picture) == 7
    assert f'viewBox="0 0 {WIDTH * COLUMNS} {3 * HEIGHT + HEAD}"' in picture


def test_a_picture_has_a_bounded_number_of_panels(tmp_path: Path) -> None:
    records = [{"kind": "metric", "name": f"m{n}", "number": 1, "value": n} for n in range(99)]
    assert panels_in(svg_of(tmp_path, records)) == MOST_METRICS


def test_an_epoch_that_was_trained_again_counts_as_it_went_last(tmp_path: Path) -> None:
    again = [epoch(1, loss=1.0), epoch(2, loss=9.0), epoch(2, loss=0.5)]
    assert svg_of(tmp_path, again) == svg_of(tmp_path, [again[0], again[2]])


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
def test_where_there_is_nothing_to_draw_there_is_no_text(
    tmp_path: Path, records: list[Any]
) -> None:
    assert svg_of(tmp_path, records) == ""


def test_no_metrics_at_all_are_nothing_to_draw(tmp_path: Path) -> None:
    assert curves(tmp_path / "metrics.jsonl", "demo") == ""


@pytest.mark.parametrize(
    "tail", ['{"kind": "epoch", "epo', "\ufffd\0", "[" * 100_000, "1e999"], ids=range(4)
)
def test_a_torn_line_costs_only_itself(tmp_path: Path, tail: str) -> None:
    assert svg_of(tmp_path, FULL, tail=tail) == svg_of(tmp_path, FULL)


@pytest.mark.parametrize("name", ["<script>&\"'", "\0\x1b[31m\ud800\ufffe\uffff", "", "x" * 300])
def test_a_name_from_a_host_is_text(tmp_path: Path, name: str) -> None:
    record = {"kind": "metric", "name": name, "number": 1, "value": 1.0}
    picture = svg_of(tmp_path, [record], title=name)
    assert (count(picture, "polyline"), count(picture, "script")) == (1, 0)
