"""When a run without progress is suspicious."""

from __future__ import annotations

import pytest

from bootstrap.host.output.progress import Progress


def watched(*events: tuple[float, str], until: float, every: float = 0.5) -> Progress:
    """The progress of a run with these events, (second, "step" or "line"), looked at often."""
    progress, waiting, now = Progress(), sorted(events), 0.0
    while now <= until:
        progress.look(1000 + now)
        while waiting and waiting[0][0] <= now:
            _, kind = waiting.pop(0)
            progress.step([0]) if kind == "step" else progress.line()
        now += every
    return progress


STEPS = [(float(second), "step") for second in range(2, 12)]
# Events, the second of the look, the seconds without progress, and the limit.
LIMITS = {
    "nothing has happened yet": ([], 100, 100, 900),
    "lines before the first step are progress": ([(80, "line")], 100, 20, 900),
    "steps of a second": (STEPS, 60, 49, 60),
    "a line after a step is no progress": ([*STEPS, (50, "line")], 60, 49, 60),
    "steps of 20 seconds": ([(20.0 * n, "step") for n in range(1, 6)], 110, 10, 200),
    "an evaluation took 50 seconds": ([*STEPS, (61, "step")], 70, 9, 100),
    "a long first step is not a usual time": ([(500, "step"), (501, "step")], 510, 9, 60),
}


@pytest.mark.parametrize(("events", "until", "silence", "limit"), LIMITS.values(), ids=LIMITS)
def test_the_limit_follows_from_the_steps_so_far(
    events: list[tuple[float, str]], until: float, silence: float, limit: float
) -> None:
    progress = watched(*events, until=until)
    assert (progress.silence, progress.limit(60)) == pytest.approx((silence, limit), abs=1)


def test_hosts_that_report_the_same_long_steps_do_not_make_them_short() -> None:
    progress = Progress()
    for second in range(400):
        progress.look(float(second))
        if second % 100 == 50:
            progress.step([0])
        if second % 100 == 51:
            progress.step([4])
    assert progress.limit(60) == 1000


def test_the_time_of_a_suspended_supervisor_does_not_count() -> None:
    progress = watched(*STEPS, until=20)
    progress.look(1000 + 20 + 3600)
    assert progress.silence < 12
