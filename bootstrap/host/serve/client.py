"""Runs a program of other packages in this process: serve.client MODULE FUNCTION CODE PACKAGES
ARGUMENT...

CODE is the folder of the module, or "" if the module is in the packages. The packages come last on
sys.path, so that they do not replace packages of the runtime. Railhead's modules are not on
sys.path.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ..base import programs


def main(module: str, function: str, code: str, packages: str, *arguments: str) -> Any:
    """Call the function, which reads the arguments from sys.argv; returns its exit code."""
    programs.leave()
    sys.path[:0] = [code] if code else []
    sys.path.append(packages)
    sys.argv = [module, *arguments]
    return getattr(importlib.import_module(module), function)()
