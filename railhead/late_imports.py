"""Paramiko imports Invoke, 130 modules, for `Match exec` in its own reader of ssh_config. `ssh -G`
reads ours: a command does without."""

from __future__ import annotations

import sys
from typing import Any


def import_paramiko_alone() -> None:
    """From now on Paramiko is imported without Invoke."""
    finder: Any = _NotForParamiko
    sys.meta_path.insert(0, finder)


class _NotForParamiko:
    """Finds no Invoke while Paramiko's reader is imported."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        reader = sys.modules.get("paramiko.config")
        if name == "invoke" and reader is not None and not hasattr(reader, "SSHConfig"):
            raise ImportError("Paramiko does without it")
