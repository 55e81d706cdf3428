"""The program of a Pulumi project: `railhead.stack.main()` is all that it contains."""

from __future__ import annotations

from importlib import import_module

from .installation import PREFIX


def main() -> None:
    """Register the cluster that the config of the stack describes."""
    import_module(f"{PREFIX}stacks.program").main()
