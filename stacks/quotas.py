"""The quotas that a stack uses, each in the cloud's own unit. Pure."""

from __future__ import annotations

from dataclasses import dataclass

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


def comparison(need: QuotaNeed, available: float | None) -> str:
    """One line for the preview: the quota, what the account has and what the stack needs."""
    amount = "unknown (no right to read it)" if available is None else f"{available:g}"
    quota = f"quota {need.name} ({need.code}, {need.place})"
    return f"{quota}: have {amount}, need {need.amount} {need.unit}"
