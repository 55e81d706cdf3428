"""The command `railhead`, and `python -m railhead`: the tasks of `fab`."""

from __future__ import annotations

from .ctrl_c import end_at_once


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    end_at_once()
    use_utf8()
    begin()
    from importlib import import_module

    from .installation import PREFIX

    import_module(f"{PREFIX}bootstrap.cli.program").main()


def use_utf8() -> None:
    """Start again in Python's UTF-8 mode if the locale has another encoding: the names of files
    and the text that hosts send are in UTF-8."""
    import os
    import sys

    if sys.getfilesystemencoding() != "utf-8":
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


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
