"""What Google has billed: answers of BigQuery as its description has them, served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

requests = pytest.importorskip("requests", reason="scripts/setup --stacks installs it")
pytest.importorskip("googleapiclient", reason="scripts/setup --dev installs it")

from standins.gcp.discovery import Request, _Body, check, document  # noqa: E402
from standins.gcp.server import Answer, Call, address, error, start  # noqa: E402

from bootstrap.clouds.gcp import bigquery, bill  # noqa: E402
from bootstrap.clouds.gcp.client import GoogleClient  # noqa: E402
from bootstrap.console.wait import Clock  # noqa: E402
from bootstrap.errors import RailheadError, UsageError  # noqa: E402
from bootstrap.host.buckets import repeats  # noqa: E402

SINCE, UNTIL = date(2026, 11, 1), date(2026, 11, 3)
TABLE = "finance-12345.billing.gcp_billing_export_resource_v1_010101_F0FFF0_10X10X"
QUERIES = "/projects/finance-12345/queries"
Cells = tuple[str | None, ...]
C1: Cells = ("c-1", "USD", "1", "1.052", "-0.25")
C1_LATER: Cells = ("c-1", "USD", "1", "0.208", "0")
C2: Cells = ("c-2", "USD", "1", "0.5", "-0.5")


def page(*rows: Cells, total: int | None = None, token: str = "", done: bool = True) -> Answer:
    """An answer; where the query is not done, only its job."""
    job = {"projectId": "finance-12345", "jobId": "job_Ab-1", "location": "europe-west3"}
    answer: dict[str, Any] = {"jobComplete": done, "jobReference": job}
    if done:
        answer["totalRows"] = str(len(rows) if total is None else total)
        answer["rows"] = [{"f": [{"v": value} for value in row]} for row in rows]
        answer["totalBytesProcessed"] = "52428800"
    return 200, answer | ({"pageToken": token} if token else {})


class BigQuery:
    """Its answers in turn. Every request is held to Google's description, and every answer."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.calls: list[tuple[str, dict[str, str], Any]] = []
        self.lines: list[str] = []

    def answer(self, call: Call) -> Answer:
        url = urlsplit(call.target)
        query = dict(parse_qsl(url.query))
        names = dict(zip(("projectId", "jobId"), url.path.split("/")[2::2], strict=False))
        kind = {"POST": "query", "GET": "getQueryResults"}[call.method]
        assert url.path == QUERIES + ("" if kind == "query" else "/job_Ab-1")
        check(Request(f"bigquery.jobs.{kind}", query | names, call.body or {}))
        self.calls.append((call.method, query, call.body))
        status, answer = self.answers.pop(0)
        if status == 200:
            api = document("bigquery")
            schema = {"query": "QueryResponse", "getQueryResults": "GetQueryResultsResponse"}[kind]
            _Body(api, "").check(answer, api.schemas[schema], schema)
        return status, answer

    def billed(self, *answers: Answer) -> dict[str, str]:
        self.answers = [*answers]
        client = GoogleClient(requests.Session())
        by_id = bill.billed(SINCE, UNTIL, self.lines.append, client)
        assert not self.answers
        return {own_id: str(amount) for own_id, amount in by_id.items()}

    def refused(self, *answers: Answer) -> RailheadError:
        with pytest.raises(RailheadError) as caught:
            self.billed(*answers)
        return caught.value


@pytest.fixture
def google(monkeypatch: pytest.MonkeyPatch) -> Iterator[BigQuery]:
    bigquery = BigQuery()
    server = start(bigquery.answer)
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_BIGQUERY", address(server))
    monkeypatch.setenv(bill.VARIABLE, TABLE)
    monkeypatch.setattr(repeats, "sleep", lambda seconds: None)
    yield bigquery
    server.shutdown()
    server.server_close()


def test_the_rows_of_each_stack_are_added_and_its_credits_deducted(google: BigQuery) -> None:
    by_id = google.billed(page(C1, C2, total=3, token="2"), page(C1_LATER, total=3))
    assert by_id == {"c-1": "1.01 USD", "c-2": "0.00 USD"}
    assert any("0.75 USD" in line for line in google.lines)
    assert [(method, query.get("pageToken")) for method, query, _ in google.calls] == [
        ("POST", None),
        ("GET", "2"),
    ]
    assert google.calls[1][1]["location"] == "europe-west3"


