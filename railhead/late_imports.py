"""Two modules that Invoke imports at its start, 40 ms of CPU, and that hardly a command uses: they
are loaded when they are used."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from types import ModuleType
from typing import Any

MOCK = "unittest.mock"  # for MockContext, in tests of people's own tasks
YAML = "invoke.vendor.yaml"  # for configuration files in YAML


def import_invoke() -> None:
    """Import Invoke without them."""
    finder: Any = _LateYaml
    sys.meta_path.insert(0, finder)
    stand_in = ModuleType(MOCK)
    stand_in.__dict__["Mock"] = _mock
    sys.modules.setdefault(MOCK, stand_in)
    try:
        import invoke  # noqa: F401
    finally:
        sys.meta_path.remove(finder)
        if sys.modules[MOCK] is stand_in:
            del sys.modules[MOCK]


def _mock(*args: Any, **named: Any) -> Any:
    from unittest.mock import Mock

    return Mock(*args, **named)


class _LateYaml:
    """Finds the YAML of Invoke, and loads it when one of its names is used."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _: object = None) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name == YAML else None
        if spec and spec.loader:
            spec.loader = LazyLoader(spec.loader)
        return spec
