"""A standby whose requests fail while it takes a run over, before a real S3 server."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_json
from standins.stores.object_stores import S3

from bootstrap.remote.takeover import held, lease
from bootstrap.remote.takeover import standby as program
from bootstrap.remote.takeover.holder import SILENCE
from bootstrap.remote.takeover.standby import Standby
from bootstrap.remote.takeover.terms import Terms
from railhead.documents.codec import decode
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.takeover import Claim, Term


class Broken:
    """A store whose next requests fail; one that creates an object has arrived before."""

    def __init__(self, objects: Any, failures: int) -> None:
        self.objects, self.failures = objects, failures

    def __getattr__(self, name: str) -> Any:
        request = getattr(self.objects, name)

        def fail(*given: Any, **named: Any) -> Any:
            answer = request(*given, **named)
            self.failures -= 1
            if self.failures >= 0:
                raise ConnectionError("no answer")
            return answer

        return fail


@pytest.fixture
def standby(s3_store: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Standby:
    """The standby of a run whose chief is silent."""
    for name, value in s3_store.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(program, "RUN", str(tmp_path))
    monkeypatch.setattr(lease, "RENEW", 0.01)
    bucket = f"standbys-{tmp_path.name.replace('_', '-')[-40:].lower()}"
    s3_store.make_bucket(bucket)
    hosts = [{"name": "b"}, {"name": "a"}]
    run = run_json(hosts=hosts, bucket={"url": f"s3://{bucket}", "client": "client"})
    return Standby(decode(RunDocument, run), {})


@pytest.mark.parametrize("failures", [0, 1, 2, 3])
def test_requests_that_fail_do_not_end_a_takeover(standby: Standby, failures: int) -> None:
    """Each of the first two may be the one that created the term."""
    bucket = standby.bucket
    standby.terms = Terms(replace(bucket, objects=Broken(bucket.objects, failures)))
    term = standby.insist(standby.begin_term)
    assert term and Terms(bucket).chief(2) == Claim("b", term.mark)
    assert held.term_of(program.RUN) == term and held.is_held(program.RUN)


def test_a_disk_that_is_full_for_a_while_does_not_end_a_takeover(standby: Standby) -> None:
    part = Path(program.RUN, "term.json.part")
    part.mkdir()  # the term cannot be written
    tries: list[int] = []

    def begin() -> object:
        if tries:
            part.rmdir()
        tries.append(1)
        return standby.begin_term()

    assert standby.insist(begin) and len(tries) == 2


def test_a_standby_that_is_too_late_leaves(standby: Standby) -> None:
    assert Terms(standby.bucket).close(Term(1, "a", "mark-1"))
    assert standby.insist(standby.begin_term) is None
    assert held.term_of(program.RUN) is None


def test_beats_of_a_standby_do_not_wait_for_its_restore(standby: Standby) -> None:
    """A dead connection must not cost them: they have a client of their own, with short waits."""
    term = standby.begin_term()
    assert term
    beats: Any = standby.holder(term).terms.bucket.objects
    client = inspect.getclosurevars(beats.client).nonlocals["client"]
    assert client.meta.config.read_timeout == SILENCE
