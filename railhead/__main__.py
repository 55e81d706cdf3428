"""The command `railhead`, and `python -m railhead`: the tasks of `fab`."""

from __future__ import annotations

from .ctrl_c import end_at_once


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    end_at_once()
    use_utf8()
    open_closed_streams()
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


def open_closed_streams() -> None:
    """Open the null device in place of a standard stream that was closed before the start, as by
    `>&-`: otherwise the next file or connection gets its number, and what is printed."""
    import os
    import sys

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            number = os.open(os.devnull, os.O_RDWR)  # the lowest free one: this stream's
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


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
