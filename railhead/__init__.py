"""Railhead from Python and from notebooks: train, sweep, scale, evaluate, deploy, predict.

    import railhead

    with railhead.Cluster("a,b") as cluster:                 # or Cluster.from_stack("gpu")
        run = cluster.train(preset="mnist", data={"train": "~/mnist"})
        print(run.evaluation()["accuracy"])

Every method calls what the task of `fab` with its name calls: docs/python.md. Errors are those of
`fab`: UsageError (nothing was started), RunFailed, BelowThreshold, all of them RailheadError.

The interface is loaded when it is first used: hosts have `railhead.documents` alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bootstrap.interface import (
        BelowThreshold,
        Cluster,
        Endpoint,
        RailheadError,
        Run,
        RunFailed,
        Sweep,
        UsageError,
        runs,
    )

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


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("bootstrap.interface"), name)


def __dir__() -> list[str]:
    return __all__
