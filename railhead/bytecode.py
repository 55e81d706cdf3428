"""Keeps the bytecode of what a command imports: without it, Python compiles some hundred modules
each time.

In many containers Python writes none beside the sources (PYTHONDONTWRITEBYTECODE): there it goes to
our own cache.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def keep() -> None:
    """Let Python keep bytecode from now on: Invoke turns that off, because a fabfile is the
    user's."""
    if not sys.flags.dont_write_bytecode:
        sys.dont_write_bytecode = False
    elif (cache := _cache()) and sys.pycache_prefix in (None, cache):
        sys.pycache_prefix = cache
        sys.dont_write_bytecode = False


def _cache() -> str:
    """A folder that nobody else can write, because its content is executed; "" if there cannot be
    one."""
    configured = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        caches = configured if configured.is_absolute() else Path.home() / ".cache"
        folder = caches / "railhead/bytecode"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except (OSError, RuntimeError):
        return ""
    is_own = state.st_uid == os.geteuid() and not state.st_mode & 0o022
    return str(folder) if is_own else ""
