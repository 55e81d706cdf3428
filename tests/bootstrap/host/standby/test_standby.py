"""A standby whose requests fail while it takes a run over, before a real S3 server."""

from __future__ import annotations

import errno
import io
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins import programs
from standins.runs.run_documents import run_json
from standins.stores.object_stores import S3

from bootstrap.host.attempts.run_state import State
from bootstrap.host.base import full_disk, json_file
from bootstrap.host.base import programs as archive
from bootstrap.host.lease.terms import Terms, claim_of
from bootstrap.host.run import held, lease
from bootstrap.host.standby import standby as program
from bootstrap.host.standby.standby import Standby
from railhead.documents.codec import decode
from railhead.documents.runs.result import Attempt, Culprit
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.takeover import Beat, Claim, Taken, Term


class Broken:
    """A store whose next requests fail; one that creates an object has arrived before."""

    def __init__(self, objects: Any, failures: int) -> None:
        self.objects, self.failures = objects, failures

    def __getattr__(self, name: str) -> Any:
        request = getattr(self.objects, name)

        def fail(*args: Any, **named: Any) -> Any:
            answer = request(*args, **named)
            self.failures -= 1
            if self.failures >= 0:
                raise ConnectionError("no answer")
            return answer

        return fail


class Full(io.StringIO):
    """A log on a disk that is full."""

    def flush(self) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def standby(s3_store: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standby:
    """The standby of a run whose chief is silent."""
    for name, value in s3_store.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(program, "RUN", str(tmp_path))
    monkeypatch.setattr(archive, "ARCHIVE", str(programs.place(tmp_path)))
    monkeypatch.setattr(lease, "RENEW", 0.01)
    bucket = f"standbys-{tmp_path.name.replace('_', '-')[-40:].lower()}"
    s3_store.make_bucket(bucket)
    hosts = [{"name": "b"}, {"name": "a"}]
    run = run_json(hosts=hosts, takeover=True, bucket={"url": f"s3://{bucket}", "client": "client"})
    return Standby(decode(RunDocument, run), {})


@pytest.mark.parametrize("failures", [0, 1, 2, 3])
def test_requests_that_fail_do_not_end_a_takeover(standby: Standby, failures: int) -> None:
    """Each of the first two may be the one that created the term."""
    bucket = standby.bucket
    standby.terms = Terms(replace(bucket, objects=Broken(bucket.objects, failures)))
    term = standby.insist(standby.begin_term)
    assert term and Terms(bucket).chief(2) == Claim("b", term.mark)
    assert held.term_of(program.RUN) == term and held.is_held(program.RUN)


def test_a_disk_that_is_full_for_a_while_does_not_end_a_takeover(
    standby: Standby, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the log nor the term can be written."""
    monkeypatch.setattr(sys, "stdout", Full())
    partial = Path(program.RUN, "term.json.part")
    partial.mkdir()  # the term cannot be written
    tries: list[int] = []

    def begin() -> object:
        if tries:
            partial.rmdir()
        tries.append(1)
        return standby.begin_term()

    assert standby.insist(begin) and len(tries) == 2


@pytest.mark.parametrize(("has_ended", "step"), [(False, "claim"), (True, "end")])
def test_a_chief_that_is_lost_when_the_time_of_its_run_is_over_has_a_successor(
    standby: Standby, monkeypatch: pytest.MonkeyPatch, has_ended: bool, step: str
) -> None:
    """Nobody else would stop the machines."""
    monkeypatch.setattr(lease, "EXPIRED", 0.05)
    standby.run = replace(standby.run, max_hours=0.0)
    first = Term(1, "a", "mark-1")
    assert standby.terms.claim(1, claim_of(first))
    assert not has_ended or standby.terms.close(first)
    assert standby.watch_until_it_ends() == step


@pytest.mark.parametrize("is_away", [True, False])
def test_why_a_chief_counts_as_lost_says_whether_the_bucket_was_away(
    standby: Standby, monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    """Away after the last beat; an error before that is not why."""
    monkeypatch.setattr(lease, "EXPIRED", 0.05)
    first = Term(1, "a", "mark-1")
    assert standby.terms.claim(1, claim_of(first))
    standby.failed = "OSError: long ago"
    standby.terms.write_beat(1, Beat(1, 1.0))
    look, looks = standby.watch.look, list[int]()

    def fails_once(now: float) -> None:
        looks.append(1)
        if is_away and len(looks) == 2:
            raise ConnectionError("the bucket is away")
        look(now)

    monkeypatch.setattr(standby.watch, "look", fails_once)
    assert standby.watch_until_it_ends() == "claim"
    assert "no sign of life" in standby.seen() and "long ago" not in standby.seen()
    assert ("the bucket is away" in standby.seen()) is is_away


def test_a_standby_that_is_too_late_leaves(standby: Standby) -> None:
    assert Terms(standby.bucket).close(Term(1, "a", "mark-1"))
    assert standby.insist(standby.begin_term) is None
    assert held.term_of(program.RUN) is None


def program_of_restore(run: Standby, home: Path, script: str) -> None:
    """What runs in place of the Python that restores a run; `run` has begun the last term."""
    for name in ("run.json", "whole.json"):
        json_file.save(f"{program.RUN}/{name}", run.run)
    python = home / ".railhead/envs/client/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)


@pytest.mark.parametrize(
    ("hours", "script", "why"),
    [
        (1, "echo Traceback >&2; echo OSError: full >&2; exit 1", "restored: OSError: full"),
        (1 / 3600, "sleep 600", "not finished within "),
        (0, "sleep 600", "not finished within 0 s"),
        (1, 'exec {python} "$@"', ""),
    ],
)
def test_a_restore_takes_no_longer_than_the_run_and_its_supervisor_ends_the_run(
    standby: Standby, home: Path, hours: float, script: str, why: str
) -> None:
    standby.run = replace(standby.run, max_hours=hours)
    program_of_restore(standby, home, script.format(python=sys.executable))
    folder = Path(program.RUN)
    (folder / "restored").mkdir()
    term = standby.insist(standby.begin_term)
    assert term
    outcome = standby.restored(term)
    assert why in outcome and bool(outcome) == bool(why)
    assert not (folder / "restored").exists()
    assert standby.insist(lambda: standby.write_files(outcome, term))
    taken = json_file.read(str(folder / "takeover.json"), Taken)
    assert replace(taken, seen="") == Taken("a", outcome) and "no sign of life" in taken.seen
    for name in ("run.json", "whole.json"):
        assert not json_file.read(str(folder / name), RunDocument).takeover


def test_the_successor_goes_on_with_the_last_attempts_keras_and_the_time_of_the_run(
    standby: Standby, home: Path
) -> None:
    """The document of all hosts is of the start; the last beat is some time ago."""
    program_of_restore(standby, home, "exit 0")
    json_file.save(f"{program.RUN}/run.json", replace(standby.run, keras=2, keras_auto=False))
    json_file.save(f"{program.RUN}/whole.json", replace(standby.run, keras=3, keras_auto=True))
    standby.watch.beat, standby.watch.seen = Beat(1, 100.0), held.now() - 50
    term = standby.begin_term()
    assert term and standby.write_files("", term)
    for name in ("run.json", "whole.json"):
        written = json_file.read(f"{program.RUN}/{name}", RunDocument)
        assert (written.keras, written.keras_auto) == (2, False)
    for seconds in (term.seconds, json_file.read(f"{program.RUN}/term.json", Term).seconds):
        assert 150 <= seconds < 200


def test_the_attempts_of_the_lost_chief_are_those_of_its_last_beat(standby: Standby) -> None:
    """They count as retries, and the run began on that chief."""
    attempts = (Attempt(3, Culprit(None, "a", ()), 5.0, kind="retry"),)
    standby.watch.beat = Beat(7, 100.0, "2026-11-22T10:22:43Z", attempts)
    term = standby.begin_term()
    assert term and (term.started, term.attempts) == ("2026-11-22T10:22:43Z", attempts)


def test_a_standby_frees_its_reserved_space_to_begin_its_term(standby: Standby) -> None:
    full_disk.reserve(program.RUN)
    reserve = Path(program.RUN, "reserve")
    assert reserve.exists()
    assert standby.begin_term() and not reserve.exists()


def test_the_run_has_lasted_as_long_as_on_the_chief_that_was_lost(tmp_path: Path) -> None:
    """Its time-limit, its cost and its result count both."""
    started = "2026-11-22T10:22:43Z"
    held.begin(str(tmp_path), Term(2, "h2", "mark", seconds=3600.0, started=started), held.now())
    state = State(str(tmp_path))
    assert 3600.0 < state.run_seconds < 7000.0 and state.document.started == started


def test_attempts_before_a_takeover_are_kept_and_count_as_retries(tmp_path: Path) -> None:
    """A start with the other Keras is no retry."""
    culprit = Culprit(0, "h1", ())
    attempts = tuple(Attempt(3, culprit, 5.0, kind=kind) for kind in ("keras", "retry", "retry"))
    held.begin(str(tmp_path), Term(2, "h2", "mark", attempts=attempts), held.now())
    restarts = State(str(tmp_path)).restarts
    assert (restarts.attempts, restarts.tried) == (attempts, 2)
