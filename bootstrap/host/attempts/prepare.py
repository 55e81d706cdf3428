"""Prepares the hosts of a run to start again.

attempts.prepare RUN HOST as-new|as-it-is   with the run document and the values of secrets as JSON
on stdin

The supervisor does this on the other hosts over ssh, and on the chief last: if another host fails,
the chief still has the files of the failed attempt. `as-new`, for the other Keras, restores a host
to its state before the start, one host after another, because they may share a home; a script that
has written files is not started again. `as-it-is` keeps the files of the program.

The supervisor imports this module at each start of a run, so its functions load the modules that
only a second attempt needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.documents.runs.manifest import Outputs
from railhead.documents.runs.run import RunDocument

from ..base import bounded, json_file, programs
from ..base.programs import BUNDLE
from ..output.recorded import METRICS
from ..run import end_processes, manifest

BLOBS = "~/.railhead/blobs"
# Files in results/ that the program did not write.
OURS = (*manifest.OURS, METRICS, "evaluation.json")
# What libraries write before the first step: compiled modules, and TensorBoard's empty files.
OF_LIBRARIES = ("__pycache__/", "events.out.tfevents.")
LONGEST = 300  # characters of a path
AT_ONCE = 16  # hosts
NO_CONNECTION = 255  # exit code of ssh


@dataclass(frozen=True)
class Fault:
    """Why a host is not ready. `unreachable`: it may come back."""

    host: str
    why: str
    unreachable: bool = False

    def __str__(self) -> str:
        return f"{self.host}: {self.why}"


@dataclass(frozen=True)
class Start:
    """How a run starts again: with this document; `as_new`: without the files that it has
    written."""

    run: RunDocument
    folder: str
    secrets: Mapping[str, str]
    as_new: bool = False


def written(folder: str, outputs: Outputs) -> str:
    """Why the first attempt cannot be undone on the chief: a file that its script wrote; or ""."""
    results = sorted(set(os.listdir(os.path.join(folder, "results"))).difference(OURS))
    files = [path for path, _ in outputs.files if not any(name in path for name in OF_LIBRARIES)]
    paths = [*(f"work/{path}" for path in files), *(f"results/{name}" for name in results)]
    return f"its script has already written {paths[0][:LONGEST]}" if paths else ""


def prepare_hosts(start: Start, cancelled: Callable[[], bool]) -> list[Fault]:
    """Prepare every host, the chief last and only if the others are ready. Returns the faults; a
    run that was cancelled meanwhile is a fault of the chief."""
    others = [index for index in start.run.present if index][::-1]
    if start.as_new:
        outcomes: list[Fault | None] = []
        for index in others:
            outcomes.append(_on_host(start, index))
            if outcomes[-1] or cancelled():
                break
    else:
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(AT_ONCE) as pool:
            outcomes = list(pool.map(lambda index: _on_host(start, index), others))
    faults = [fault for fault in outcomes if fault]
    chief = start.run.hosts[0].name
    if not faults and not cancelled():
        try:
            prepare(start, 0)
        except (OSError, ValueError) as error:
            faults.append(Fault(chief, str(error)))
    return faults or ([Fault(chief, "the run was cancelled")] if cancelled() else [])


def _on_host(start: Start, index: int) -> Fault | None:
    """Run this program on another host."""
    name = start.run.hosts[index].name
    how = "as-new" if start.as_new else "as-it-is"
    words = (programs.PREPARE, start.run.run_id, str(index), how)
    request = {"run": encode(start.run), "secrets": dict(start.secrets)}
    # Secrets do not use the connection of the login check: it has the quick key exchange.
    shared = () if start.secrets else programs.SHARED
    argv = end_processes.command_on_host(start.run, start.folder, index, *words, shared=shared)
    ended = bounded.run(argv, end_processes.REPLY, json.dumps(request))
    unreachable = ended.code in (None, NO_CONNECTION)
    return Fault(name, ended.why, unreachable) if ended.why else None


def prepare(start: Start, host: int) -> None:
    """Create the temporary folders of the run on this host again, with its secrets; if it starts as
    new, restore work/ and results/; write run.json last. Logs and records stay. OSError,
    ValueError: a file cannot be read or written, or is damaged."""
    from railhead.documents.agent.runs import MakeTemporary

    from ..agent import files, temporary

    run, folder, secrets = start.run, start.folder, start.secrets
    if start.as_new:
        restore_work(folder)
        files.drop_others(os.path.join(folder, "results"), {METRICS})
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder, manifest.BEFORE))  # work/ is as new
    temporary.make_temporary(MakeTemporary(folder))
    for name in end_processes.TEMPORARY:  # an agent removes old ones of runs without a process
        os.utime(os.path.join(folder, name), follow_symlinks=False)
    for name in run.secret_files(host) if secrets else ():
        data = json.dumps(dict(secrets)).encode()
        files.replace(os.path.join(folder, "memory", name), data, 0o600)
    json_file.save(os.path.join(folder, "run.json"), run)


def restore_work(folder: str) -> None:
    """Remove the files that the first attempt added to work/, and restore those that it changed."""
    from railhead.documents.agent.files import BundleFile

    from ..agent import files

    work = os.path.join(folder, "work")
    bundle = json_file.read(os.path.join(folder, BUNDLE), tuple[BundleFile, ...])
    files.drop_others(work, {file.path for file in bundle})
    files.put(files.absent(bundle, work), os.path.expanduser(BLOBS), work)


def main(run_id: str, host: str, how: str) -> None:
    """End the remaining processes of the run on this host, which the chief may have lost; prepare
    it."""
    request = json.load(sys.stdin)
    run = decode(RunDocument, request["run"], what="run.json")
    end_processes.end_run(run_id, kept=end_processes.SPARE)
    folder = os.path.join(end_processes.HOME, ".railhead", "runs", run_id)
    prepare(Start(run, folder, request["secrets"], how == "as-new"), int(host))
