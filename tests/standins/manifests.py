"""The manifest of a run's folder, as the supervisor writes it, without its time limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bootstrap.remote.run.manifest import Listing, size_and_sha256


def manifest(folder: Path | str) -> dict[str, Any]:
    """All files of the run with their bytes and sha256."""
    found = Listing(str(folder))
    files = []
    for path, _ in found.files:
        size, digest = size_and_sha256(str(Path(folder, path)))
        files.append({"path": path, "bytes": size, "sha256": digest})
    return {"schema": 1, "files": files, "skipped": found.skipped}
