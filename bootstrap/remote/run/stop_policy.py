"""When the machines of a run may stop: results first. Decisions only, no clock and no effect.

Times are seconds of one clock that never goes back. Standard library only, Python 3.10.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

COMES_BACK = 40.0  # seconds: a controller whose connection broke tries again for 31
FETCHING = 1800.0  # seconds that an attached controller has for bringing the results home


@dataclass(frozen=True)
class Rule:
    """What was asked: the minutes that machines are kept after a failure; None: never stop."""

    keep_minutes: int | None
    bucket: bool = False

    @classmethod
    def of(cls, run: dict[str, Any]) -> Rule:
        """The rule of a run document."""
        stop = run.get("stop")
        return cls(stop["keep_minutes"] if stop else None, bool(run.get("bucket")))


@dataclass(frozen=True)
class Seen:
    """What is known at one moment. `attached` is when a controller was last there, None: never."""

    now: float
    ended: float
    state: str
    shipped: bool = False
    fetched: bool = False
    attached: float | None = None
    successor: str = ""


@dataclass(frozen=True)
class Step:
    """What to do now: `leave`, `wait`, `keep` or `stop`; `until` is when that is over."""

    word: str
    until: float | None = None


def decide(rule: Rule, seen: Seen) -> Step:
    """The next step.

    A later run on these machines has a rule of its own, so this one leaves them to it. A
    controller that is there, or was a moment ago, may finish its fetch, within limits.
    """
    if seen.successor or rule.keep_minutes is None:
        return Step("leave")
    fetch = fetch_until(seen)
    if fetch is not None and seen.now < fetch:
        return Step("wait", fetch)
    keep = seen.ended + rule.keep_minutes * 60
    if seen.state != "succeeded" and seen.now < keep:
        return Step("keep", keep)
    return Step("stop")


def fetch_until(seen: Seen) -> float | None:
    """Until when a controller is waited for; None when there is none to wait for."""
    if seen.fetched or seen.attached is None:
        return None
    return min(seen.attached + COMES_BACK, seen.ended + FETCHING)


def kept_until(rule: Rule, seen: Seen) -> float | None:
    """Until when machines are kept because the run did not succeed; None when they are not."""
    if rule.keep_minutes is None or seen.state == "succeeded":
        return None
    return seen.ended + rule.keep_minutes * 60


def is_over(run: dict[str, Any], seconds: float) -> bool:
    """Whether a run that has gone on for so long has used up its `max_hours`."""
    hours = run.get("max_hours")
    return hours is not None and seconds > hours * 3600


def results(run: dict[str, Any], *, shipped: bool, fetched: bool, left: int = 0) -> str:
    """Where the results are, in words. `left` files were too many to be fetched."""
    chief = run["hosts"][0]["name"]
    if shipped:
        return f"in {run['bucket']['url']}/runs/{run['run_id']}"
    if fetched and left:
        return f"fetched; {left} large files are only on {chief}"
    return "fetched" if fetched else f"only on {chief}"


def stops(run: dict[str, Any]) -> list[tuple[str, str, list[str] | None]]:
    """(name, alias inside the cluster, argv or None) of each host in the order of stopping.

    The chief is last: it stops the others.
    """
    argvs = run["stop"]["argv"]
    hosts = [
        (host["name"], f"railhead-{index + 1}", argv)
        for index, (host, argv) in enumerate(zip(run["hosts"], argvs, strict=True))
    ]
    return [*hosts[1:], hosts[0]]


def cut_off(text: str) -> bool:
    """Whether ssh's last words are those of a machine that went while we spoke with it."""
    signs = ("closed by remote host", "Connection reset", "Broken pipe", "Connection closed")
    return any(sign in text for sign in signs)
