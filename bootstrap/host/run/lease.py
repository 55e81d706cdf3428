"""The rules of the lease: whether a host may supervise a run, and whether another one takes it
over. Pure.

Times are seconds of CLOCK_BOOTTIME of the host that decides; clocks of different hosts are never
compared. A holder gives up after a shorter silence than a standby waits for, so two chiefs are
never active.
"""

from __future__ import annotations

RENEW = 10.0  # seconds between two beats, and between two looks
# Seconds from the start of the last beat that arrived until its host gives up: a bucket outage of a
# minute costs no attempt.
HOLD = 80.0
EXPIRED = 130.0  # seconds without a new beat: more than HOLD + RENEW + a late request
LOOKS = 3  # reads without a new beat that a standby needs, at least
LAST = 2  # the last term, which needs no beats: a run has one standby
OTHER_LEADS = 3  # exit code of `reclaim` if another host has the next term
CUT_OFF = 3600.0  # seconds for which a standby tries to read the bucket before it gives up


def holder(now: float, sent: float, *, next_term: bool = False, ended: bool = False) -> str:
    """`hold`: ranks may run, and results may be published. `beat`: the same, and a beat is due.
    `lost`: end the ranks here, publish nothing, stop no other machine. `done`: nothing to renew.

    Args:
        sent: when the holder of a term began to send the last beat that arrived.
        next_term: another host has the next term.
        ended: the run is over.
    """
    if next_term or now - sent >= HOLD:
        return "lost"
    if ended:
        return "done"
    return "beat" if now - sent >= RENEW else "hold"


def standby(
    now: float, seen: float, read: float, looks: int, *, over: bool = False, led: bool = True
) -> str:
    """`watch`; `claim`: try to create the next term, and supervise the run if that succeeds; `end`:
    give up, because the run is over, or cannot be continued from here.

    Args:
        seen: when the standby last saw a new beat, or began to watch.
        read: when it last read the bucket; `looks`: how often since `seen`.
        over: a host has the last term.
        led: a host has had term 1. A run without one has not started; its user has an error.
    """
    if over or now - read >= CUT_OFF:
        return "end"
    # Until the last read, not until now: after a freeze, that read is old.
    silent = read - seen >= EXPIRED and looks >= LOOKS
    if not silent:
        return "watch"
    return "claim" if led else "end"
