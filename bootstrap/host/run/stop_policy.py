"""Decides when the machines of a run may stop: results first. Pure: no clock, no side effects.

Times are seconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from railhead.documents.lazy import dataclass
from railhead.documents.runs.run import AfterRun, NamedHost, RunDocument, RunHost

COMES_BACK = 40.0  # seconds: a controller retries for 31 s after its connection broke
FETCHING = 1800.0  # seconds for a connected controller to fetch the results


@dataclass(frozen=True)
class Situation:
    """The state of a run at one time. `attached`: when a controller was last connected, or None."""

    now: float
    ended: float
    state: str
    fetched: bool = False
    attached: float | None = None
    successor: str = ""


@dataclass(frozen=True)
class Action:
    """What to do now: `none`, `wait`, `keep` or `stop`; `until` is when waiting or keeping ends."""

    kind: str
    until: float | None = None


def decide(keep_minutes: float | None, situation: Situation) -> Action:
    """The next action. `keep_minutes`: how long machines stay on after a failure; None: they never
    stop. If there is a later run on these machines, its stop rule applies and this run does
    nothing. A connected or recently connected controller may finish its fetch within a time
    limit."""
    if situation.successor or keep_minutes is None:
        return Action("none")
    fetch = fetch_until(situation)
    if fetch is not None and situation.now < fetch:
        return Action("wait", fetch)
    keep = kept_until(keep_minutes, situation)
    if keep is not None and situation.now < keep:
        return Action("keep", keep)
    return Action("stop")


def fetch_until(situation: Situation) -> float | None:
    """The time until which to wait for a controller's fetch; None without a controller."""
    if situation.fetched or situation.attached is None:
        return None
    return min(situation.attached + COMES_BACK, situation.ended + FETCHING)


def kept_until(keep_minutes: float | None, situation: Situation) -> float | None:
    """The time until which machines stay on because the run failed; None if they may stop."""
    if keep_minutes is None or situation.state == "succeeded":
        return None
    return situation.ended + keep_minutes * 60


def is_over(run: RunDocument, seconds: float) -> bool:
    """Whether a run has reached its `max_hours` after `seconds`."""
    return run.max_hours is not None and seconds > run.max_hours * 3600


def results(
    run: AfterRun | RunDocument, *, uploaded: bool, fetched: bool, unfetched: int = 0
) -> str:
    """A text that says where the results are. `unfetched`: the number of files that were not
    fetched."""
    chief = run.hosts[0].name
    if run.bucket and uploaded:
        return f"in {run.bucket.place_of(run.run_id)}"
    if fetched and unfetched:
        return f"partly fetched; files left on {chief}: {unfetched}"
    return "fetched" if fetched else f"only on {chief}"


def stops(run: AfterRun | RunDocument) -> list[tuple[str, str, tuple[str, ...] | None]]:
    """(name, alias inside the cluster, argv or None) of each host in the order of stopping. The
    chief is last: it stops the others."""
    argvs = run.stop.argv if run.stop else ()
    named: Sequence[NamedHost | RunHost] = run.hosts
    hosts = [
        (host.name, f"railhead-{index + 1}", argv)
        for index, (host, argv) in enumerate(zip(named, argvs, strict=True))
    ]
    return [*hosts[1:], hosts[0]]


def cut_off(text: str) -> bool:
    """Whether ssh's error output means that the host went down during the connection."""
    signs = ("closed by remote host", "Connection reset", "Broken pipe", "Connection closed")
    return any(sign in text for sign in signs)
