"""Railhead from Python and from notebooks: train, sweep, scale, evaluate, deploy, predict.

    import railhead

    with railhead.Cluster("a,b") as cluster:                 # or Cluster.from_stack("gpu")
        run = cluster.train(preset="mnist", data={"train": "~/mnist"})
        print(run.evaluation()["accuracy"])

Every method does the same as the `fab` task of its name: docs/python.md. Errors are those of `fab`:
UsageError (nothing was started), RunFailed and BelowThreshold are all subclasses of RailheadError.

The interface is loaded when it is first used, because hosts have only `railhead.documents`.
"""

from __future__ import annotations

from .version import VERSION as __version__

TYPE_CHECKING = False  # `typing` takes longer than all else here, before `fab` can notice Ctrl-C
if TYPE_CHECKING:
    from typing import Any

    from bootstrap.errors import BelowThreshold, RailheadError, RunFailed, UsageError
    from bootstrap.interface.cluster import Cluster, Sweep
    from bootstrap.interface.endpoint import Endpoint
    from bootstrap.interface.job import job
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
    "__version__",
    "job",
    "runs",
]
_MODULES = {
    "bootstrap.errors": ("BelowThreshold", "RailheadError", "RunFailed", "UsageError"),
    "bootstrap.interface.cluster": ("Cluster", "Sweep"),
    "bootstrap.interface.endpoint": ("Endpoint",),
    "bootstrap.interface.job": ("job",),
    "bootstrap.interface.run": ("Run", "runs"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module

            from .installation import PREFIX

            return getattr(import_module(f"{PREFIX}{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
