"""The folder of a run, and a rank that is started in it as mpirun does."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from standins import programs
from standins.runs.run_documents import run_json

from bootstrap.host.base.programs import NAME


def lay_out(folder: Path, program: dict[str, Any], **changes: Any) -> None:
    """A run's folder with one rank; others are left out, so that it joins none."""
    run = run_json(**{"program": program, "launcher": "tensorflow", "independent": True, **changes})
    (folder / "run.json").write_text(json.dumps(run))
    programs.place(folder)


def rank(
    folder: Path, *, number: int = 0, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    """Run one rank as mpirun does; its lines get their usual ends back."""
    world = {"OMPI_COMM_WORLD_RANK": str(number), "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    done = started(command(folder, python), folder / "work", world)
    done.stdout = text_of(done.stdout)
    return done


def text_of(frames: str) -> str:
    """What a rank has printed, from the frames that mpirun receives, without its times and what its
    helper measured."""
    frames = re.sub("[\n\x1a\x1c\x1d\x1f]", "", frames).replace("\x1e", "\n")
    frames = re.sub('@railhead {"kind": "energy".*\n', "", frames)
    return re.sub("\x19\\d+\x19", "", frames)


def command(folder: Path, python: str = sys.executable) -> list[str]:
    """The command that starts a rank."""
    return [python, str(folder / NAME), "rank.rank", str(folder)]


def beating_rank(folder: Path, **more: Any) -> subprocess.Popen[bytes]:
    """Start one rank, with heartbeats ten times a second in its output."""
    programs.change(folder, "rank/rank.py", "BEAT = 5.0", "BEAT = 0.1")
    world = {"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **world}
    return subprocess.Popen(
        command(folder), cwd=folder / "work", env=environment, stdout=subprocess.PIPE, **more
    )


def started(
    argv: list[str], cwd: Path, more: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Both streams as one, as a run's log has them."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), **(more or {})}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    return subprocess.run(
        argv,
        cwd=cwd,
        env=environment,
        encoding="utf-8",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=100,
    )


def script(folder: Path, text: str, path: str = "train.py", *args: str) -> dict[str, Any]:
    """Put a script into work/; the program of a run."""
    place = folder / "work" / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    return {"kind": "script", "path": path, "args": list(args)}
