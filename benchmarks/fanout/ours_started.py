"""Starts ours.py as `fab` starts a command (railhead/__main__.py)."""

from __future__ import annotations

import sys
from importlib import import_module

from railhead.__main__ import begin

if __name__ == "__main__":
    begin()
    sys.exit(import_module("benchmarks.fanout.ours").main(*sys.argv[1:]))
