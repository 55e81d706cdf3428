"""A copy of the project, in which `pulumi` and `fab` are typed as a person does."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from engine.stack import BIN
from places import ROOT
from standins.forks import FAB, forks

PARTS = ("bootstrap", "stacks", "training", "locks", "Pulumi.yaml", "fabfile.py")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the project, because `pulumi config set` writes beside Pulumi.yaml."""
    folder = tmp_path / "reader" / "railhead"
    folder.mkdir(parents=True)
    for part in PARTS:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    return folder


def environment(clone: Path, engine: Path, caches: Path) -> dict[str, str]:
    """The shell of a person who has followed the page up to its first block."""
    folder = clone.parent / "bin"
    folder.mkdir()
    (folder / "fab").write_text(f'#!/bin/sh\nexec "{FAB}" -r "{clone}" "$@"\n')
    (folder / "fab").chmod(0o755)
    paths = [str(folder), str(Path(FAB).parent), str(engine), str(BIN), os.environ["PATH"]]
    return {
        **os.environ,
        "HOME": str(clone.parent),
        "PATH": ":".join(paths),
        "PYTHONPATH": str(clone),
        "XDG_CACHE_HOME": str(caches),
        "PULUMI_HOME": str(clone.parent / ".pulumi"),  # else it logs into the tester's own
        "PULUMI_BACKEND_URL": f"file://{clone.parent}",  # `file://~` may mean the tester's home
        "PULUMI_CONFIG_PASSPHRASE": "a test",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
        "RAILHEAD_FORKS": forks(),
        "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
    }
