"""The Python interface, which the package `railhead` loads: docs/python.md.

`methods.py` is generated: the signatures of the methods, from the options' declarations.
"""

from bootstrap.errors import BelowThreshold, RailheadError, RunFailed, UsageError
from bootstrap.interface.cluster import Cluster, Sweep
from bootstrap.interface.endpoint import Endpoint
from bootstrap.interface.run import Run, runs

__all__ = [
    "BelowThreshold",
    "Cluster",
    "Endpoint",
    "RailheadError",
    "Run",
    "RunFailed",
    "Sweep",
    "UsageError",
    "runs",
]
