"""Starts ours.py as `fab` starts a command (railhead/__main__.py): with bytecode, without what no
command needs of Invoke, and without looking for garbage among modules."""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from railhead.bytecode import keep
from railhead.late_imports import import_invoke

if __name__ == "__main__":
    gc.disable()
    keep()
    import_invoke()
    sys.exit(import_module("benchmarks.fanout.ours").main(*sys.argv[1:]))
