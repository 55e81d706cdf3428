"""A host with so many tools and no more, on which a script for hosts is run by sh."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

SH = str(shutil.which("sh"))


class BareHost:
    """Its PATH is `bin`, its temporary files are in `tmp`, both in `folder`."""

    def __init__(self, folder: Path, tools: Iterable[str], folders: Iterable[str] = ()) -> None:
        self.folder = folder
        for name in ("bin", "tmp", *folders):
            (folder / name).mkdir(parents=True)
        self.link(*tools)

    def link(self, *tools: str) -> None:
        """Give it tools of this machine."""
        for tool in tools:
            (self.folder / "bin" / tool).symlink_to(str(shutil.which(tool)))

    def place(self, name: str, text: str, **options: object) -> None:
        """Write a program; `{sh}`, `{folder}` and the words in its text are filled in."""
        path = self.folder / name
        path.write_text(text.format(sh=SH, folder=self.folder, **options))
        path.chmod(0o755)

    def run(self, script: Path, *argv: Path, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a script; the words after it are paths."""
        mine = {"PATH": str(self.folder / "bin"), "TMPDIR": str(self.folder / "tmp")}
        return subprocess.run(
            [SH, script, *argv],
            env={**mine, **variables},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def recorded(self, name: str) -> str:
        """What a program wrote down there; empty where it was not run."""
        path = self.folder / name
        return path.read_text() if path.exists() else ""

    @property
    def left(self) -> list[Path]:
        """Temporary files that are there still."""
        return list((self.folder / "tmp").iterdir())
