"""The cost and the emissions of a run so far, for its progress line."""

from __future__ import annotations

from collections.abc import Sequence

from railhead.documents.carbon.energy import MOST, energy_text, two_digits
from railhead.documents.runs.records import Record
from railhead.documents.runs.run import RunDocument
from railhead.documents.times import seconds

from ...console.text import clean
from ...untrusted.records import record
from ..run import Run

# The last carbon record in the last megabyte of the records; nothing if the file is gone.
CARBON = """tail -c 1000000 FOLDER/results/metrics.jsonl 2>/dev/null |
grep '^{"kind": "carbon"' | tail -n 1"""
LONGEST = 10**5  # hours: the times are a host's, so untrusted


class CostSoFar:
    """The cost of the hosts since the run was created."""

    def __init__(self, run: RunDocument) -> None:
        self.since = seconds(run.created) if run.prices else None
        if run.prices:
            from railhead.money import host  # imported late: most hosts have no price

            self.per_hour = host.per_hour(tuple(map(host.read_part, run.prices)), len(run.hosts))

    def at(self, time_: float | None) -> str:
        """`, 0.31 USD` at the time of a record; empty if the hosts have no price."""
        if self.since is None:
            return ""
        from decimal import Decimal

        hours = (Decimal(str(time_ or 0)) - Decimal(str(self.since))) / 3600
        cost = self.per_hour * min(max(hours, Decimal(0)), Decimal(LONGEST))
        return f", {clean(str(cost))}" if cost.high or cost.unknown else ""


def carbon_so_far(entry: Record) -> str:
    """`, 0.031 kWh, 13 gCO2e`; without figures that are unknown or not valid."""
    kwh, grams = (
        value if value is not None and 0 <= value <= MOST else None
        for value in map(entry.figure, ("kwh", "gco2e"))
    )
    energy = "" if kwh is None else f", {energy_text(kwh)}"
    return energy if grams is None else f"{energy}, {two_digits(grams)} gCO2e"


def carbon_command(run: Run) -> str:
    """The shell command that prints, on the chief, the record of the energy that a run has used."""
    return CARBON.replace("FOLDER", run.folder)


def carbon_lines(lines: Sequence[str]) -> list[str]:
    """A line with the energy that a run has used so far, from the chief's output; none if nothing
    was measured."""
    entry = record(lines[-1]) if lines else None
    text = carbon_so_far(entry) if entry else ""
    return [f"energy so far: {text[2:]}"] if text else []
