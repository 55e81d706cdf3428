"""The whole circle of a stack, typed as docs/stacks.md shows it, on the real engine and hosts:
up, train, stopped, train again, teardown, destroyed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from e2e import kept_environments
from e2e.transcripts import blocks, matches, steady
from engine.clones import clone, environment

__all__ = ["clone"]


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