def test_the_query_reads_only_some_days_of_the_table_and_has_a_limit(google: BigQuery) -> None:
    """Rows of a day may be in the partition of the day before."""
    google.billed(page(C1))
    body = google.calls[0][2]
    parameters = {
        parameter["name"]: (
            parameter["parameterType"]["type"],
            parameter["parameterValue"]["value"],
        )
        for parameter in body["queryParameters"]
    }
    assert parameters == {
        "arrived": ("TIMESTAMP", "2026-10-31T00:00:00Z"),
        "since": ("TIMESTAMP", "2026-11-01T00:00:00Z"),
        "until": ("TIMESTAMP", "2026-11-04T00:00:00Z"),
        "label": ("STRING", "railhead-id"),
    }
    assert f"FROM `{TABLE}`" in body["query"]
    assert "_PARTITIONTIME >= @arrived" in body["query"]
    assert body["maximumBytesBilled"] == str(16 * 1024**3) and body["useLegacySql"] is False


def test_what_the_query_costs_is_printed_before_it_is_sent(google: BigQuery) -> None:
    """16 GiB at 6.25 USD per TiB."""
    google.refused((403, error(403, "accessDenied")))
    assert len(google.lines) == 1 and "6.25 USD per TiB" in google.lines[0]
    assert "0.10 USD" in google.lines[0]


def test_a_query_that_is_not_done_is_read_again(google: BigQuery) -> None:
    not_done = page(done=False)
    assert google.billed(not_done, not_done, page(C1)) == {"c-1": "0.80 USD"}
    assert [method for method, *_ in google.calls] == ["POST", "GET", "GET"]
    assert "pageToken" not in google.calls[2][1]


def test_a_query_that_never_ends_is_given_up(google: BigQuery) -> None:
    times = iter(range(0, 1000, 60))
    google.answers = [page(done=False)] * 3
    clock = Clock(now=lambda: float(next(times)), sleep=lambda seconds: None)
    query = bill.query_of(TABLE, SINCE, UNTIL)
    with pytest.raises(RailheadError, match="job_Ab-1 is not done"):
        bigquery.rows(query, GoogleClient(requests.Session()), clock)
    assert not google.answers


@pytest.mark.parametrize("second", [(404, error(404, "notFound")), page(total=3)])
def test_a_page_that_is_missing_is_no_smaller_bill(google: BigQuery, second: Answer) -> None:
    google.refused(page(C1, total=3, token="2"), second)
    assert not google.answers


def test_a_query_that_is_throttled_twice_is_billed_once(google: BigQuery) -> None:
    """By its id: a request that is repeated is billed once. Another one has another id."""
    throttled = (403, error(403, "rateLimitExceeded"))
    assert google.billed((429, error(429, "x")), throttled, page(C1)) == {"c-1": "0.80 USD"}
    google.billed(page(C1))
    *ids, other = [body["requestId"] for *_, body in google.calls]
    assert len(ids) == 3 and len({*ids}) == 1 and other not in ids


@pytest.mark.parametrize(
    ("status", "reason", "hint"),
    [
        (403, "accessDenied", "finance-12345 --member user:YOU --role roles/bigquery.jobUser"),
        (403, "accessDenied", "roles/bigquery.dataViewer"),
        (404, "notFound", bill.SET_UP),
        (400, "bytesBilledLimitExceeded", "--since 1d"),
    ],
)
def test_a_refusal_says_what_to_do(google: BigQuery, status: int, reason: str, hint: str) -> None:
    refusal = google.refused((status, error(status, reason, "as Google says it")))
    assert "as Google says it" in refusal.message and hint in refusal.hint


def test_another_refusal_is_shown(google: BigQuery) -> None:
    assert (
        "Syntax error" in google.refused((400, error(400, "invalidQuery", "Syntax error"))).message
    )


