"""MosaicML Streaming in a separate environment, without torch and all else that it depends on."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peer import environment

VERSION = "0.13.0"
PACKAGES = (f"mosaicml-streaming=={VERSION}", "numpy==2.4.6")


def installed() -> Path:
    """Its python."""
    return environment(b"", ["--no-deps", *PACKAGES]) / "bin" / "python"
