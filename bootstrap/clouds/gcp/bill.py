"""What Google has billed by the label of a stack's id: the billing export in BigQuery.

Only its owner knows the table: it belongs to a billing account, has no rows from before it was set
up, and outlives stacks. So the user names it in a variable, and needs the right to read it. Rows
arrive hours late, up to a day. Credits, such as free tiers, are separate from the cost of a row.

The table is partitioned by the day on which rows arrive, in a time zone west of UTC.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal

from railhead.documents.codec import decode, key
from railhead.documents.lazy import dataclass
from railhead.money.amount import Amount

from ...console.output import Reporter
from ...errors import Command, RailheadError, UsageError
from ..base import Refused
from .bigquery import Parameter, Query, rows
from .client import GoogleClient, connect
from .labels import ID

VARIABLE = "RAILHEAD_BILLING_TABLE"
FORM = "PROJECT.DATASET.gcp_billing_export_v1_ACCOUNT"
TABLE = re.compile(
    r"(?P<project>(?:[a-z0-9.-]{1,100}:)?[a-z][a-z0-9-]{4,28}[a-z0-9])"
    r"\.(?P<dataset>[A-Za-z0-9_]{1,1024})"
    r"\.gcp_billing_export_(?:resource_)?v1_[A-Za-z0-9_]{1,100}"
)
SET_UP = "https://cloud.google.com/billing/docs/how-to/export-data-bigquery-setup"
MOST_BYTES = 16 << 30  # of the columns and the days that are read
USD_PER_TIB = Decimal("6.25")
MOST_USD = Amount.of(USD_PER_TIB * MOST_BYTES / (1 << 40))
NUMBER = r"[0-9]{1,29}(?:\.[0-9]{1,9})?"  # a NUMERIC of BigQuery, as a text
COLUMNS = ("stack_id", "currency", "rate", "cost", "credits")
SQL = """\
SELECT label.value, currency,
  IF(currency = 'USD', 1, CAST(currency_conversion_rate AS NUMERIC)),
  SUM(CAST(cost AS NUMERIC)),
  SUM(IFNULL((SELECT SUM(CAST(credit.amount AS NUMERIC)) FROM UNNEST(credits) AS credit), 0))
FROM `{table}`, UNNEST(labels) AS label
WHERE _PARTITIONTIME >= @arrived
  AND usage_start_time >= @since AND usage_start_time < @until
  AND label.key = @label
GROUP BY 1, 2, 3"""


@dataclass(frozen=True)
class Figure:
    """A row: what was billed for a stack, in a currency; `rate` units of it are a USD."""

    stack_id: str
    currency: str = key(pattern=r"[A-Z]{3}")
    rate: str = key(pattern=rf"(?=.*[1-9]){NUMBER}")
    cost: str = key(pattern=f"-?{NUMBER}")
    credits: str = key(pattern=f"-?{NUMBER}")

    @property
    def net(self) -> Decimal:
        """What is left after the credits, which are negative."""
        return Decimal(self.cost) + Decimal(self.credits)

    def usd(self, amount: Decimal) -> Decimal:
        """An amount of its currency in USD."""
        return amount / Decimal(self.rate)


def billed(
    since: date, until: date, report: Reporter, client: GoogleClient | None = None
) -> dict[str, Amount]:
    """What was billed from one day to another, both included, by the ids of stacks. `report` gets
    the price of the query, and remarks about the answer.

    Raises:
        UsageError: no table is set, or its name is not that of a billing export.
        RailheadError: Google does not answer, or refuses.
    """
    query = query_of(os.environ.get(VARIABLE, ""), since, until)
    report(f"BigQuery bills what it reads at {USD_PER_TIB} USD per TiB, here at most {MOST_USD}")
    figures = [decoded(row) for row in _read(query, client or connect())]
    for line in remarks(figures):
        report(line)
    by_id: dict[str, Amount] = {}
    for figure in figures:
        usd = Amount.of(figure.usd(figure.net))
        by_id[figure.stack_id] = by_id.get(figure.stack_id, Amount()) + usd
    return by_id


def query_of(table: str, since: date, until: date) -> Query:
    """The query for BigQuery. UsageError for no table, or one of another form."""
    match = TABLE.fullmatch(table)
    if match is None:
        problem = f"{table[:100]!r} is not {FORM}" if table else "not set"
        raise UsageError(f"{VARIABLE}: {problem}", hint=f"export {VARIABLE}={FORM}   # {SET_UP}")
    days = {"arrived": since - timedelta(days=1), "since": since, "until": until + timedelta(1)}
    times = {name: Parameter("TIMESTAMP", f"{day}T00:00:00Z") for name, day in days.items()}
    parameters = {**times, "label": Parameter("STRING", ID)}
    return Query(match["project"], SQL.format(table=table), parameters, MOST_BYTES)


def _read(query: Query, client: GoogleClient) -> list[tuple[str | None, ...]]:
    try:
        return rows(query, client)
    except Refused as error:
        hint = hint_for(error.error_code, query.project)
        raise RailheadError(error.message, hint=hint or error.next) from None


def hint_for(reason: str, project: str) -> Command | str:
    """What to type after a refusal; empty if that is not known."""
    role = f"gcloud projects add-iam-policy-binding {shlex.quote(project)} --member user:YOU --role"
    hints: dict[str, Command | str] = {
        "accessDenied": f"{role} roles/bigquery.jobUser   # and roles/bigquery.dataViewer",
        "notFound": f"{SET_UP}   # the table appears within a day",
        "bytesBilledLimitExceeded": Command("costs", bill=True, since="1d"),
    }
    return hints.get(reason, "")


def decoded(row: tuple[str | None, ...]) -> Figure:
    """A row of the answer. RailheadError for one without an amount, or without a rate."""
    values = dict(zip(COLUMNS, row, strict=False))
    return decode(Figure, values, what="a row of Google's export", error=RailheadError)


def remarks(figures: Sequence[Figure]) -> list[str]:
    """What people have to know about the figures."""
    if not figures:
        return [f"no row of these days has the label {ID}; rows arrive up to a day late"]
    lines = []
    for currency in sorted({figure.currency for figure in figures} - {"USD"}):
        billed_so = [figure for figure in figures if figure.currency == currency]
        net = sum(figure.net for figure in billed_so)
        usd = Amount.of(sum(figure.usd(figure.net) for figure in billed_so))
        text = f"{net:.2f} {currency}, {usd} at Google's own rates"
        lines.append(f"all stacks together are billed in {currency}: {text}")
    if credits := sum(figure.usd(Decimal(figure.credits)) for figure in figures):
        lines.append(f"credits of all stacks together, {-credits:.2f} USD, are deducted")
    return lines
