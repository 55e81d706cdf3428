"""Runs that another computer started: without a name the newest one is meant."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from standins.runs.run_documents import run_document

from bootstrap.clouds.aws.s3 import open_bucket
from bootstrap.clouds.bucket import Bucket
from bootstrap.runs import elsewhere
from railhead.documents.codec import encode

IDS = ("20261126-090000-abcd", "20261127-090000-0000", "20261126-235959-ffff")
NEWEST = IDS[1]


def test_of_the_runs_in_a_bucket_the_newest_one_is_found(s3: Any) -> None:
    """Beside folders of other kinds; by its name any other one."""
    for run_id in IDS:
        document = replace(run_document(), run_id=run_id)
        key = f"runs/{run_id}/run.json"
        s3.put_object(Bucket="results-b", Key=key, Body=json.dumps(encode(document)))
    s3.put_object(Bucket="results-b", Key="runs/notes/run.json", Body=b"{}")
    bucket = Bucket(open_bucket("results-b", "us-east-1"))
    for wanted, run_id in ((None, NEWEST), (IDS[0], IDS[0])):
        found = elsewhere.in_bucket(bucket, wanted)
        assert found and found.run_id == run_id
        assert found.document and found.document.run_id == run_id


class Host:
    """A host with the folders of some runs."""

    has_agent = False

    def __init__(self, name: str, *run_ids: str, document: str = "") -> None:
        self.host, self.run_ids = type("Named", (), {"name": name}), run_ids
        self.document = document

    def shell(self, command: str) -> tuple[list[str], int]:
        if command == elsewhere.LIST:
            return [*self.run_ids], 0
        return self.document.splitlines(), 0 if self.document else 1


def test_of_the_runs_on_hosts_the_newest_one_is_found() -> None:
    sessions: Any = {"h1": Host("h1", IDS[0], NEWEST), "h2": Host("h2", IDS[2])}
    for wanted, run_id in ((None, NEWEST), (IDS[2], IDS[2])):
        found = elsewhere.on_hosts(sessions, wanted)
        assert found and found.run_id == run_id


def test_the_document_of_another_run_is_none() -> None:
    """Every command would take its hosts for those of the run."""
    found = {}
    for run_id in IDS[:2]:
        document = json.dumps(encode(replace(run_document(), run_id=run_id)), indent=1)
        sessions: Any = {"h1": Host("h1", IDS[0], document=document)}
        there = elsewhere.on_hosts(sessions, None)
        assert there and there.run_id == IDS[0]
        found[run_id] = there.document and there.document.run_id
    assert found == {IDS[0]: IDS[0], IDS[1]: None}
