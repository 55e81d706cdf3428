"""What the training room may import, and when."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "training").rglob("*.py"))
OTHER_ROOMS = {"bootstrap", "stacks", "tests", "fabric", "invoke", "paramiko", "pulumi"}
WITHOUT_PACKAGES = ["__main__", "config", "configs", "data", "data.assignment", "data.manifest"]
WITHOUT_PACKAGES += ["data.__main__", "checkpoint", "job", "models", "strategies", "tasks"]
WITHOUT_PACKAGES += ["strategies.auto", "strategies.protocol"]


def imported(path: Path) -> Iterator[str]:
    """Top-level names that a file imports, anywhere in it."""
    for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(item, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in item.names)
        elif isinstance(item, ast.ImportFrom):
            assert item.level == 0, f"{path}: a relative import"
            yield (item.module or "").partition(".")[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_training_imports_no_other_room(path: Path) -> None:
    assert OTHER_ROOMS.isdisjoint(imported(path))


def test_settings_assignment_and_manifests_need_the_standard_library_only() -> None:
    names = ", ".join(f"training.{name}" for name in [*WITHOUT_PACKAGES, "results"])
    command = [sys.executable, "-S", "-c", f"import training, {names}"]
    subprocess.run(command, cwd=ROOT, check=True)
