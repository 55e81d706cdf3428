"""The quotas that a stack uses, each in the cloud's own unit. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

EVERYWHERE = "global"


@dataclass(frozen=True)
class QuotaNeed:
    """`amount` of one quota, in `unit`s; `place` is a region, or "global"."""

    service: str
    code: str
    name: str
    amount: int
    unit: str
    place: str


@dataclass(frozen=True)
class QuotaState:
    """What the account has of a quota, and what machines of others use now. None: unknown."""

    limit: float | None = None
    used: float | None = None

    def lacks(self, need: QuotaNeed) -> bool:
        """Whether what others use leaves too little of the quota. An unknown quota counts as
        enough: if it is not, the cloud refuses the machines."""
        return self.limit is not None and self.limit < need.amount + (self.used or 0)


def comparison(need: QuotaNeed, state: QuotaState) -> str:
    """One line for the preview: the quota, what the account has and what the stack needs."""
    has = "unknown (no right to read it)" if state.limit is None else f"{state.limit:g}"
    used = "unknown" if state.used is None else f"{state.used:g}"
    return (
        f"quota {need.name} ({need.code}, {need.place}): have {has}, used by others {used}, "
        f"need {need.amount} {need.unit}"
    )


def too_small(states: Mapping[QuotaNeed, QuotaState]) -> tuple[QuotaNeed, ...]:
    """The quotas that are too small, with the amounts that this stack and all others need."""
    return tuple(
        replace(need, amount=need.amount + math.ceil(state.used or 0))
        for need, state in states.items()
        if state.lacks(need)
    )
