"""The first module of the archive: python railhead.pyz MODULE ARGUMENT..., such as serve.endpoint.

Runs `main` of a module of `host`, which is a package at the top of the archive.
"""

import importlib
import sys

sys.exit(importlib.import_module(f"host.{sys.argv[1]}").main(*sys.argv[2:]))
