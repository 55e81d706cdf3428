"""The command `railhead`, and `python -m railhead`: the tasks of `fab`."""

from __future__ import annotations

from .ctrl_c import end_at_once


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    end_at_once()
    import gc
    from importlib import import_module

    gc.disable()  # until a task begins: nothing that is imported can be collected
    from .bytecode import keep

    keep()
    from .installation import PREFIX
    from .late_imports import import_invoke

    import_invoke()
    import_module(f"{PREFIX}bootstrap.cli.program").main()


if __name__ == "__main__":
    main()
