"""How often a run starts again, and the records of steps that come twice."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.data.inputs import DataInput, read_inputs
from bootstrap.data.spec import parse_all
from bootstrap.errors import UsageError
from bootstrap.runs.failures.retries import (
    check_elastic,
    check_takeover,
    elastic_hosts,
    retries_of,
    without_checkpoints,
)
from bootstrap.runs.launch import Retries, RunOptions
from bootstrap.runs.metrics.plots import panels
from bootstrap.untrusted.records import raw_records, records
from railhead.documents.runs.run import BuiltIn, Program, Script


def inputs(text: str) -> tuple[DataInput, ...]:
    name, _, uri = text.partition("=")
    return read_inputs(parse_all({name: uri}, script=True))


MINUTES = BuiltIn("training", {"checkpoint_steps": 0, "checkpoint_minutes": 10.0})
STEPS = BuiltIn("training", {"checkpoint_steps": 5, "checkpoint_minutes": 0})
NOTHING = BuiltIn("training", {"checkpoint_steps": 0, "checkpoint_minutes": 0})
SCRIPT = Script("script", "train.py")


@pytest.mark.parametrize(
    ("program", "wanted", "retries"),
    [
        (MINUTES, None, Retries(3, from_start=True)),
        (STEPS, None, Retries(3, from_start=True)),
        (NOTHING, None, Retries(0)),
        (SCRIPT, None, Retries(3)),
        (SCRIPT, 2, Retries(2, from_start=True)),
        (NOTHING, 1, Retries(1, from_start=True)),
        (MINUTES, 0, Retries(0)),
        (BuiltIn("evaluation", {}), None, Retries(0)),
    ],
)
def test_the_default_is_for_runs_with_checkpoints(
    program: Program, wanted: int | None, retries: Retries
) -> None:
    assert retries_of(program, wanted) == retries
    assert bool(without_checkpoints(program)) == (program not in (MINUTES, STEPS))


WRONG = {
    "4:2": (3, "write MIN:MAX"),
    "0:2": (3, "write MIN:MAX"),
    "2": (3, "write MIN:MAX"),
    "a:b": (3, "write MIN:MAX"),
    "1:2": (0, "needs retries"),
}


@pytest.mark.parametrize(("text", "wrong"), WRONG.items())
def test_a_wrong_range_of_hosts_is_refused(text: str, wrong: tuple[int, str]) -> None:
    retries, message = wrong
    with pytest.raises(UsageError, match=message):
        elastic_hosts(text, Retries(retries), [])


def test_data_of_which_each_host_has_a_part_is_refused() -> None:
    assert elastic_hosts("1:4", Retries(3), inputs("train=host:/data")) == (1, 4)
    assert elastic_hosts("2:2", Retries(3), []) == (2, 2)
    with pytest.raises(UsageError, match="its own part of --data train"):
        elastic_hosts("1:4", Retries(3), inputs("train=host:/data,shard"))


HOSTS = {
    "in the range": ("multiworker", 2, ""),
    "too few": ("multiworker", 1, "the run has 1 hosts"),
    "too many": ("multiworker", 5, "the run has 5 hosts"),
    "with parameter servers": ("parameter-server", 3, "a fixed number of hosts"),
}


@pytest.mark.parametrize(("strategy", "hosts", "wrong"), HOSTS.values(), ids=HOSTS)
def test_the_hosts_must_fit_the_range_and_the_strategy(
    strategy: str, hosts: int, wrong: str
) -> None:
    retries = Retries(3, hosts=(2, 4))
    options = RunOptions(launcher="tensorflow", strategy=strategy, retries=retries)
    with pytest.raises(UsageError, match=wrong) if wrong else nullcontext():
        check_elastic(options, hosts)


TAKEOVERS = {
    "two hosts and a bucket": ("multiworker", 2, 3, "s3://b", ""),
    "parameter servers": ("parameter-server", 3, 3, "s3://b", "parameter-server cannot continue"),
    "one host": ("multiworker", 1, 3, "s3://b", "at least 2 hosts, and the run has 1"),
    "no retries": ("multiworker", 2, 0, "s3://b", "needs retries"),
    "no bucket": ("multiworker", 2, 3, None, "needs a bucket"),
}


@pytest.mark.parametrize(
    ("strategy", "hosts", "retries", "bucket", "wrong"), TAKEOVERS.values(), ids=TAKEOVERS
)
def test_a_takeover_needs_another_host_a_bucket_and_retries(
    strategy: str, hosts: int, retries: int, bucket: str | None, wrong: str
) -> None:
    for wanted in (True, False):
        options = RunOptions(
            launcher="tensorflow", strategy=strategy, retries=Retries(retries, takeover=wanted)
        )
        with pytest.raises(UsageError, match=wrong) if wrong and wanted else nullcontext():
            check_takeover(options, hosts, bucket)


def test_a_run_document_without_retries_has_none() -> None:
    assert (run_document().retries, run_document().retries_from_start) == (0, False)


def progress(step: int, **more: Any) -> dict[str, Any]:
    return {"kind": "progress", "step": step, "epoch": 1, "loss": 1.0 / step, **more}


def epoch(number: int, loss: float) -> dict[str, Any]:
    return {"kind": "epoch", "epoch": number, "loss": loss}


FIRST = [progress(1), epoch(1, 0.9), progress(5), {"kind": "message", "text": "x"}, epoch(2, 0.8)]
AFTER = {
    "a checkpoint": ({"step": 1, "epoch": 1}, [1, None, None]),
    "a checkpoint of an older step": ({"step": 0, "epoch": 0}, [None]),
    "a checkpoint of the last step": ({"step": 5, "epoch": 2}, [1, None, 5, None, None]),
    "a record of a script's own": ({"step": "no", "since": []}, [1, None, 5, None, None]),
}


@pytest.mark.parametrize(("start", "steps"), AFTER.values(), ids=AFTER)
def test_records_after_the_checkpoint_of_a_later_attempt_are_left_out(
    tmp_path: Path, start: dict[str, Any], steps: list[int | None]
) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = [*FIRST, {"kind": "start", **start}, epoch(3, 0.7)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    current = records(file)
    assert [r.step for r in current if r.kind not in ("start",)][:-1] == steps
    assert len([*raw_records(file)]) == len(current)
    (panel,) = panels(current)
    (curve,) = panel.curves
    assert len(curve.points) == len({r.epoch for r in current if r.kind == "epoch"})


def value(step: int | None, time: float, *, name: str = "loss", rank: int = 0) -> dict[str, Any]:
    """A value of a metric, whose line may have named its step."""
    one = {"kind": "metric", "name": name, "value": 1.0, "number": 99, "rank": rank, "time": time}
    return one if step is None else {**one, "step": step}


SINCE: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[float]]] = {
    # before and after a start whose checkpoint was begun at 20; the times of what remains
    "by time": ([value(None, 19), value(None, 21)], [value(None, 30)], [19, 30]),
    "the checkpoint was saved first": (
        [value(9, 19), value(10, 20.5), value(11, 21)],
        [value(11, 30)],
        [19, 20.5, 30],
    ),
    "the training went on meanwhile": (
        [value(9, 18), value(10, 19.5), value(11, 21)],
        [value(10, 30), value(11, 31)],
        [18, 30, 31],
    ),
    "another curve": (
        [value(9, 19), value(9, 19.5, name="val"), value(10, 21, name="val")],
        [value(10, 30)],
        [19, 19.5, 30],
    ),
    "another rank, which is a step behind": (
        [value(9, 18), value(8, 18.5, rank=1), value(10, 19.5), value(9, 19.6, rank=1)],
        [value(10, 30), value(9, 30.5, rank=1)],
        [18, 18.5, 30, 30.5],
    ),
    "steps that begin again in each epoch": (
        [value(1, 16), value(2, 17), value(1, 18), value(2, 19), value(3, 21)],
        [value(2, 30)],
        [16, 17, 18, 19, 30],
    ),
    "a step long before the checkpoint": ([value(50, 2), value(60, 19)], [value(40, 30)], [2, 30]),
    "nothing comes after it": ([value(9, 19), value(10, 21)], [], [19]),
}


@pytest.mark.parametrize(("before", "after", "times"), SINCE.values(), ids=SINCE)
def test_each_record_of_a_script_counts_once_over_its_attempts(
    tmp_path: Path, before: list[dict[str, Any]], after: list[dict[str, Any]], times: list[float]
) -> None:
    file = tmp_path / "metrics.jsonl"
    lines = [*before, {"kind": "start", "since": 20.0, "time": 25.0}, *after]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    metrics = [r for r in records(file) if r.kind == "metric"]
    assert [r.time for r in metrics] == times
    losses = [r.number for r in metrics if r.name == "loss"]
    assert losses == [*range(1, len(losses) + 1)], "the curve is not shifted"
    assert [r["number"] for r in raw_records(file) if r["kind"] == "metric"] == [
        r.number for r in metrics
    ]
