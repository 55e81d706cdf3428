"""The timer on a cloud machine, over SSH: its user data installed it (stacks/timer/deadline.sh).

It powers the machine off at the time that is stored on the machine's disk. That needs neither a
schedule of the cloud nor a connection.
"""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from ..clouds.base import MISSING, UNKNOWN, Deadline
from ..errors import RailheadError
from ..host.run.time_left import SHOWN, TOOL
from ..ssh.as_root import run_as_root
from ..ssh.session import ConnectionLost, Session

KIND, SOURCE = "timer", "the machine's railhead-deadline"
ANSWER_SECONDS = 20.0
LEAST, MOST = 60, 691_200  # seconds that the tool accepts
LATE = "it started after its deadline"


def read(session: Session) -> Deadline:
    """When the machine powers itself off; MISSING without a working timer, `past` for a machine
    that started after its deadline and stays on for some minutes, UNKNOWN without an answer."""
    try:
        output = _show(session)
    except ConnectionLost as lost:
        return Deadline(KIND, None, UNKNOWN, SOURCE, str(lost))
    return parse(output, datetime.now(timezone.utc))


def _show(session: Session) -> str:
    return session.sh(f"( {TOOL} show ) </dev/null 2>&1", silence=ANSWER_SECONDS)


def parse(output: str, now: datetime) -> Deadline:
    """The deadline in the tool's output. Its time is by our clock: the machine's may differ."""
    match = SHOWN.search(output)
    if not match:
        return Deadline(KIND, None, MISSING, SOURCE, "the machine has no timer")
    end = now + timedelta(seconds=int(match[1]) - int(match[2]))
    if match[4] != "active":
        return Deadline(KIND, end, MISSING, SOURCE, f"its systemd timer is {match[4]}")
    late = match[3] == "yes"
    return Deadline(KIND, end, "past" if late else "armed", SOURCE, LATE if late else "")


def move(session: Session, until: datetime, *, of_cloud: bool = False) -> None:
    """Let the machine power itself off at this time. `of_cloud`: the time is by the clock of the
    cloud, which stops the machine then. Our clock or the machine's may be wrong: the slower one
    counts, so that the timer does not power it off before the cloud stops it.

    Raises:
        RailheadError: the machine has no timer, or refuses.
    """
    now = datetime.now(timezone.utc)
    if of_cloud and (shown := SHOWN.search(_show(session))):
        now = min(now, datetime.fromtimestamp(int(shown[2]), timezone.utc))
    seconds = round((until - now).total_seconds())
    try:
        run_as_root(session, f"{TOOL} set {max(LEAST, min(seconds, MOST))}", silence=ANSWER_SECONDS)
    except ConnectionLost:
        raise
    except RailheadError as error:
        raise RailheadError(f"its timer was not moved: {error.message}") from None
