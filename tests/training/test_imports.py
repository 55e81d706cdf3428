"""What the training room may import, and when."""

from __future__ import annotations

import subprocess
import sys

from places import ROOT

WITHOUT_PACKAGES = [
    "__main__",
    "config",
    "configs",
    "data",
    "data.assignment",
    "data.shards.manifest",
]
WITHOUT_PACKAGES += [
    "data.__main__",
    "data.shards.manifest",
    "checkpoints.checkpoint",
    "job",
    "models",
    "strategies",
    "tasks",
]
WITHOUT_PACKAGES += ["strategies.auto", "strategies.protocol"]


def test_settings_assignment_and_manifests_need_the_standard_library_only() -> None:
    names = ", ".join(f"training.{name}" for name in [*WITHOUT_PACKAGES, "results"])
    command = [sys.executable, "-S", "-c", f"import training, {names}"]
    subprocess.run(command, cwd=ROOT, check=True)
