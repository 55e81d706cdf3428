"""Environments of other programs that tests run, each from its own lock.

Their packages have no part in ours: a lock is installed by itself, once, and kept with the other
caches.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from places import ROOT

from bootstrap.inventory import caches
from bootstrap.provision import uv


class Unfetched(Exception):
    """The packages cannot be fetched here."""


def python_of(name: str) -> Path:
    """The Python of the environment of locks/NAME.txt, which is made first where it is not there.

    Raises:
        Unfetched: uv reaches no index.
    """
    lock = ROOT / "locks" / f"{name}.txt"
    digest = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = caches.cache(name) / digest
    if not folder.exists():
        partial = folder.with_name(f"{digest}.part{os.getpid()}")
        _uv("venv", "--relocatable", "--python", sys.executable, str(partial))
        there = ("--python", str(partial / "bin" / "python"), "--only-binary", ":all:")
        try:
            _uv("pip", "sync", "--require-hashes", *there, str(lock))
            if not folder.exists():  # somebody else may have been quicker
                partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder / "bin" / "python"


def _uv(*args: str) -> None:
    environment = {**os.environ, **uv.ENVIRONMENT}
    argv = [uv.local_uv(), *args, "--quiet"]
    done = subprocess.run(argv, env=environment, capture_output=True, text=True)
    if "Failed to fetch" in done.stderr or "error sending request" in done.stderr:
        raise Unfetched(done.stderr.strip().splitlines()[-1].strip())
    if done.returncode:
        raise RuntimeError(f"uv {' '.join(args)}: {done.stderr.strip()}")
