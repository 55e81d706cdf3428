"""The processes of a run that were terminated on its hosts.

Not in result.py, nor beside the operations of the agent: frequently started programs need only
this.
"""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

# The variables that mark the processes of a run, and of an endpoint, with its name.
OF_RUNS, OF_ENDPOINTS = "RAILHEAD_RUN", "RAILHEAD_ENDPOINT"
OF_STANDBYS = "RAILHEAD_STANDBY"  # and that of its standby, which outlives an attempt


@dataclass(frozen=True)
class Swept:
    """The processes of a run on one host: how many were terminated, and the pids of those that
    still run."""

    ended: int = key(at_least=0)
    left: tuple[int, ...] = key()


@dataclass(frozen=True)
class NotSwept:
    """Why a host did not report the processes of a run."""

    unknown: str
