"""The command `railhead`, and `python -m railhead`: the tasks of `fab`."""

from __future__ import annotations

from importlib import import_module

from .installation import PREFIX


def main() -> None:
    """Run the command line of this process; it ends with the exit code of the task."""
    import_module(f"{PREFIX}bootstrap.cli.program").main()


if __name__ == "__main__":
    main()
