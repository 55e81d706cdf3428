"""The receipt that `fab teardown` prints last: what was removed, and what was verified. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from railhead.documents.lazy import dataclass
from railhead.documents.outputs import ReceiptLine as Line
from railhead.documents.outputs import TeardownOutput

from ..clouds.base import STOPPED, Cost, InstanceState
from ..console.output import note_output
from ..errors import Command, RailheadError


@dataclass(frozen=True)
class Receipt:
    """The outcome of a teardown, one line per resource."""

    cluster: str
    at: str
    lines: tuple[Line, ...]

    @property
    def verified(self) -> bool:
        """Whether every line was verified; a receipt without lines shows nothing."""
        return bool(self.lines) and all(line.verified for line in self.lines)

    def describe(self) -> list[str]:
        """The receipt as lines of text."""
        width = max((len(line.host) for line in self.lines), default=0)
        marks = {True: "ok  ", False: "NOT VERIFIED  "}
        rows = [f"  {x.host:<{width}}  {marks[x.verified]}{x.text}" for x in self.lines]
        return [f"Receipt for {self.cluster}, {self.at}", *rows]


def check(receipt: Receipt, command: Command) -> None:
    """RailheadError when a line of the receipt was not verified; `command` repeats it."""
    verified = receipt.verified
    note_output(
        TeardownOutput(
            cluster=receipt.cluster, at=receipt.at, verified=verified, lines=receipt.lines
        )
    )
    if not verified:
        raise RailheadError("not everything could be verified; see the lines above", hint=command)


def machine_line(name: str, state: InstanceState, stopped_at: str = "") -> Line:
    """A machine's state with its source and time. `stopped_at`: when it was reported stopped."""
    source = f"{state.source}, {state.at}"
    if state.state in STOPPED:
        return Line(name, f"{state.state} ({source}); it costs nothing by the hour")
    before = f"; it was reported as stopped at {stopped_at}" if stopped_at else ""
    why = f"; {state.reason}" if state.reason else ""
    return Line(name, f"{state.state} ({source}){why}{before}", verified=False)


def billing_lines(costs: Iterable[Cost], target: Mapping[str, str]) -> list[Line]:
    """The costs that continue after the machines are stopped, and the command that ends them;
    `target` names the stack."""
    return [
        Line("bills", f"{c.description}: {price(c)}; ends with: {c.command.plus(**target)}")
        for c in costs
    ]


def price(cost: Cost) -> str:
    """A cost as text, with the source of the price."""
    if cost.amount is None:
        return "its price is not known here"
    amount = "less than 0.01" if 0 < cost.amount < 0.005 else f"{cost.amount:.2f}"
    return f"{amount} USD per {cost.per}" + (f" ({cost.source})" if cost.source else "")
