"""When machines stop: results first, in every order of events; as a table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.host.run.stop_policy import (
    Situation,
    cut_off,
    decide,
    is_over,
    kept_until,
    results,
    stops,
)
from railhead.documents.runs.run import RunBucket, RunHost, Stop

STOP, NONE = ("stop", None), ("none", None)
KEPT = ("keep", 1000.0 + 20 * 60)
OK, BAD, CANCELLED = "succeeded", "failed", "cancelled"

TABLE: dict[str, tuple[int | None, dict[str, Any], tuple[str, float | None]]] = {
    "a success nobody watched": (20, {"state": OK}, STOP),
    "a success that was fetched": (20, {"state": OK, "fetched": True, "attached": 1000}, STOP),
    "a controller is there": (20, {"state": OK, "attached": 1000}, ("wait", 1040)),
    "its connection broke a moment ago": (20, {"state": OK, "attached": 970}, ("wait", 1010)),
    "it has not come back": (20, {"state": OK, "attached": 960}, STOP),
    "it left long ago": (20, {"state": OK, "attached": 1}, STOP),
    "its fetch takes for ever": (20, {"state": OK, "attached": 2799, "now": 2799}, ("wait", 2800)),
    "its fetch took too long": (20, {"state": OK, "attached": 2800, "now": 2800}, STOP),
    "a failure": (20, {"state": BAD}, KEPT),
    "a cancel": (20, {"state": CANCELLED}, KEPT),
    "a failure, and all is fetched": (20, {"state": BAD, "fetched": True}, KEPT),
    "a failure just before its time": (20, {"state": BAD, "now": 2199.9}, KEPT),
    "a failure when its time is over": (20, {"state": BAD, "now": 2200}, STOP),
    "a failure that is not kept": (0, {"state": BAD}, STOP),
    "a failure that is not kept, watched": (0, {"state": BAD, "attached": 1000}, ("wait", 1040)),
    "no stop, by choice": (None, {"state": OK}, NONE),
    "no stop after a failure": (None, {"state": BAD}, NONE),
    "a later run": (20, {"state": OK, "successor": "r2"}, NONE),
    "a later run while it is kept": (20, {"state": BAD, "successor": "r2"}, NONE),
}


@pytest.mark.parametrize("keep, seen, step", TABLE.values(), ids=TABLE)
def test_the_next_step(
    keep: int | None, seen: dict[str, Any], step: tuple[str, float | None]
) -> None:
    action = decide(keep, Situation(**{"now": 1000.0, "ended": 1000.0, **seen}))
    assert (action.kind, action.until) == step


@pytest.mark.parametrize("state", [OK, BAD, CANCELLED])
@pytest.mark.parametrize("attached", [None, 1000.0])
def test_whatever_is_seen_machines_stop_in_the_end(state: str, attached: float | None) -> None:
    """A controller that stays for ever and never fetches does not keep them running."""
    now = 1000.0
    for _ in range(20000):
        here = attached and now
        step = decide(20, Situation(now=now, ended=1000.0, state=state, attached=here))
        if step.kind == "stop":
            assert now <= 1000 + 1801
            return
        now += 1
    raise AssertionError("it never stops")


def test_until_when_machines_are_kept() -> None:
    assert kept_until(20, Situation(1000, 1000, BAD)) == 2200
    assert kept_until(20, Situation(1000, 1000, OK)) is None
    assert kept_until(None, Situation(1000, 1000, BAD)) is None


RUN = run_document(
    hosts=tuple(RunHost(name, "10.0.0.1", None, 1) for name in ("h1", "h2", "h3")),
    stop=Stop((("off", "1"), None, ("off", "3")), 7),
    bucket=RunBucket("s3://b", "d"),
    max_hours=0.5,
)


def test_where_the_results_are() -> None:
    assert results(RUN, uploaded=False, fetched=False) == "only on h1"
    assert results(RUN, uploaded=True, fetched=False) == "in s3://b/runs/r1"
    assert results(RUN, uploaded=False, fetched=True) == "fetched"
    partly = "partly fetched; files left on h1: 3"
    assert results(RUN, uploaded=False, fetched=True, unfetched=3) == partly


def test_the_chief_stops_last() -> None:
    assert stops(RUN) == [
        ("h2", "railhead-2", None),
        ("h3", "railhead-3", ("off", "3")),
        ("h1", "railhead-1", ("off", "1")),
    ]


def test_a_run_is_over_when_its_hours_are() -> None:
    assert (is_over(RUN, 1800), is_over(RUN, 1801)) == (False, True)
    assert is_over(run_document(max_hours=10.0), 36001)
    assert not is_over(run_document(), 1e9)


GOING = [
    "Connection to 10.0.0.1 closed by remote host.",
    "Read from remote host 10.0.0.1: Connection reset by peer",
    "client_loop: send disconnect: Broken pipe",
    "kex_exchange_identification: Connection closed by 10.0.0.1 port 22",
]


@pytest.mark.parametrize("text", GOING)
def test_the_text_of_a_machine_that_goes(text: str) -> None:
    assert cut_off(text)
    assert not cut_off("Host key verification failed.")


def test_each_host_of_a_run_has_its_command() -> None:
    with pytest.raises(ValueError):
        stops(replace(RUN, stop=Stop((("off",),), 7)))
