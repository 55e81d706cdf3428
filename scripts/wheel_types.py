"""A hook of the wheel's build: there, `railhead` imports the packages that are inside it, so that
mypy, pyright and editors find the types of the Python interface."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INIT = "railhead/__init__.py"


class CustomBuildHook(BuildHookInterface[Any]):
    """Replaces the imports of `if TYPE_CHECKING`; nothing that runs."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the changed file, unless the clone itself is installed."""
        if version == "editable":
            return
        self._folder = Path(tempfile.mkdtemp())
        changed = self._folder / "__init__.py"
        text = (Path(self.root) / INIT).read_text()
        changed.write_text(text.replace("    from bootstrap.", "    from .bootstrap."))
        build_data["force_include"][str(changed)] = INIT

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove it."""
        if version != "editable":
            shutil.rmtree(self._folder)
