"""What Python and a notebook show: runs, endpoints and pages as HTML, errors that name methods."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import record_run

import railhead
from bootstrap.errors import Command
from bootstrap.interface.spelling import in_python
from bootstrap.serving import records
from railhead.documents.serving.endpoint import Deployed

EPOCHS = [{"kind": "epoch", "epoch": n, "loss": 1 / n} for n in (1, 2, 3)]


@pytest.fixture
def run(home: Path, tmp_path: Path) -> railhead.Run:
    """A run with results: three epochs, one message and one value of its own kind."""
    folder = tmp_path / "results/r1"
    folder.mkdir(parents=True)
    record_run(folder)
    others = [{"kind": "message", "text": "<script>"}, {"kind": "mine", "a": 1}, {"kind": 3}]
    lines = "".join(json.dumps(record) + "\n" for record in [*EPOCHS, *others])
    (folder / "metrics.jsonl").write_text(lines)
    (folder / "result.json").write_text(json.dumps({"state": "succeeded", "seconds": 5.0}))
    return railhead.Run("r1")


def html_of(shown: Any) -> str:
    html = shown._repr_html_()
    assert isinstance(html, str)
    return html


def test_a_run_shows_its_state_its_figures_and_its_curves(run: railhead.Run) -> None:
    html = html_of(run)
    for text in ("Run r1", "succeeded", "duration", "5.0 s", "<polyline", str(run.results)):
        assert text in html, text
    assert "<script" not in html
    assert "not recorded here" in html_of(railhead.Run("r2"))


def test_a_report_shows_its_page_in_which_nothing_runs(run: railhead.Run, tmp_path: Path) -> None:
    page = run.report()
    assert page == tmp_path / "results/r1/report.html" and isinstance(page, Path)
    html = html_of(page)
    assert html.startswith('<iframe sandbox=""') and html.count("<") == 2
    assert page.read_text() in unescape(html)
    assert page.parent._repr_html_() is None, "a folder"
    page.unlink()
    assert page._repr_html_() is None


def test_an_endpoint_shows_where_it_is_and_contacts_no_host(home: Path) -> None:
    assert "no endpoint" in html_of(railhead.Endpoint("digits"))
    records.save(Deployed("digits", "lab", "h1", 8501, "r1"))
    html = html_of(railhead.Endpoint("digits"))
    for text in ("Endpoint digits", "h1 of lab", "8501", "r1"):
        assert text in html, text


def test_the_records_of_one_kind(run: railhead.Run) -> None:
    assert run.metrics(kind="epoch") == EPOCHS and len(run.metrics()) == 6
    assert run.metrics(kind="mine") == [{"kind": "mine", "a": 1}]
    assert run.metrics(kind="checkpoint") == []


WRONG: dict[str, Callable[[railhead.Run], object]] = {
    "a number as a run": lambda run: railhead.Run(5),  # type: ignore[arg-type]
    "no run": lambda run: railhead.Run(None),  # type: ignore[arg-type]
    "bytes as a run": lambda run: railhead.Run(b"r1"),  # type: ignore[arg-type]
    "a number to compare with": lambda run: run.report(5),  # type: ignore[arg-type]
    "no kind of record": lambda run: run.metrics(kind="epochs"),
    "a list as a kind": lambda run: run.metrics(kind=["epoch"]),  # type: ignore[arg-type]
    "a number as an order": lambda run: railhead.runs(sort=5),
    "a number as an endpoint": lambda run: railhead.Endpoint(5),  # type: ignore[arg-type]
    "a list as an endpoint": lambda run: railhead.Endpoint(["a"]),  # type: ignore[arg-type]
    "a number as hosts": lambda run: railhead.Cluster(5),  # type: ignore[arg-type]
    "a number as a stack": lambda run: railhead.Cluster.from_stack(5),  # type: ignore[arg-type]
    "text as a switch": lambda run: railhead.Cluster("a", system="no"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_value_of_a_wrong_type_is_a_usage_error(run: railhead.Run, wrong: str) -> None:
    with pytest.raises(railhead.UsageError):
        WRONG[wrong](run)


def test_a_run_may_be_named_by_a_run(run: railhead.Run) -> None:
    assert railhead.Run(run) == run == railhead.Run("r1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("command", "call"),
    [
        (Command("fetch", run="r1"), "railhead.Run('r1').fetch()"),
        (Command("attach"), "run.wait()"),
        (Command("cancel", run="r1"), "railhead.Run('r1').cancel()"),
        (
            Command("evaluate", "r1", script="eval.py"),
            "railhead.Run('r1').evaluate(script='eval.py')",
        ),
        (Command("deploy", run="r1", name="n"), "railhead.Run('r1').deploy(name='n')"),
        (
            Command("deploy", "r1", model="m.keras", here=True, trust_model=True),
            "railhead.Run('r1').deploy(model='m.keras', here=True, trust_model=True)",
        ),
        (Command("undeploy", "digits"), "railhead.Endpoint('digits').delete()"),
        (Command("runs"), "railhead.runs()"),
        (Command("train", resume="r1"), "cluster.train(resume='r1')"),
        (Command("train", max_hours=2), "cluster.train(max_hours=2)"),
        (Command("train", data="train=FOLDER"), "cluster.train(data={'train': 'FOLDER'})"),
        (Command("scale", counts="1,2,4"), "cluster.scale(counts=[1, 2, 4])"),
        (
            Command("sweep", set="learning_rate=0.01,0.001"),
            "cluster.sweep(values={'learning_rate': ['0.01', '0.001']})",
        ),
        (Command("train", hosts="a,b"), "railhead.Cluster('a,b').train()"),
        (Command("teardown", stack="gpu"), "railhead.Cluster.from_stack('gpu').teardown()"),
        # What the interface has not stays a command.
        (Command("teardown", destroy=True, stack="gpu"), "fab teardown --destroy --stack gpu"),
        (Command("logs", run="r1", rank=1), "fab logs --run r1 --rank 1"),
        (Command("fetch", run="r1", to="FOLDER"), "railhead.Run('r1').fetch(to='FOLDER')"),
        (Command("logs", run="r1"), "railhead.Run('r1').logs()"),
        (Command("status"), "cluster.status()"),
        (Command("status", run="r1"), "railhead.Run('r1').status()"),
        (Command("stop", stack="gpu"), "railhead.Cluster.from_stack('gpu').stop()"),
        (Command("exec", cmd="nvidia-smi"), "cluster.exec(cmd='nvidia-smi')"),
    ],
    ids=str,
)
def test_a_hint_names_the_method_that_does_the_same(command: Command, call: str) -> None:
    assert in_python(command) == call


def test_errors_of_methods_and_properties_name_methods(home: Path) -> None:
    for caught in (lambda: railhead.Run("r9").state, lambda: railhead.Run("r9").metrics()):
        with pytest.raises(railhead.UsageError) as error:
            caught()
        assert str(error.value).endswith("next: railhead.runs()")
    with pytest.raises(railhead.UsageError, match=r"next: railhead\.Run\('RUN'\)\.deploy"):
        railhead.Endpoint("a b").signature  # noqa: B018
