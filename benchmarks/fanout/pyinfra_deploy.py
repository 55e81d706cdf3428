"""The job by pyinfra in its fastest form: rsync for the tree, not its own `files.sync`."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path

from pyinfra import host  # type: ignore[import-not-found]
from pyinfra.facts.server import Command  # type: ignore[import-not-found]
from pyinfra.operations import files  # type: ignore[import-not-found]

JOB = json.loads(Path(os.environ["FANOUT_JOB"]).read_text())
for command in os.environ["FANOUT_COMMANDS"].splitlines():
    assert host.get_fact(Command, command)

if os.environ["FANOUT_PHASE"] == "whole":
    place = host.data.place
    files.directory(path=place)
    files.put(src=StringIO(host.data.config), dest=f"{place}/config", mode="644")
    files.put(src=StringIO(JOB["hostfile"]), dest=f"{place}/hostfile", mode="644")
    files.rsync(src=JOB["tree"] + "/", dest=f"{place}/tree/", flags=["-a", "--delete"])
