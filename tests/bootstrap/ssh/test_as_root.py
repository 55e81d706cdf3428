"""Scripts that run as root on a host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bootstrap.ssh.as_root import as_root


@pytest.mark.parametrize(("uid", "prefix"), [(0, ""), (1000, "sudo -n ")])
def test_a_script_runs_as_root_and_never_reads_the_channel(
    tmp_path: Path, uid: int, prefix: str
) -> None:
    for name, body in (("id", f"echo {uid}"), ("sudo", 'echo "sudo $1"; shift; exec "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    command = as_root("cat; echo 'it ran'; echo failed >&2")
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    sh = ["sh", "-c", command]
    done = subprocess.run(sh, input="of the channel", env=env, capture_output=True, text=True)
    lines = ["sudo -n"] if prefix else []
    assert done.stdout.splitlines() == [*lines, "it ran", "failed"]
    assert not done.stderr
