"""The whole circle of a stack, typed as docs/stacks.md shows it, on the real engine and hosts:
up, train, stopped, train again, teardown, destroyed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from e2e import kept_environments
from e2e.transcripts import blocks, matches, steady
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


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_up_train_stopped_train_again_teardown_destroyed(
    engine: Path, clone: Path, shared_caches: Path
) -> None:
    env = environment(clone, engine, shared_caches)
    (block,) = blocks("stacks.md", "stack")
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        done = subprocess.run(
            ["sh", "-c", command], cwd=clone, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        printed = steady(done.stdout, {str(clone.parent): "~"})
        message = f"$ {command}\nprinted:\n{done.stdout}\nthe page says:\n{expected}"
        assert done.returncode == 0 and matches(steady(expected, {}), printed), message
        if command.startswith("pulumi up"):
            with kept_environments.alone(shared_caches) as kept:
                kept_environments.give_to_hosts(kept, clone.parent)
