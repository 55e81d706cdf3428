"""Finds what uses a machine: a run, by its lock, and endpoints, by their states. The programs that
stop machines after a run or an endpoint call it.
"""

from __future__ import annotations

import contextlib
import glob
import os
import time

from railhead.documents.serving.endpoint import ALIVE, EndpointState

from ..base import json_file, locks, programs

LOCK = os.path.expanduser(programs.LOCK)
ENDPOINTS = os.path.expanduser("~/.railhead/endpoints")
FRESH = 15.0  # seconds after which an endpoint's heartbeat no longer counts


def run_lock() -> contextlib.AbstractContextManager[bool]:
    """Hold the lock of runs, so that no run starts on a stopping machine; yields False if a run has
    it."""
    return locks.try_lock(LOCK)


def live_endpoint(besides: str = "") -> str:
    """The name of an endpoint, other than `besides`, that serves on this host and stops it at its
    end; "" if there is none."""
    for file in sorted(glob.glob(f"{glob.escape(ENDPOINTS)}/*/state.json")):
        name = os.path.basename(os.path.dirname(file))
        state = None if name == besides else json_file.intact(file, EndpointState)
        if state and state.state in ALIVE and time.time() - state.heartbeat < FRESH:
            return name
    return ""
