"""`--metric`: numbers in the output of a program become records; no pattern can hold a run."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import Any

import pytest
from standins import programs
from standins.options import program

from bootstrap.errors import UsageError
from bootstrap.host.output import metric_lines
from bootstrap.host.output.metric_lines import MetricLines
from bootstrap.runs.launch import RunOptions
from bootstrap.runs.metrics.options import read_metric
from railhead.documents.runs.run import Metric


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The archive from which the process that searches is started."""
    monkeypatch.setattr("bootstrap.host.base.programs.ARCHIVE", str(programs.place(tmp_path)))


LOSS = Metric("loss", r"loss: ([0-9.e+-]+)")
SLOW = Metric("slow", r"^(a+)+$")


def searched(lines: list[str], *metrics: Metric) -> tuple[list[dict[str, Any]], str]:
    """The records, and what went wrong."""
    records: list[dict[str, Any]] = []
    process = MetricLines(metrics, records.append)
    for line in lines:
        process.feed(line, 7.5)
    return records, process.close()


def test_each_match_is_a_numbered_record() -> None:
    lines = ["Epoch 1", "12/12 - 0s - loss: 0.5 - acc: 0.9", "loss: nan loss: x"]
    lines += ["global step 7: loss: 2e-1", "5ms/step - loss: 0.1"]
    records, wrong = searched(lines, LOSS, Metric("acc", "acc: (.*)"))
    assert wrong == ""
    assert records == [
        {"kind": "metric", "name": "loss", "value": 0.5, "number": 1, "time": 7.5},
        {"kind": "metric", "name": "acc", "value": 0.9, "number": 1, "time": 7.5},
        {"kind": "metric", "name": "loss", "value": 0.2, "number": 2, "step": 7, "time": 7.5},
        {"kind": "metric", "name": "loss", "value": 0.1, "number": 3, "time": 7.5},
    ]


def test_a_number_is_read_to_its_end_and_one_that_is_not_finite_is_null() -> None:
    """Keras prints small numbers as 1.2345e-05, and a loss that has become nan as nan."""
    lines = ["loss: 1.5e-05 - mae: 3E+2", "loss: 7e - mae: 1e4x", "loss: nan", "loss: -inf"]
    patterns = (Metric("loss", r"loss: (-?[0-9.]+|nan|-inf)"), Metric("mae", "mae: ([0-9]+)"))
    records, _ = searched(lines, *patterns)
    values = {n: [r["value"] for r in records if r["name"] == n] for n in ("loss", "mae")}
    assert values == {"loss": [1.5e-05, 7.0, None, None], "mae": [300.0, 1.0]}


def test_a_pattern_that_would_take_years_ends_the_search_and_nothing_else() -> None:
    records, wrong = searched(["loss: 1", "a" * 60 + "b", "loss: 2"], LOSS, SLOW)
    assert [record["value"] for record in records] == [1.0]
    assert wrong == "--metric slow took more than 1 s on one line: no metric after it"


def test_only_the_beginning_of_a_line_is_searched() -> None:
    records, wrong = searched([" " * 2000 + "loss: 1", "é" * 2000, "loss: 2"], LOSS)
    assert (len(records), wrong) == (1, "")


def test_lines_that_come_too_fast_are_counted_and_hold_nothing_up() -> None:
    process = MetricLines([LOSS], lambda record: None)
    process.process.send_signal(signal.SIGSTOP)
    for _ in range(1000):
        process.feed("x" * 900, 0.0)
    process.process.send_signal(signal.SIGCONT)
    assert re.match(r"\d+ lines were not searched for --metric", process.close())


def test_a_search_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_lines, "GRACE", 0.2)
    process = MetricLines([LOSS], lambda record: None)
    process.process.send_signal(signal.SIGSTOP)
    assert process.close() == "--metric loss took more than 1 s on one line: no metric after it"
    process.process.wait(60)


REFUSED = {
    "loss": "--metric 'loss'",
    "=x(y)": "--metric '=x(y)'",
    "a b=(x)": "--metric 'a b'",
    "loss=[": "'[' is not a regular expression",
    "loss=([0-9]": "is not a regular expression",
    "loss=x": "has 0 groups",
    "loss=(x)(y)": "has 2 groups",
}


@pytest.mark.parametrize("text, message", REFUSED.items(), ids=REFUSED)
def test_a_metric_that_cannot_work_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match="--metric") as refused:
        ((name, pattern),) = program(metrics=(text,)).metrics.items()
        read_metric(name, pattern)
    assert message in str(refused.value)


def test_a_name_is_given_once() -> None:
    with pytest.raises(UsageError, match="each name once"):
        RunOptions(script=True, metrics=(Metric("a", "(x)"), Metric("a", "(y)")))
