"""What AWS has billed by the tag of a stack's id: Cost Explorer, at 0.01 USD for each page.

The tag has figures from about a day after somebody has activated it for cost allocation; those of
the last day are not complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from itertools import chain

from railhead.documents.lazy import dataclass
from railhead.money.amount import Amount

from ...console.output import Reporter
from ...errors import RailheadError
from .client import AwsClient, connect, items
from .kinds import ID
from .prices import LISTED_IN, number

METRIC = "UnblendedCost"
PAGE_USD = Decimal("0.01")


@dataclass(frozen=True)
class Figure:
    """An amount, as a text, and its currency."""

    Amount: str
    Unit: str


@dataclass(frozen=True)
class Group:
    """The figures of one value of the tag; its key is `railhead:id$VALUE`."""

    Keys: tuple[str, ...]
    Metrics: Mapping[str, Figure]


def billed(
    since: date, until: date, report: Reporter, client: AwsClient | None = None
) -> dict[str, Amount]:
    """What was billed from one day to another, both included, by the ids of stacks. `report` gets
    the price of the request, and remarks about the answer. RailheadError: AWS does not answer,
    refuses, or bills in another currency."""
    report(f"each page of its answer costs {PAGE_USD} USD")
    client = client or connect(LISTED_IN)
    spans = items(
        tuple[Group, ...],
        client,
        "ce",
        "get_cost_and_usage",
        "ResultsByTime.Groups",
        "NextPageToken",
        TimePeriod={"Start": f"{since}", "End": f"{until + timedelta(days=1)}"},
        Granularity="DAILY",
        Metrics=[METRIC],
        GroupBy=[{"Type": "TAG", "Key": ID}],
        Filter={"Not": {"Tags": {"Key": ID, "MatchOptions": ["ABSENT"]}}},
    )
    by_id: dict[str, Amount] = {}
    for group in chain.from_iterable(spans):
        stack_id = group.Keys[0].partition("$")[2]
        by_id[stack_id] = by_id.get(stack_id, Amount()) + _amount(group.Metrics[METRIC])
    if not by_id:
        report(f"the tag {ID} is not active for cost allocation, or not for a day")
    return by_id


def _amount(figure: Figure) -> Amount:
    if figure.Unit != "USD":
        raise RailheadError(
            f"AWS bills in {figure.Unit[:8]!r}, and costs are compared in USD",
            hint="the same command without --bill",
        )
    return Amount.of(number(figure.Amount, METRIC))
