"""A query of BigQuery, whose rows are read to their end."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from railhead.documents.codec import decode, key
from railhead.documents.lazy import dataclass

from ...console.wait import Clock, wait_until
from ...errors import RailheadError
from ..machines import MOST_PAGES
from .client import GoogleClient, endpoint

NAME = r"[A-Za-z0-9_-]{0,1024}"
LONGEST = 120.0  # seconds of a query
AGAIN = "the same command again"
ANSWERED = 10_000  # milliseconds after which BigQuery answers, even if the query is not done


@dataclass(frozen=True)
class Job:
    """What carries out a query. Outside the US and the EU it is found only in its location."""

    jobId: str = key("", pattern=NAME)
    location: str = key("", pattern=NAME)


@dataclass(frozen=True)
class Page:
    """An answer of jobs.query and of jobs.getQueryResults. Before the query is done, it has no
    rows."""

    jobReference: Job = Job()
    jobComplete: bool = False
    totalRows: str = key("0", pattern=r"[0-9]{1,18}")
    rows: tuple[tuple[str | None, ...], ...] = key((), path="f.v")  # values; none for NULL
    pageToken: str = ""


@dataclass(frozen=True)
class Parameter:
    """A value in a query: STRING, TIMESTAMP."""

    type: str
    value: str


@dataclass(frozen=True)
class Query:
    """A query. `project` pays; above `most_bytes` nothing is read, and nothing is billed."""

    project: str
    sql: str
    parameters: Mapping[str, Parameter]
    most_bytes: int

    def body(self) -> dict[str, object]:
        """The body for jobs.query. Its id makes a repeated request run only once."""
        return {
            "query": self.sql,
            "useLegacySql": False,
            "parameterMode": "NAMED",
            "queryParameters": [
                {
                    "name": name,
                    "parameterType": {"type": parameter.type},
                    "parameterValue": {"value": parameter.value},
                }
                for name, parameter in self.parameters.items()
            ],
            "maximumBytesBilled": str(self.most_bytes),
            "timeoutMs": ANSWERED,
            "requestId": str(uuid.uuid4()),
        }


def rows(
    query: Query, client: GoogleClient, clock: Clock | None = None
) -> list[tuple[str | None, ...]]:
    """The rows of a query, each as its values. RailheadError: BigQuery does not answer, refuses,
    takes too long, or rows are missing."""
    address = f"{endpoint('bigquery')}projects/{query.project}/queries"
    answer = client("POST", address, json=query.body())
    first = decode(Page, answer, what="BigQuery's answer", error=RailheadError)
    job = first.jobReference

    def done(token: str) -> Page | None:
        params = {"timeoutMs": f"{ANSWERED}", "location": job.location, "pageToken": token}
        named = {name: value for name, value in params.items() if value}
        page = client.get(Page, f"{address}/{job.jobId}", params=named)
        return page if page.jobComplete else None

    def read(token: str) -> Page:
        page = wait_until(lambda: done(token), seconds=LONGEST, every=1.0, clock=clock)
        if page is None:
            raise RailheadError(
                f"BigQuery's job {job.jobId} is not done after {LONGEST:.0f} s", hint=AGAIN
            )
        return page

    page = first if first.jobComplete else read("")
    rows, expected = [*page.rows], int(page.totalRows)
    for _ in range(MOST_PAGES):
        if not page.pageToken:
            break
        page = read(page.pageToken)
        rows += page.rows
    if len(rows) != expected:
        raise RailheadError(
            f"BigQuery's answer has {expected} rows, and {len(rows)} came", hint=AGAIN
        )
    return rows
