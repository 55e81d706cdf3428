"""What was taken away, and who says so: the last thing that `fab teardown` prints. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bootstrap.clouds.base import STOPPED, Cost, InstanceState
from bootstrap.errors import RailheadError


@dataclass(frozen=True)
class Line:
    """One statement of a receipt and whether it was verified."""

    host: str
    text: str
    verified: bool = True


@dataclass(frozen=True)
class Receipt:
    """What a teardown did, resource by resource; `verified` only if every line of it is."""

    cluster: str
    at: str
    lines: tuple[Line, ...]

    @property
    def verified(self) -> bool:
        """Whether everything that was said was also seen."""
        return all(line.verified for line in self.lines)

    def describe(self) -> list[str]:
        """The receipt for people."""
        width = max((len(line.host) for line in self.lines), default=0)
        marks = {True: "ok  ", False: "NOT VERIFIED  "}
        rows = [f"  {x.host:<{width}}  {marks[x.verified]}{x.text}" for x in self.lines]
        return [f"Receipt for {self.cluster}, {self.at}", *rows]


def check(receipt: Receipt) -> None:
    """RailheadError when something on the receipt was not verified."""
    if not receipt.verified:
        raise RailheadError(
            "not everything could be verified; see the lines above", hint="fab teardown"
        )


def of_machine(name: str, said: InstanceState, rested: str = "") -> Line:
    """A machine: its state, who says so and when. `rested` is when it was at rest before."""
    source = f"says {said.source}, {said.at}"
    if said.state in STOPPED:
        return Line(name, f"{said.state} ({source}); it costs nothing by the hour")
    before = f"; it was said to be stopped at {rested}" if rested else ""
    why = f"; {said.reason}" if said.reason else ""
    return Line(name, f"{said.state} ({source}){why}{before}", verified=False)


def of_costs(costs: Iterable[Cost]) -> list[Line]:
    """What bills although the machines are stopped, and what ends it."""
    return [Line("bills", f"{c.what}: {price(c)}; ends with: {c.command}") for c in costs]


def price(cost: Cost) -> str:
    """What something costs, in words, and whose word that is."""
    if cost.amount is None:
        return "its price is not known here"
    amount = "less than 0.01" if 0 < cost.amount < 0.005 else f"{cost.amount:.2f}"
    return f"{amount} USD per {cost.per}" + (f" ({cost.source})" if cost.source else "")
