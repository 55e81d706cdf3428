"""What AWS has billed: answers as its model has them, by botocore's Stubber."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

pytest.importorskip("boto3", reason="scripts/setup --stacks installs it")

from botocore.stub import ANY, Stubber  # noqa: E402

from bootstrap.clouds.aws import bill  # noqa: E402
from bootstrap.clouds.aws import client as aws  # noqa: E402
from bootstrap.errors import RailheadError  # noqa: E402
from bootstrap.host.buckets.s3 import boto_client  # noqa: E402

SINCE, UNTIL = date(2026, 11, 1), date(2026, 11, 3)


class Explorer:
    """A stubbed client of Cost Explorer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "x")
        self.client = boto_client("ce", "us-east-1")
        self.stub = Stubber(self.client)
        self.stub.activate()

    def call(self, service: str, operation: str, **parameters: Any) -> Any:
        return aws._call(lambda name: self.client, service, operation, parameters)

    def page(
        self, *groups: tuple[str, str], unit: str = "USD", more: str = "", next_: str = ""
    ) -> None:
        query = {
            "TimePeriod": {"Start": "2026-11-01", "End": "2026-11-04"},
            "Granularity": "DAILY",
            "Metrics": ["UnblendedCost"],
            "GroupBy": [{"Type": "TAG", "Key": "railhead:id"}],
            "Filter": ANY,
            **({"NextPageToken": more} if more else {}),
        }
        billed = [
            {
                "Keys": [f"railhead:id${key}"],
                "Metrics": {"UnblendedCost": {"Amount": usd, "Unit": unit}},
            }
            for key, usd in groups
        ]
        span = {"TimePeriod": {"Start": "2026-11-01", "End": "2026-11-02"}, "Groups": billed}
        answer = {"ResultsByTime": [span], **({"NextPageToken": next_} if next_ else {})}
        self.stub.add_response("get_cost_and_usage", answer, query)

    def billed(self) -> dict[str, str]:
        self.lines: list[str] = []
        by_id = bill.billed(SINCE, UNTIL, self.lines.append, self.call)
        return {key: str(usd) for key, usd in by_id.items()}


@pytest.fixture
def explorer(monkeypatch: pytest.MonkeyPatch) -> Explorer:
    return Explorer(monkeypatch)


def test_the_days_and_pages_of_each_stack_are_added(explorer: Explorer) -> None:
    explorer.page(("c-1", "1.052"), ("c-2", "0.5"), next_="2")
    explorer.page(("c-1", "0.2080000001"), more="2")
    assert explorer.billed() == {"c-1": "1.26 USD", "c-2": "0.50 USD"}
    assert len(explorer.lines) == 1 and "0.01 USD" in explorer.lines[0]


def test_nothing_is_billed_before_the_tag_is_active(explorer: Explorer) -> None:
    explorer.page()
    assert explorer.billed() == {} and "railhead:id" in explorer.lines[-1]


@pytest.mark.parametrize("code", ["DataUnavailableException", "AccessDeniedException"])
def test_a_refusal_is_shown(explorer: Explorer, code: str) -> None:
    explorer.stub.add_client_error("get_cost_and_usage", code)
    with pytest.raises(RailheadError, match=code):
        explorer.billed()


def test_a_page_that_is_missing_is_no_smaller_bill(explorer: Explorer) -> None:
    explorer.page(("c-1", "1.052"), next_="2")
    explorer.stub.add_client_error("get_cost_and_usage", "InvalidNextTokenException")
    with pytest.raises(RailheadError, match="InvalidNextToken"):
        explorer.billed()


def test_another_currency_is_refused(explorer: Explorer) -> None:
    explorer.page(("c-1", "1.052"), unit="EUR")
    with pytest.raises(RailheadError, match="AWS bills in 'EUR'"):
        explorer.billed()
