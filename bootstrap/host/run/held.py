"""Whether this host holds the lease of a run: files in the run's folder, for all programs of the
run.

A run without term.json has no lease. `lease` and `alive` are empty files whose mtime is a time of
CLOCK_BOOTTIME, which nobody can set: the start of the last beat that arrived, and the supervisor's
last sign of life. They need no space on a full disk.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time

from railhead.documents.runs.takeover import Term

from ..base import json_file
from .lease import HOLD, LAST

TERM, LEASE, ALIVE, RELEASED = "term.json", "lease", "alive", "released"
SIGN = 5.0  # seconds between two signs of life
FROZEN = 30.0  # seconds without one, after which the lease is not renewed
RELEASING = 60.0  # seconds to make this term the last one


def now() -> float:
    """Seconds of CLOCK_BOOTTIME."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def term_of(folder: str) -> Term | None:
    """The term of this host; None for a run without a lease."""
    return json_file.if_any(os.path.join(folder, TERM), Term)


def begin(folder: str, term: Term, sent: float) -> None:
    """Write the files of a new term whose first request was sent at `sent`. OSError: a file cannot
    be written."""
    for name in (LEASE, ALIVE, RELEASED):
        _remove(folder, name)
    for name, when in ((LEASE, sent), (ALIVE, now())):
        with open(os.path.join(folder, name), "x"):
            pass
        _set(folder, name, when)
    json_file.save(os.path.join(folder, TERM), term)


def sent(folder: str) -> float | None:
    """When the last beat that arrived was started; None: the lease is lost or released."""
    return _time(folder, LEASE)


def renew(folder: str, sent: float) -> None:
    """Note that a beat has arrived."""
    _set(folder, LEASE, sent)


def is_held(folder: str) -> bool:
    """Whether this host may supervise the run and publish its files. Once it may not, no later beat
    changes that."""
    last_beat = sent(folder)
    if last_beat is not None and now() - last_beat >= HOLD and not is_last(folder):
        drop(folder)
        return False
    return last_beat is not None


def is_last(folder: str) -> bool:
    """Whether no other host can take the run over from this one."""
    term = term_of(folder)
    return term is not None and term.number >= LAST


def drop(folder: str) -> None:
    """Note that the lease is lost."""
    _remove(folder, LEASE)


def forget(folder: str) -> None:
    """Note that the run has no lease, because its holder could not start."""
    _remove(folder, TERM)


def has_lost(folder: str) -> bool:
    """Whether this host has lost the lease, so another one may supervise the run now."""
    return _exists(folder, TERM) and not is_held(folder) and not _exists(folder, RELEASED)


def stay_alive(folder: str) -> None:
    """Give signs of life from a thread, which freezes with the process but, unlike it, does not
    wait for slow hosts or disks."""
    threading.Thread(target=_give_signs, args=(folder,), daemon=True).start()


def _give_signs(folder: str) -> None:
    while True:
        try:
            _set(folder, ALIVE, now())
        except FileNotFoundError:
            return  # everything is published
        except OSError:
            pass  # a disk error: the next sign may succeed
        time.sleep(SIGN)


def is_over(folder: str) -> bool:
    """Whether the supervisor has nothing left to publish."""
    return not _exists(folder, ALIVE)


def is_frozen(folder: str) -> bool:
    """Whether the supervisor gives no sign of life."""
    last_sign = _time(folder, ALIVE)
    return last_sign is not None and now() - last_sign >= FROZEN


def release(folder: str) -> None:
    """Note that nobody can take the run over any more."""
    with contextlib.suppress(FileNotFoundError):
        os.rename(os.path.join(folder, LEASE), os.path.join(folder, RELEASED))


def finish(folder: str) -> None:
    """Called when nothing is left to publish: wait until the lease is released or lost."""
    if is_last(folder):
        return
    _remove(folder, ALIVE)
    until = time.monotonic() + RELEASING
    while is_held(folder) and time.monotonic() < until:
        time.sleep(0.1)


def _remove(folder: str, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.remove(os.path.join(folder, name))


def _exists(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


def _time(folder: str, name: str) -> float | None:
    try:
        return os.stat(os.path.join(folder, name)).st_mtime
    except FileNotFoundError:
        return None


def _set(folder: str, name: str, when: float) -> None:
    os.utime(os.path.join(folder, name), ns=(int(when * 1e9), int(when * 1e9)))
