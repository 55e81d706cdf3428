"""Which runs a report compares, and what its charts show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.console.charts import chart, pictures
from bootstrap.console.charts.axes import axis
from bootstrap.console.charts.chart import Curve, Panel
from bootstrap.console.charts.shapes import look
from bootstrap.report.comparable import comparison
from bootstrap.report.compare import best_of, comparison_page, comparison_panels
from bootstrap.report.facts import RunFacts
from bootstrap.report.page import throughput_panels
from bootstrap.report.scaling import panels_of, points_of
from railhead.documents.runs.evaluation import NONE, Evaluation
from railhead.documents.runs.records import Record
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import BuiltIn, RunData


def run(name: str, accuracy: float = 0.5, **more: Any) -> RunFacts:
    """A run; `data`: the digest of its held-out samples, `state`, `split`, `inputs` (--data),
    `early`, `evaluated`; all else are settings."""
    split, digest = more.pop("split", "test"), more.pop("data", "")
    evaluation = Evaluation(split=split, data=digest, metrics={"accuracy": accuracy})
    result = Result(state=more.pop("state", "succeeded"), seconds=60.0)
    changes = {"data": more.pop("inputs", ()), "size": more.pop("size", 1)}
    early, evaluated = more.pop("early", False), more.pop("evaluated", True)
    document = run_document(**changes, program=BuiltIn("training", more))
    facts = RunFacts(
        name, Path("/nowhere"), "c", document=document, result=result, ended_early=early,
        evaluation=evaluation if evaluated else NONE,
    )  # fmt: skip
    epochs = [
        Record("epoch", epoch=n, figures={"val_accuracy": accuracy, "samples_per_s": 1000.0 + n})
        for n in (1, 2)
    ]
    facts.__dict__["records"] = epochs
    return facts


def pushed(digest: str) -> tuple[RunData, ...]:
    return (RunData("train", "~/d", None, None, (f"~/.railhead/data/{digest}",)),)


CASES: dict[str, tuple[list[RunFacts], str | None, list[str]]] = {
    "equal digests": ([run("a", data="feed"), run("b", 0.9, data="feed")], "b", []),
    "other test data of one": (
        [run("a", data="feed"), run("b", 0.9, data="beef"), run("c", 0.6, data="feed")], "c", ["b"],
    ),
    "each has its own": ([run("a", data="feed"), run("b", data="beef")], None, ["a", "b"]),
    "as many on other data": (
        [run("a", data="f"), run("b", 0.9, data="b"), run("c", data="f"), run("d", data="b")],
        "a", ["b", "d"],
    ),
    "test against validation": (
        [run("a", data="f"), run("b", 0.9, data="f", split="validation"), run("c", data="f")],
        "a", ["b"],
    ),
    "no evaluation": (
        [run("a", data="feed"), run("b", 0.9, evaluated=False), run("c", data="feed")], "a", ["b"],
    ),
    "none has an evaluation": (
        [run("a", evaluated=False), run("b", 0.9, evaluated=False)], "b", [],
    ),
    "no digest, the same files": (
        [run("a", inputs=pushed("1")), run("b", 0.9, inputs=pushed("1"))], "b", [],
    ),
    "no digest, other files at the same place": (
        [run(name, inputs=pushed(digest)) for name, digest in ("a1", "b2", "c1")],
        "a", ["b"],
    ),
    "no digest, another data set": (
        [run("a", seed=1), run("b", 0.9, seed=2), run("c", seed=1)], "a", ["b"],
    ),
    "one length of text and another": (
        [run("a", data="1", text_length=64), run("b", 0.9, data="2", text_length=128)], "b", [],
    ),
    "ended early": (
        [run("a", data="f"), run("b", 0.9, data="f", state="cancelled", early=True)], "a", ["b"],
    ),
    "failed": ([run("a", data="f"), run("b", 0.9, data="f", state="failed")], "a", ["b"]),
    "one alone": ([run("a", data="f")], "a", []),
    "nothing": ([], None, []),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_only_runs_on_the_same_data_are_compared(name: str) -> None:
    runs, best, left_out = CASES[name]
    best_run = best_of(runs, "accuracy")
    assert (best_run.run_id if best_run else None, [*comparison(runs, "accuracy").left_out]) == (
        best, left_out,
    )  # fmt: skip


def page_of(runs: list[RunFacts]) -> str:
    return comparison_page(runs, "accuracy", "fab report a,b", Path("/nowhere/report"))


def test_the_page_names_the_runs_that_are_not_compared_and_their_data() -> None:
    runs, *_ = CASES["other test data of one"]
    html = page_of(runs)
    (row,) = [row for row in re.findall(r"<tr[^>]*>(.*?)</tr>", html) if ">b</a>" in row]
    assert row.endswith("<td>figures on other data: test data beef</td>")
    assert "why not compared" in html and "why not compared" not in page_of(runs[::2])
    assert "Best run" not in page_of(CASES["each has its own"][0])


def test_the_table_has_the_settings_first_and_the_best_run_on_top() -> None:
    rates = {"a": (0.7, 0.1), "b": (0.9, 0.01), "c": (0.8, 0.001), "d": (0.95, 0.0001)}
    runs = [
        run(name, accuracy, data="f" if name != "d" else "g", learning_rate=rate)
        for name, (accuracy, rate) in rates.items()
    ]
    html = page_of(runs)
    (head, *rows) = re.findall(r"<tr[^>]*>(.*?)</tr>", html)[:5]
    assert re.findall(r"<th>(.*?)</th>", head)[:2] == ["learning_rate", "accuracy"]
    assert [re.findall(r">(\w+)</a>", row) for row in rows] == [["b"], ["c"], ["a"], ["d"]]
    assert html.count('class="best"') == 1 and 'class="best"><td class="n">0.01<' in html
    assert 'href="../report.html"' in html and "fab report a,b" in html
    by_rate, *_ = comparison_panels(runs, "accuracy")
    assert (by_rate.y_label, by_rate.x_label, by_rate.scattered) == (
        "accuracy",
        "learning_rate",
        True,
    )
    assert by_rate.best == 1 and [curve.points for curve in by_rate.curves][1] == ((0.01, 0.9),)


def test_a_run_that_its_sweep_has_cancelled_is_not_called_cancelled() -> None:
    assert run("a", state="cancelled", early=True).state == "ended early"
    assert run("a", state="succeeded", early=True).state == "succeeded"
    assert run("a", state="cancelled").state == "cancelled"


# --- Charts ----------------------------------------------------------------------------------


def heights(markup: str) -> list[float]:
    """The pixels of y of the points of each curve."""
    lines = re.findall(r'<polyline points="([^"]*)"', markup)
    return [float(point.split(",")[1]) for line in lines for point in line.split()]


def test_a_throughput_is_drawn_from_zero() -> None:
    runs = [run("a", size=1), run("b", size=2)]
    panels = [*throughput_panels(runs[0]), *comparison_panels(runs), *panels_of(points_of(runs))]
    rates = [panel for panel in panels if "samples/s" in panel.y_label]
    assert len(rates) == 3 and all(panel.from_zero for panel in rates)
    assert not any(panel.from_zero for panel in panels if "accuracy" in panel.y_label)
    drawn = chart.chart(Panel("samples/s", "epoch", (Curve("a", ((1, 900), (2, 1000))),), True))
    low, high = heights(drawn)
    bottom = chart.HEIGHT - chart.BOTTOM
    assert (bottom - low) / (bottom - high) == pytest.approx(0.9, abs=0.01)


LOSS = (2.0, 0.5, 0.01)


@pytest.mark.parametrize(
    ("values", "options", "numbers"),
    [
        (LOSS, {"log": True}, [0.01, 0.1, 1.0]),
        (LOSS, {}, [0.5, 1.0, 1.5, 2.0]),
        (LOSS, {"log": True, "from_zero": True}, [0.0, 0.5, 1.0, 1.5, 2.0]),
        ((0.002, 0.9), {"log": True}, [0.2, 0.4, 0.6, 0.8]),  # an accuracy
        ((-1.0, 100.0), {"log": True}, [0.0, 50.0, 100.0]),
        ((1e-90, 1e90), {"log": True}, [10.0**n for n in range(-90, 91, 31)]),
    ],
)
def test_an_axis_of_decades_is_logarithmic(
    values: tuple[float, ...], options: dict[str, bool], numbers: list[float]
) -> None:
    shown = axis(values, **options)
    assert shown.ticks == pytest.approx(numbers)
    places = [shown.place(value) for value in sorted(values)]
    assert places == sorted(places) and places[0] >= 0 and places[-1] <= 1


def test_a_value_is_named_at_its_point() -> None:
    curves = (Curve("a<b>", ((1.0, 0.25), (2.0, 0.5))), Curve("b", ((1.0, 0.75),)))
    drawn = chart.chart(Panel("accuracy", "epoch", curves))
    tips = re.findall(r'<g class="tip">.*?<text[^>]*>(.*?)</text></g></g>', drawn)
    assert tips == ["a&lt;b&gt;, epoch 1: 0.25", "a&lt;b&gt;, epoch 2: 0.5", "b, epoch 1: 0.75"]


def test_each_of_a_hundred_curves_has_a_name_and_a_look_of_its_own() -> None:
    curves = tuple(Curve(f"trial {n:02}", ((1.0, n), (2.0, n))) for n in range(100))
    drawn = chart.chart(Panel("accuracy", "epoch", curves))
    names = re.findall(r">(trial \d+)</text>", drawn)
    assert names == [curve.name for curve in curves]
    assert len({look(n) for n in range(100)}) == 100
    height = float(re.findall(r'viewBox="0 0 \d+ (\d+)"', drawn)[0])
    assert max(map(float, re.findall(r' y="([\d.]+)"', drawn))) < height, "nothing is cut off"


@pytest.mark.parametrize("classes", [1, 2, 10, 100])
def test_a_confusion_matrix_shrinks_as_a_whole(classes: int) -> None:
    rows = [[1234.0 if n == m else 0.0 for m in range(classes)] for n in range(classes)]
    markup = pictures.matrix([f"a class of a long name {n}" for n in range(classes)], rows)
    [(width, height)] = re.findall(r'viewBox="0 0 (\d+) (\d+)"', markup)
    assert width == height and markup.count(">1234</text>") == classes
    assert "scroll" not in markup, "it shrinks as a whole"
    corners = [float(x) for x in re.findall(r'<rect x="([\d.]+)"', markup)]
    assert max(corners) + pictures.CELL <= float(width) + 0.5
