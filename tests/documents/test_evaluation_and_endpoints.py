"""Documents of evaluations, sweeps and endpoints, as earlier versions wrote them."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import pytest
from places import CASES, ROOT

from railhead.documents.codec import Malformed, decode, encode
from railhead.documents.runs.evaluation import (
    ClassFigures,
    Evaluation,
    Judgement,
    Mistake,
    Reported,
    Threshold,
)
from railhead.documents.runs.records import Record
from railhead.documents.runs.sweep import SweepDocument
from railhead.documents.serving.endpoint import (
    Deployed,
    EndpointDocument,
    EndpointState,
    Health,
    ServingStatus,
)

DOCUMENTS: dict[str, type[Any]] = {
    "deployed": Deployed, "endpoint": EndpointDocument, "endpoint-notebook": EndpointDocument,
    "endpoint-state": EndpointState, "sweep": SweepDocument,
}  # fmt: skip


def kept(name: str) -> Any:
    return json.loads((CASES / f"documents/{name}.json").read_text())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_is_read_is_written_again(name: str) -> None:
    written = encode(decode(DOCUMENTS[name], kept(name)))
    assert kept(name).items() <= written.items()


def test_the_judgement_of_the_thresholds_replaces_that_of_the_program() -> None:
    """A script may say that it passed; its own values come before those of others."""
    reported = Reported({"passed": True, "failed": [], "accuracy": 0.5, "threshold": 0.4})
    limit = Threshold("accuracy", "min", 0.9)
    judged = reported.after({"accuracy": 0.6, "mae": 1.0}).judged(
        Judgement((limit,), ("accuracy 0.5 < 0.9",), False)
    )
    evaluation = judged.read()
    assert evaluation.passed is False and evaluation.thresholds == (limit,)
    assert len(evaluation.failed) == 1
    assert evaluation.figures == {"accuracy": 0.5, "mae": 1.0}


def test_an_evaluation_is_read() -> None:
    evaluation = decode(Evaluation, kept("evaluation"))
    assert evaluation.figures == {
        "accuracy": 0.75, "loss": 0.3, "epoch": 3.0, "precision": 0.75, "recall": 0.7,
    }  # fmt: skip
    assert (evaluation.samples, evaluation.split, evaluation.threshold) == (4.0, "test", 0.9)
    assert evaluation.confusion == ((1.0, 1.0), (0.0, 2.0)) and evaluation.classes == ("3", "8")
    assert evaluation.per_class == (ClassFigures("3", 2.0, 1.0, 0.5, None),)
    assert evaluation.worst == (Mistake("worst/1.png", "3", "8", 4.0),)
    assert evaluation.thresholds == (Threshold("loss", "max", 0.2),)
    assert (evaluation.passed, len(evaluation.failed)) == (False, 1)


@pytest.mark.parametrize("value", [None, 5, "x", {}, [None], [[None]], [{"metric": 1}], 10**400])
def test_what_a_script_writes_under_our_names_is_never_refused(value: Any) -> None:
    for kind in (Evaluation, Record):
        names = [field.name for field in fields(kind)]
        assert decode(kind, dict.fromkeys(names, value))


def test_what_does_not_fit_is_left_out_and_what_follows_is_read() -> None:
    limit = {"metric": "loss", "bound": "max", "value": 0.2}
    values = {"thresholds": [{"metric": 1}, limit], "samples": True, "passed": 1}
    evaluation = decode(Evaluation, values)
    assert evaluation.thresholds == (Threshold("loss", "max", 0.2),)
    assert (evaluation.samples, evaluation.passed) == (None, None)
    assert decode(Record, {"rank": True}).rank is None, "true is not rank 1"


def test_an_endpoint_on_a_port_that_no_host_has_is_refused() -> None:
    for port in (0, 65_536, None):
        with pytest.raises(Malformed, match="port"):
            decode(EndpointDocument, {**kept("endpoint"), "port": port})
        with pytest.raises(Malformed, match="port"):
            decode(Deployed, {**kept("deployed"), "port": port})


def test_the_highest_version_that_serves_is_the_one_of_the_endpoint() -> None:
    ready = [{"version": version, "state": "AVAILABLE"} for version in ("9", "10")]
    ended = {"version": "11", "state": "END", "status": {"error_message": "no such op"}}
    for listed in ([*ready, ended], [ended, *ready[::-1]]):
        status = decode(ServingStatus, {"model_version_status": listed})
        assert status.health() == Health(10, failed={"11": "no such op"})
    assert decode(ServingStatus, {"model_version_status": [ended]}).health() is None


def test_an_endpoint_whose_time_is_not_a_number_is_refused() -> None:
    for until in ("soon", None, True, 1e16, float("nan")):
        with pytest.raises(Malformed, match="until"):
            decode(EndpointDocument, {**kept("endpoint"), "until": until})


@pytest.mark.parametrize(
    ("page", "heading", "kind"),
    [
        ("tasks-results.md", "### Thresholds", Evaluation),
        ("architecture.md", "## The records", Record),
    ],
)
def test_the_keys_are_described(page: str, heading: str, kind: type[Any]) -> None:
    text = (ROOT / "docs" / page).read_text().partition(f"\n{heading}\n")[2]
    words = set(re.findall(r"`(\w+)`", text.partition("\n## ")[0]))
    assert {field.name for field in fields(kind)} - {"metrics", "figures"} <= words
