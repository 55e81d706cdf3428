"""Code of your own that a setting names, as `module:name`."""

from __future__ import annotations

import importlib
from typing import Any

from .config import ConfigError


def load(setting: str, place: str) -> Any:
    """The object that `place`, `module:name`, refers to.

    Raises:
        ConfigError: there is no such module or name, or the module fails.
    """
    module, _, name = place.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever the module itself raises, too
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ConfigError(
            f"{setting}: {place} cannot be imported: {reason}\n"
            "the module is in the current folder, or in a copy of training/: training.mine:name"
        ) from error


def call(setting: str, place: str) -> list[Any]:
    """What the function at `place` returns: a list, or one object in a list.

    Raises:
        ConfigError: there is no such function, or it fails.
    """
    function = load(setting, place)
    try:
        result = function()
    except Exception as error:  # of the user's code
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        raise ConfigError(f"{setting}: {place}() fails: {reason}") from error
    return list(result) if isinstance(result, (list, tuple)) else [result]
