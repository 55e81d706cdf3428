"""The archive of what runs on hosts, and how its processes are known."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import unwrap
from pathlib import Path
from typing import Any

import pytest
from standins.programs import place

from bootstrap.console.threads import in_threads
from bootstrap.host.base import programs
from bootstrap.host.base.programs import ENDPOINT, NAME, STANDBY, SUPERVISOR
from bootstrap.inventory import host_programs as sent

SLEEP = "import sys; print('started', flush=True); sys.stdin.read()\n"


def test_equal_sources_give_an_equal_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its digest names a folder on hosts, whatever order the files are found in."""
    rglob, usual = Path.rglob, sent.archive()
    monkeypatch.setattr(Path, "rglob", lambda *args: sorted(rglob(*args))[::-1])
    assert sent.packed_from(sent.sources()) == usual
    names = zipfile.ZipFile(io.BytesIO(usual)).namelist()
    assert {"__main__.py", "host/rank/rank.py", "railhead/documents/codec.py"} < {*names}


def test_an_archive_is_made_once_for_a_python(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = unwrap(sent.archive)()
    monkeypatch.setattr(sent, "packed_from", lambda _: b"made again")
    assert unwrap(sent.archive)() == made
    monkeypatch.setattr(sys, "version", "another")
    assert unwrap(sent.archive)() == b"made again"
    assert len([*tmp_path.glob("railhead/programs/*")]) == 2


def test_hosts_that_start_at_once_share_one_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each would take a second of CPU."""
    made, another = [], threading.Barrier(2)

    def recorded(modules: dict[str, bytes]) -> bytes:
        made.append(modules)
        with contextlib.suppress(threading.BrokenBarrierError):
            another.wait(0.3)  # for a thread that makes it too
        return b"made"

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sent, "packed_from", recorded)
    cached: Any = sent.archive.__wrapped__  # type: ignore[attr-defined]
    cached.cache_clear()
    try:
        of_hosts = in_threads(lambda _: sent.archive(), range(4), at_once=4)
    finally:
        cached.cache_clear()
    assert (of_hosts, len(made)) == ([b"made"] * 4, 1)


def test_a_disk_without_room_for_the_archive_ends_no_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A file in place of a folder, because root may write everywhere."""
    (tmp_path / "railhead").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert unwrap(sent.archive)() == sent.archive()


# An agent that syncs files, and then what it has loaded and made.
SYNCS = """
import dataclasses, io, json, sys
made, process = [], dataclasses._process_class
def counted(cls, *given):
    made.append(cls.__name__)
    return process(cls, *given)
dataclasses._process_class = counted
sys.path.insert(0, sys.argv[1])
from host.agent import agent
tree = {"op": "tree", "manifest": [], "blobs": "blobs", "dest": "dest"}
sys.stdin = io.TextIOWrapper(io.BytesIO(json.dumps(tree).encode() + b"\\n0\\n"))
agent.os._exit = lambda code: None
agent.main()
ours = [one for name, one in sys.modules.items() if name.split(".")[0] in ("host", "railhead")]
print(json.dumps([made, len(ours), [one.__file__[-4:] for one in ours]]))
"""


def test_a_host_makes_the_classes_and_loads_the_modules_that_it_uses(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(sent.archive())
    argv = [sys.executable, "-I", "-S", "-c", SYNCS, str(tmp_path / NAME)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=tmp_path)
    *answers, last = done.stdout.splitlines()
    made, modules, endings = json.loads(last)
    assert json.loads(answers[-1])["ok"] == {"sent": 0, "changed": []} and "Tree" in made
    assert len(made) <= 10 and modules <= 16 and {*endings} == {".pyc"}


# A run waits for each of these: for their modules, and for what they load of Python.
LOADS = {
    "run.cluster_key": (7, {"dataclasses", "hashlib", "tempfile", "typing"}),
    "supervisor.supervisor": (70, {"csv", "decimal", "inspect", "pathlib", "shutil", "traceback"}),
    "rank.rank": (42, {"getpass", "hashlib", "inspect", "tempfile", "pathlib"}),
    "agent.agent": (13, {"hashlib", "inspect", "shutil", "subprocess", "tempfile"}),
    "agent.files": (15, {"inspect", "shutil", "tarfile"}),
    "agent.runs": (32, {"ctypes", "decimal", "inspect", "pathlib", "subprocess"}),
    "run.closing": (25, {"inspect", "shutil"}),
    "run.end_processes": (31, {"inspect", "shutil"}),
}


@pytest.mark.parametrize("program", LOADS)
def test_a_program_of_a_start_loads_what_it_needs(tmp_path: Path, program: str) -> None:
    (tmp_path / NAME).write_bytes(sent.archive())
    text = (
        f"import sys; sys.path.insert(0, sys.argv[1]); import host.{program}; print(*sys.modules)"
    )
    argv = [sys.executable, "-I", "-S", "-c", text, str(tmp_path / NAME)]
    names = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    ours = [name for name in names if name.split(".")[0] in ("host", "railhead")]
    most, without = LOADS[program]
    assert len(ours) <= most and not without & {*names}, (len(ours), without & {*names})


@contextmanager
def process(*words: str) -> Iterator[int]:
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout and child.stdout.readline()
        yield child.pid
        child.communicate()


def test_a_program_is_known_by_the_archive_that_it_is_started_from(tmp_path: Path) -> None:
    """Not by its name alone: a user's program may have it as an argument."""
    archive, other = tmp_path / NAME, tmp_path / "train.py"
    archive.write_text(SLEEP)
    other.write_text(SLEEP)
    with process(sys.executable, str(archive), SUPERVISOR, "--fast") as pid:
        assert programs.process_folder(pid, SUPERVISOR) == str(tmp_path)
        assert programs.process_folder(pid, ENDPOINT) == ""
        assert str(tmp_path) in programs.folders_of(SUPERVISOR)
    with process(sys.executable, str(archive), "takeover.standby") as pid:  # of an earlier version
        assert programs.process_folder(pid, STANDBY) == str(tmp_path)
        assert programs.process_folder(pid, SUPERVISOR) == ""
    for words in ([SUPERVISOR], [str(archive)], [NAME, "x", SUPERVISOR], ["supervisor.py"]):
        with process(sys.executable, str(other), *words) as pid:
            assert programs.process_folder(pid, SUPERVISOR) == ""
    assert programs.process_folder(pid, SUPERVISOR) == ""  # it has ended


def test_a_program_of_a_user_has_no_module_of_the_archive(tmp_path: Path) -> None:
    """Neither on sys.path nor in sys.modules."""
    (tmp_path / NAME).write_bytes(sent.archive())
    look = """
import sys
sys.path.insert(0, sys.argv[1])
import host.agent.agent, railhead.documents.codec
from railhead.documents.agent.files import Tree
from host.base import programs
from host.rank import rank
assert rank.is_ours(rank.outcome.__code__.co_filename)
programs.leave()
assert Tree((), "blobs", "dest").dest == "dest", "a class that is made now"
import json, os
ours = [name for name in sys.modules if name.partition(".")[0] in ("host", "railhead")]
print(json.dumps([ours, sys.argv[1] in sys.path, programs.command(programs.SUPERVISOR)[3]]))
"""
    argv = [sys.executable, "-I", "-S", "-c", look, str(tmp_path / NAME)]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, cwd=os.sep)
    assert done.stdout == f'[[], false, "{tmp_path / NAME}"]\n'


# What only some runs need, or only a failed one.
LATER = {
    SUPERVISOR: {
        *("host.agent.files", "host.causes.causes", "host.upload.live_upload"),
        *("host.stall.diagnosis", "host.buckets", "statistics", "tarfile"),
    },
    "rank.rank": {
        *("host.causes.causes", "railhead.keras_patches.rows", "host.rank.rank_data"),
        *("importlib.abc", "host.run.end_processes"),
    },
}


@pytest.mark.parametrize("program", LATER)
def test_a_program_loads_only_what_each_run_needs(program: str, tmp_path: Path) -> None:
    """A host compiles all that it loads, at each start."""
    look = "import sys, importlib; sys.path.insert(0, sys.argv[1]); "
    look += "importlib.import_module(sys.argv[2]); print(*sys.modules)"
    argv = [sys.executable, "-I", "-S", "-c", look, str(place(tmp_path)), f"host.{program}"]
    loaded = {*subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()}
    assert f"host.{program}" in loaded and not loaded & LATER[program]
