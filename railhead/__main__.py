"""The command `railhead`, and `python -m railhead`: the tasks of `fab`."""

from __future__ import annotations

from .ctrl_c import end_at_once


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    end_at_once()
    begin()
    from importlib import import_module

    from .installation import PREFIX

    import_module(f"{PREFIX}bootstrap.cli.program").main()


def begin() -> None:
    """Speed up the imports of a command: keep bytecode, import Paramiko without Invoke, and pause
    garbage collection."""
    import gc

    gc.disable()  # until a task begins: imported modules are never garbage
    from .bytecode import keep

    keep()
    from .late_imports import import_paramiko_alone

    import_paramiko_alone()


if __name__ == "__main__":
    main()
