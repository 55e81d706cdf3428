"""Imports Paramiko without two packages that a command does not need: Invoke (130 modules), for
`Match exec` in its own reader of ssh_config, which `ssh -G` replaces here; and importlib.metadata
(40 modules), for its version, which the name of the folder beside it shows too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

METADATA = "importlib.metadata"


def import_paramiko_alone() -> None:
    """From now on Paramiko is imported without these."""
    finder: Any = _NotForParamiko
    sys.meta_path.insert(0, finder)


class _NotForParamiko:
    """Finds no Invoke while Paramiko's reader is imported, and a small importlib.metadata while
    Paramiko asks for its version."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> Any:
        modules = sys.modules
        if name == "invoke" and "paramiko.config" in modules:
            if not hasattr(modules["paramiko.config"], "SSHConfig"):
                raise ImportError("Paramiko does without it")
        elif name == METADATA and "paramiko" in modules and "paramiko.transport" not in modules:
            if version := _version_beside(modules["paramiko"].__path__[0]):
                from importlib.machinery import ModuleSpec

                loader: Any = _Version(version)
                return ModuleSpec(METADATA, loader)
        elif name == "paramiko.transport":
            _Version.forget()
        return None


def _version_beside(folder: str) -> str:
    """The version in the name of the folder that an installer has made beside Paramiko's; "" if
    there is not exactly one."""
    head, tail = "paramiko-", ".dist-info"
    names = [path.name for path in Path(folder).parent.glob(f"{head}*{tail}")]
    return names[0][len(head) : -len(tail)] if len(names) == 1 else ""


class _Version:
    """Loads a module with the one function that Paramiko calls."""

    def __init__(self, version: str) -> None:
        self.version = version

    def create_module(self, spec: object) -> None:
        """As for any other module."""

    def exec_module(self, module: Any) -> None:
        """Set `version`, which returns the version that was found."""
        module.version = lambda _: self.version

    @staticmethod
    def forget() -> None:
        """Remove the small importlib.metadata: a later import gets the whole one."""
        if isinstance(getattr(sys.modules.get(METADATA), "__loader__", None), _Version):
            del sys.modules[METADATA]
            del sys.modules["importlib"].metadata
