"""What the training room may import, and when."""

from __future__ import annotations

import subprocess
import sys

from places import ROOT

WITHOUT_PACKAGES = (
    *("__main__", "config", "data", "data.__main__", "data.assignment", "data.shards.manifest"),
    *("checkpoints.checkpoint", "job", "models", "presets", "results", "strategies"),
    *("strategies.auto", "strategies.protocol", "tasks"),
)


def test_settings_assignment_and_manifests_need_the_standard_library_only() -> None:
    names = ", ".join(f"training.{name}" for name in WITHOUT_PACKAGES)
    command = [sys.executable, "-S", "-c", f"import training, {names}"]
    subprocess.run(command, cwd=ROOT, check=True)
