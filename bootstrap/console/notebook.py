"""The live lines of a board in a notebook, which has no cursor to move."""

from __future__ import annotations

import sys
from collections.abc import Callable

Painter = Callable[[str], None]


def in_notebook() -> bool:
    """Whether this process is a notebook, or IPython's prompt."""
    return _shell() is not None


def painter() -> Painter | None:
    """A function that replaces its earlier text in the output of this notebook's cell; None outside
    a notebook."""
    shell = _shell()
    if shell is None or not hasattr(shell, "kernel"):
        return None
    display = sys.modules["IPython"].display.display
    handle = display({"text/plain": ""}, raw=True, display_id=True)
    return lambda text: handle.update({"text/plain": text}, raw=True)


def _shell() -> object | None:
    """IPython's shell of this process, without importing IPython."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module and hasattr(module, "get_ipython") else None
