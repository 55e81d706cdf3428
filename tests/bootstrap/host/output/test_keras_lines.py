"""The epochs that Keras prints become records: tests/cases/keras-output has what Keras 2 and 3
print into a pipe, two epochs and an evaluation."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from places import ROOT
from standins.runs.run_documents import run_document

from bootstrap.host.output.keras_lines import KerasLines
from bootstrap.host.output.rank_output import RunOutput, WriteErrors, shown
from railhead.documents.runs.run import Script

PRINTED = sorted((ROOT / "tests/cases/keras-output").iterdir())


def read(lines: KerasLines, text: str) -> list[dict[str, float]]:
    return [record for line in text.splitlines() if (record := lines.feed(line))]


@pytest.mark.parametrize("path", PRINTED, ids=[path.stem for path in PRINTED])
def test_each_epoch_is_a_record_and_an_evaluation_is_none(path: Path) -> None:
    lines = KerasLines()
    parsed = [lines.feed(shown(line)) for line in path.read_bytes().split(b"\n")]
    records = [record for record in parsed if record]
    assert [(r["epoch"], r["epochs"]) for r in records] == [(1, 2), (2, 2)]
    names = {"loss", "accuracy", "mae"}
    for record in records:
        assert {*record} - {"epoch", "epochs"} == {
            *names, *(f"val_{name}" for name in names), "step_s"
        }  # fmt: skip
    last = path.read_text().rpartition("val_loss: ")[2]
    assert records[1]["val_loss"] == float(last[:6])


def test_a_second_fit_continues_the_count() -> None:
    lines = KerasLines()
    fit = "Epoch 1/2\n4/4 - 1s - loss: 0.5\nEpoch 2/2\n4/4 - 1s - loss: 0.4\n"
    records = read(lines, fit + "2/2 - 0s - loss: 9.0\n" + fit)
    assert [(r["epoch"], r["epochs"], r["loss"]) for r in records] == [
        *((1, 2, 0.5), (2, 2, 0.4), (3, 4, 0.5), (4, 4, 0.4))
    ]
    once = "Epoch 1/1\n4/4 - 1s - loss: 0.5\n"
    assert [r["epoch"] for r in read(KerasLines(), 3 * once)] == [1, 2, 3], "a loop around fit"
    later = read(KerasLines(), "Epoch 6/9\n4/4 - 1s - loss: nan\n")
    assert later[0]["epoch"] == 6 and math.isnan(later[0]["loss"])


@pytest.mark.parametrize(
    "text",
    [
        "4/4 - 1s - loss: 0.5",
        "Epoch 1/2\n3/4 - 1s - loss: 0.5",
        "Epoch 1/2\n4/4 done",
        "my Epoch 1/2\n4/4 - 1s - loss: 0.5",
        "Epoch 1/2\n4/4 " + "- " * 100_000,
        "Epoch 1/2\n4/4 - 1s - loss: 1" + ".1" * 100_000,
    ],
)
def test_other_lines_are_no_epochs(text: str) -> None:
    assert read(KerasLines(), text) == []


def records_of(tmp_path: Path, printed: list[tuple[int, str]]) -> list[dict[str, Any]]:
    for folder in ("results", "logs"):
        (tmp_path / folder).mkdir()
    run = replace(run_document(), program=Script("script", "train.py"), size=2)
    output = RunOutput(str(tmp_path), run, (), WriteErrors())
    for rank, line in printed:
        output.add_line(rank, line.encode())
    return [json.loads(line) for line in (tmp_path / "results/metrics.jsonl").open()]


def test_the_records_of_a_script_have_its_first_step_and_the_epochs_of_one_rank(
    tmp_path: Path,
) -> None:
    lines = ("Epoch 1/1", "4/4 - 1s - loss: 0.5")
    records = records_of(tmp_path, [(rank, line) for line in lines for rank in (1, 0)])
    assert [(r["kind"], r["rank"]) for r in records] == [("first_step", 0), ("epoch", 0)]


def test_a_script_that_reports_its_epochs_has_each_once(tmp_path: Path) -> None:
    epoch = '@railhead {"kind": "epoch", "epoch": 1, "loss": 0.5}'
    records = records_of(tmp_path, [(0, epoch), (0, "Epoch 2/2"), (0, "4/4 - 1s - loss: 0.4")])
    assert [r["loss"] for r in records if r["kind"] == "epoch"] == [0.5]
