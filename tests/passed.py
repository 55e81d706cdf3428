"""Tests that take minutes or gigabytes are done once for the files that they depend on: a file in
~/.cache/railhead/passed, named by a digest, says that one has passed with them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path


class Passed:
    """Whether a test has passed with these parts: texts of files, and what else decides it."""

    def __init__(self, caches: Path, parts: Iterable[str]) -> None:
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        self.file = caches / "railhead/passed" / digest

    def __bool__(self) -> bool:
        return self.file.exists()

    def note(self) -> None:
        """It has passed."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.touch()
