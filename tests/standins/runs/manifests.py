"""The manifest of a run's folder, as the supervisor writes it, without its time limits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bootstrap.host.run.manifest import Listing, entry_of
from railhead.documents.codec import encode
from railhead.documents.runs.manifest import Manifest


def manifest(folder: Path | str) -> dict[str, Any]:
    """All files of the run with their bytes and sha256."""
    listing = Listing(str(folder))
    files = tuple(entry_of(str(folder), path) for path, _ in listing.files)
    document: dict[str, Any] = encode(Manifest(files, tuple(listing.skipped)))
    return document