@pytest.mark.parametrize(
    "table",
    [
        "",
        "finance-12345.billing",
        "finance-12345.billing.gcp_billing_export_v1",
        "finance-12345.billing.cloud_pricing_export",
        "finance-12345:billing.gcp_billing_export_v1_01",
        f"{TABLE}`; DROP TABLE x; --",
        f"{TABLE}` WHERE true OR '1'='1",
        f"{TABLE}\n",
        f"{TABLE} ",
        f"../x/{TABLE}",
        "finance-12345.bill`ing.gcp_billing_export_v1_01",
        "finance-12345.billing.gcp_billing_export_v1_0é",
    ],
)
def test_only_the_name_of_an_export_becomes_a_part_of_the_query(
    google: BigQuery, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setenv(bill.VARIABLE, table)
    refusal = google.refused()
    assert isinstance(refusal, UsageError) and bill.VARIABLE in refusal.hint
    assert not google.calls and not google.lines


@pytest.mark.parametrize(
    "table",
    [
        "finance-12345.billing.gcp_billing_export_v1_010101_F0FFF0_10X10X",
        "example.com:finance-12345.billing_1.gcp_billing_export_v1_010101_F0FFF0_10X10X",
    ],
)
def test_the_standard_export_and_projects_of_a_domain_are_read(table: str) -> None:
    query = bill.query_of(table, SINCE, UNTIL)
    assert query.project == table.partition(".billing")[0] and f"`{table}`" in query.sql


def test_another_currency_is_shown_with_what_it_is_in_usd(google: BigQuery) -> None:
    """9.20 EUR at 0.92 EUR for a USD, less a USD of credits."""
    euros: Cells = ("c-3", "EUR", "0.92", "9.2", "-0.92")
    assert google.billed(page(euros)) == {"c-3": "9.00 USD"}
    assert any("8.28 EUR, 9.00 USD" in line for line in google.lines)
    assert any("credits" in line and "1.00 USD" in line for line in google.lines)


def test_each_of_two_currencies_is_converted_at_its_own_rates(google: BigQuery) -> None:
    rows: list[Cells] = [
        ("c-3", "EUR", "0.92", "9.2", "0"),
        ("c-3", "EUR", "0.8", "8", "0"),
        ("c-3", "JPY", "150", "300", "0"),
        C1,
    ]
    assert google.billed(page(*rows)) == {"c-3": "22.00 USD", "c-1": "0.80 USD"}
    shown = [line.partition(": ")[2].split(" at ")[0] for line in google.lines[1:3]]
    assert shown == ["17.20 EUR, 20.00 USD", "300.00 JPY, 2.00 USD"]


def test_an_export_without_our_label_has_no_figures(google: BigQuery) -> None:
    assert google.billed(page()) == {} and "railhead-id" in google.lines[-1]


@pytest.mark.parametrize(
    "row",
    [
        ("c-1", "EUR", None, "1", "0"),
        ("c-1", "EUR", "0", "1", "0"),
        ("c-1", "EUR", "0.000", "1", "0"),
        ("c-1", "EUR", "-1", "1", "0"),
        ("c-1", "euros", "1", "1", "0"),
        ("c-1", None, "1", "1", "0"),
        ("c-1", "USD", "1", "NaN", "0"),
        ("c-1", "USD", "1", "1e9", "0"),
        ("c-1", "USD", "1", None, "0"),
        ("c-1", "USD", "1", "1", "-Infinity"),
        ("c-1", "USD", "1", "1"),
        (None, "USD", "1", "1", "0"),
        (),
    ],
)
def test_a_row_without_an_amount_in_usd_is_refused(google: BigQuery, row: Cells) -> None:
    assert "a row of Google's export" in google.refused(page(C1, row)).message


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 1},
        {"totalRows": "-1"},
        {"totalRows": "1" * 5000},
        {"jobReference": {"jobId": "../../x", "projectId": "p"}},
        {"rows": [{"f": [{"v": {"f": []}}]}]},
    ],
)
def test_an_answer_of_another_form_is_refused(change: dict[str, Any]) -> None:
    answer: Callable[..., Any] = lambda *_, **__: page(C1)[1] | change  # noqa: E731
    with pytest.raises(RailheadError, match="BigQuery's answer"):
        bigquery.rows(bill.query_of(TABLE, SINCE, UNTIL), answer)  # type: ignore[arg-type]
