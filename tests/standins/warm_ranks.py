"""Ranks of built-in trainings on local hosts as forks of one process that has TensorFlow imported.

To import it takes each rank 4 CPU seconds. A run's own spare saves them from its second attempt on;
here there is one before the first. A run with `--no-spare`, with another runtime or with a script
starts as usual.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from e2e import kept_environments

from bootstrap.host.base import process_text

from . import programs

# In whose place the variables of a run are shown later, and its command.
ROOM = "-" * 1000
SERVER = Path(__file__).with_name("warm_rank_server.py")


SERVERS: list[subprocess.Popen[bytes]] = []  # of this process; its input is open while this runs


def serve(home: Path, caches: Path) -> None:
    """From now on, also for the runs on the local hosts in this home."""
    python = kept_environments.kept_python(caches, kept_environments.DEFAULT)
    if python and not SERVERS:
        SERVERS.append(started(python))
    for server in SERVERS:
        assert server.stdin
        server.stdin.write(f"{home}\n".encode())
        server.stdin.flush()


def started(python: str) -> subprocess.Popen[bytes]:
    """A server, which ends when its input does: with this process."""
    from time_budgets import HELPERS  # not before pytest has loaded this plugin

    folder = Path(tempfile.mkdtemp(prefix="railhead-warm-"))
    digest = Path(python).parents[1].name
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "KERAS_HOME": str(folder)}
    process = subprocess.Popen(
        [python, str(SERVER), str(programs.place(folder)), digest, ROOM],
        env={**environment, **process_text.room(), "MARKS_OF_A_RUN": ROOM},
        cwd=folder,
        stdin=subprocess.PIPE,
        start_new_session=True,
    )
    HELPERS.add(process.pid)
    return process
