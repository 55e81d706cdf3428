"""Prepares the hosts of a run to start again with the other Keras, as they were before its start.

keras_retry.prepare RUN KERAS HOST   with the values of secrets as JSON on stdin

The supervisor does this on the other hosts over ssh, one after the other because they may share a
home, and on the chief last: where another host fails, the chief's files are those of the first
attempt. A script that has written files is not started again.
Standard library only, Python 3.10.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace

from railhead.documents.agent import BundleFile, MakeTemporary
from railhead.documents.manifest import Outputs
from railhead.documents.result import other_keras
from railhead.documents.run import RunDocument

from ..agent import files
from ..agent.temporary import make_temporary
from ..programs import BUNDLE
from ..run import bounded, end_processes, json_file, manifest

BLOBS = "~/.railhead/blobs"
METRICS = "metrics.jsonl"
# What a run has in results/ besides the files of its program.
OURS = (*manifest.OURS, METRICS, "evaluation.json")
LONGEST = 300  # characters of a reason


def written(folder: str, outputs: Outputs) -> str:
    """Why the first attempt is not undone on the chief: a file that its script wrote; or ""."""
    results = sorted(set(os.listdir(os.path.join(folder, "results"))).difference(OURS))
    own = [path for path, _ in outputs.files if "__pycache__" not in path.split("/")]
    paths = [*(f"work/{path}" for path in own), *(f"results/{name}" for name in results)]
    return f"its script has already written {paths[0][:LONGEST]}" if paths else ""


def prepare_hosts(
    run: RunDocument, folder: str, secrets: Mapping[str, str], cancelled: Callable[[], bool]
) -> str:
    """Prepare every host, the chief last; returns the first host that failed and why, or ""."""
    for index in range(len(run.hosts) - 1, 0, -1):
        if why := _on_host(run, folder, index, secrets):
            return f"{run.hosts[index].name}: {why}"
        if cancelled():
            return "the run was cancelled"
    try:
        prepare(folder, other_keras(run.keras), 0, secrets)
    except (OSError, ValueError) as error:
        return f"{run.hosts[0].name}: {error}"
    return "the run was cancelled" if cancelled() else ""


def _on_host(run: RunDocument, folder: str, index: int, secrets: Mapping[str, str]) -> str:
    """Run this program on another host; returns why it failed, or ""."""
    program = f"keras_retry.prepare {run.run_id} {other_keras(run.keras)} {index}"
    argv = end_processes.command_on_host(run, folder, index + 1, program)
    try:
        ended = bounded.run(argv, end_processes.REPLY, json.dumps(dict(secrets)))
    except OSError as error:
        return str(error)
    if ended.code is None:
        return f"no answer within {end_processes.REPLY:g} seconds"
    last = (ended.err.strip().splitlines() or [f"exit code {ended.code}"])[-1]
    return last[-LONGEST:] if ended.code else ""


def prepare(folder: str, keras: int, host: int, secrets: Mapping[str, str]) -> None:
    """Restore work/, results/ and the temporary folders of the run on this host; last, write the
    other Keras to run.json. Logs and records stay.

    Raises:
        OSError, ValueError: a file cannot be read or written, or is damaged.
    """
    run = json_file.read(os.path.join(folder, "run.json"), RunDocument)
    restore_work(folder)
    files.drop_others(os.path.join(folder, "results"), {METRICS})
    make_temporary(MakeTemporary(folder))
    for name in end_processes.TEMPORARY:  # an agent removes those of old runs without a process
        os.utime(os.path.join(folder, name), follow_symlinks=False)
    for name in run.secret_files(host) if secrets else ():
        data = json.dumps(dict(secrets)).encode()
        files.replace(os.path.join(folder, "memory", name), data, 0o600)
    json_file.save(os.path.join(folder, "run.json"), replace(run, keras=keras, keras_auto=False))


def restore_work(folder: str) -> None:
    """Remove what the first attempt added to work/, and place again what it changed."""
    work = os.path.join(folder, "work")
    bundle = json_file.read(os.path.join(folder, BUNDLE), tuple[BundleFile, ...])
    files.drop_others(work, {file.path for file in bundle})
    for file in bundle:
        files.place(file, os.path.expanduser(BLOBS), work)


def main(run_id: str, keras: str, host: str) -> None:
    """Prepare this host."""
    folder = os.path.join(end_processes.HOME, ".railhead", "runs", run_id)
    prepare(folder, int(keras), int(host), json.load(sys.stdin))
