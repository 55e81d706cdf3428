"""Records, progress and the evaluation document."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any

import pytest

from training.results import Metrics, Progress, Records, judge, overfit_note, write_evaluation


def lines_of(out: io.StringIO) -> list[dict[str, Any]]:
    lines = out.getvalue().splitlines()
    assert all(line.startswith("@railhead ") for line in lines)
    return [json.loads(line.removeprefix("@railhead ")) for line in lines]


def test_a_record_is_one_line_of_json() -> None:
    out = io.StringIO()
    Records(local_rank=0, out=out).emit("message", text="two\nlines é", value=1 / 3)
    assert lines_of(out) == [{"kind": "message", "text": "two\nlines é", "value": 0.333333}]


def test_what_json_cannot_report_becomes_null() -> None:
    out = io.StringIO()
    Records(local_rank=0, out=out).emit("epoch", loss=math.nan, val_loss=math.inf)
    assert lines_of(out) == [{"kind": "epoch", "loss": None, "val_loss": None}]


def test_only_the_first_rank_of_a_host_speaks() -> None:
    out = io.StringIO()
    Records(local_rank=1, out=out).emit("message", text="no")
    assert out.getvalue() == ""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def run_progress(seconds_per_step: float) -> list[dict[str, Any]]:
    """Two epochs of 50 steps of 64 samples; the first step takes 5 s more."""
    out, clock = io.StringIO(), Clock()
    records = Records(local_rank=0, out=out)
    progress = Progress(records, epochs=2, steps=100, rate=lambda step: step / 10, clock=clock)
    for epoch in (1, 2):
        progress.start_epoch(epoch)
        for _ in range(50):
            clock.now += seconds_per_step + (5 if progress.step == 0 else 0)
            progress.count(64, seconds_per_step / 4, lambda: 0.5)
    return lines_of(out)


def test_progress_is_reported_five_times_a_second_and_at_the_end() -> None:
    records = run_progress(seconds_per_step=0.01)
    assert len(records) == pytest.approx(5 * 1.0, abs=2)
    assert records[-1] == {
        "kind": "progress",
        "epoch": 2,
        "epochs": 2,
        "step": 100,
        "steps": 100,
        "loss": 0.5,
        "learning_rate": 10.0,
        "samples_per_s": pytest.approx(6400),
        "seconds_left": 0.0,
        "step_s": pytest.approx(0.01),
        "input_s": pytest.approx(0.0025),
    }


def test_slow_steps_are_each_reported_with_the_time_left() -> None:
    records = run_progress(seconds_per_step=1.0)
    assert [record["step"] for record in records] == list(range(1, 101))
    assert records[0]["samples_per_s"] is records[0]["seconds_left"] is None
    assert [record["epoch"] for record in records[49:51]] == [1, 2]
    assert {record["samples_per_s"] for record in records[1:]} == {64}
    assert records[1]["seconds_left"] == 98


@pytest.mark.parametrize(
    ("accuracy", "threshold", "passed"),
    [(0.1, None, None), (0.9, 0.9, True), (0.8999, 0.9, False), (math.nan, 0.0, False)],
)
def test_a_result_passes_at_its_threshold(
    accuracy: float, threshold: float | None, passed: bool | None
) -> None:
    assert judge(Metrics(0.5, accuracy, 360), threshold).passed is passed


def test_the_evaluation_document(tmp_path: Path) -> None:
    write_evaluation(judge(Metrics(0.25, 0.975, 360), 0.9), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["evaluation.json"]
    assert json.loads((tmp_path / "evaluation.json").read_text()) == {
        "accuracy": 0.975,
        "loss": 0.25,
        "samples": 360,
        "threshold": 0.9,
        "passed": True,
    }


def test_alone_records_go_to_a_file_and_lines_for_people_to_stdout(tmp_path: Path) -> None:
    out, file = io.StringIO(), tmp_path / "results/metrics.jsonl"
    records = Records(local_rank=0, out=out, file=file)
    records.emit("message", text="hello")
    records.emit("progress", step=1, loss=2.0)
    records.emit("epoch", epoch=1, epochs=3, loss=0.5, accuracy=None, mae=0.25, val_loss=math.nan)
    assert out.getvalue() == "hello\nepoch  1/3  loss 0.5  mae 0.25\n"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [record["kind"] for record in lines] == ["message", "progress", "epoch"]
    assert all(record["rank"] == 0 and record["time"] > 0 for record in lines)


@pytest.mark.parametrize(
    ("trained", "held_out", "samples", "unit", "is_noted"),
    [
        (0.3, 1.9, 60, 1.0, True),
        (0.3, 0.4, 60, 1.0, False),
        (0.001, 0.1, 60, 1.0, False),
        (0.3, 1.9, 5, 1.0, False),
        (100.0, 500.0, 60, 1000.0, True),
        (1.0, 50.0, 60, 1000.0, False),
        (0.3, math.nan, 60, 1.0, False),
    ],
)
def test_losses_that_are_far_apart_are_noted(
    trained: float, held_out: float, samples: int, unit: float, is_noted: bool
) -> None:
    text = overfit_note(Metrics(trained, 0.9, 600), Metrics(held_out, 0.5, samples), unit)
    assert bool(text) is is_noted and (not is_noted or f"{held_out:.4g}" in text)


def test_an_accuracy_is_no_part_of_a_regression() -> None:
    judged = judge(Metrics(0.5, 0.1, 360), None, "mae")
    assert (judged.accuracy, judged.passed) == (None, None)
