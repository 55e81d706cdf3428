"""Folders of this computer for what can be fetched or made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache(kind: str) -> Path:
    """~/.cache/railhead/<kind>, created if it is missing; XDG_CACHE_HOME replaces ~/.cache."""
    configured = os.environ.get("XDG_CACHE_HOME", "")
    # By the XDG rules, a path that is not absolute is ignored.
    caches = Path(configured) if Path(configured).is_absolute() else Path.home() / ".cache"
    folder = caches / "railhead" / kind
    folder.mkdir(parents=True, exist_ok=True)
    return folder
