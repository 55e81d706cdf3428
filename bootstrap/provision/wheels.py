"""Wheels for hosts without outbound access: downloaded here by hash, then sent over SSH.

pip downloads them, because uv installs wheels but cannot save them as files.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from railhead.documents.agent.files import BundleFile

from ..console import log
from ..console.output import ByteReporter, TransferReporter
from ..console.text import clean
from ..console.threads import in_one_thread
from ..errors import RailheadError
from ..inventory import caches, local_state
from ..ssh.bundle import Bundle, pack_folder
from ..ssh.session import BLOBS, Session
from . import uv

GLIBC = 35  # of Ubuntu 22.04, the oldest system that is supported
PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)]
PLATFORMS += ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"]
HOST = {
    "implementation_name": "cpython",
    "os_name": "posix",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "platform_system": "Linux",
    "sys_platform": "linux",
}
SOURCES_ONLY = ("--no-binary", ":all:", "--no-build-isolation")
FOLDER = "~/.railhead/wheelhouse"
FOR_UV = ("--offline", "--no-index", "--find-links", FOLDER)
FOR_PIP = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": FOLDER}
AT_ONCE = 16_000_000  # bytes per transfer; each transfer costs two network round trips


def python_version(session: Session, python: str) -> str:
    """The version of a Python on a host, such as "3.11.4". RailheadError: it does not work."""
    code = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
    reply = session.run([python, "-I", "-c", code])
    version = reply.tail[-1].strip() if reply.tail else ""
    if reply.rc or not re.fullmatch(r"3(\.\d{1,3}){2}", version, re.ASCII):
        shown = clean("; ".join(reply.tail[-2:]))
        raise RailheadError(f"the runtime's Python does not work: {shown}")
    return version


def fetch(locks: Sequence[str], python: str, report: ByteReporter) -> Path:
    """The folder with every wheel that a host with this Python, such as "3.11.4", needs from these
    locks; `report` gets the bytes downloaded so far. RailheadError: a download failed, its hash is
    not in the lock, or it is not a wheel."""
    return _fetched(applying(locks, python), _wheels_only(python), report)


def fetch_source(lock: str, report: ByteReporter) -> Path:
    """The folder with the source distributions that a lock names."""
    return _fetched(lock, SOURCES_ONLY, report)


def _wheels_only(python: str) -> list[str]:
    """pip's options for wheels that run on a host with this Python."""
    minor = python.rpartition(".")[0]
    options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", minor]
    return options + [arg for name in PLATFORMS for arg in ("--platform", name)]


def bundles_of(folder: Path) -> list[Bundle]:
    """The files in bundles of at most AT_ONCE bytes, the smallest first, so that an interrupted
    transfer loses little. A larger file has its own bundle."""
    bundle = _packed(folder)
    groups: list[list[BundleFile]] = [[]]
    for file in sorted(bundle.files, key=lambda file: (file.size, file.path)):
        if sum(packed.size for packed in groups[-1]) + file.size > AT_ONCE:
            groups.append([])
        groups[-1].append(file)
    return [replace(bundle, files=tuple(group)) for group in groups if group]


@in_one_thread
@cache
def _packed(folder: Path) -> Bundle:
    return pack_folder(folder, limit=1 << 40)


def applying(locks: Sequence[str], python: str) -> str:
    """The entries of locks that apply on a host with this Python ("3.11.4"), each once, without
    markers, which pip would evaluate for the machine that it runs on."""
    from packaging.requirements import Requirement  # 40 ms, not for hosts that are ready

    minor = python.rpartition(".")[0]
    markers = HOST | {"python_version": minor, "python_full_version": python}
    pins: dict[str, str] = {}
    for entry in "\n".join(locks).replace("\\\n", " ").splitlines():
        requirement, *hashes = entry.split(" --hash=")
        if not requirement.strip() or requirement.startswith("#"):
            continue
        pinned = Requirement(requirement.strip())
        if pinned.marker is None or pinned.marker.evaluate(markers):
            pin = f"{pinned.name}{pinned.specifier}"
            pins[pinned.name] = " ".join([pin, *(f"--hash={x.strip()}" for x in hashes)])
    return "".join(f"{pins[name]}\n" for name in sorted(pins))


def _folder(requirements: str, options: Sequence[str]) -> Path:
    key = "\0".join([requirements, *options])
    return caches.cache("wheelhouse") / hashlib.sha256(key.encode()).hexdigest()[:16]


def _fetched(requirements: str, options: Sequence[str], report: ByteReporter) -> Path:
    folder = _folder(requirements, options)
    return local_state.filled_once(
        folder, lambda partial: _download(partial, requirements, options, report)
    )


def _download(
    folder: Path, requirements: str, options: Sequence[str], report: ByteReporter
) -> None:
    """Download wheels into `folder`; pip works next to it."""
    lock, pip_log, incoming = (folder.with_name(name) for name in ("lock.txt", "log", "incoming"))
    lock.write_text(requirements)
    incoming.mkdir()
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    argv += ["--quiet", "--no-cache-dir", "--no-deps", "--require-hashes", *options]
    argv += ["--ignore-requires-python"]  # pip takes "3.11" for 3.11.0; the lock decides
    argv += ["--dest", str(folder), "--requirement", str(lock)]
    # pip copies the files to --dest at the end; until then they grow below TMPDIR.
    environment = {**uv.variables(), "TMPDIR": str(incoming)}
    with (
        pip_log.open("wb") as out,
        log.started(
            argv, env=environment, cwd="/", stdin=subprocess.DEVNULL, stdout=out, stderr=out
        ) as process,
    ):
        try:
            report(0)
            while not _has_ended(process, within=0.5):
                report(_size(incoming))
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        tail = "\n".join(pip_log.read_text(errors="replace").strip().splitlines()[-4:])
        raise RailheadError(
            f"the wheels for hosts without outbound access could not be downloaded:\n{tail}"
        )


def _has_ended(process: subprocess.Popen[Any], within: float) -> bool:
    """Whether a process has ended, or ends `within` this number of seconds."""
    try:
        process.wait(within)
    except subprocess.TimeoutExpired:
        return False
    return True


def _size(folder: Path) -> int:
    """The size in bytes of a folder whose files appear and disappear."""
    total = 0
    for inside, _, names in os.walk(folder):
        for name in names:
            path = Path(inside, name)
            total += path.stat().st_size if path.exists() else 0
    return total


@contextmanager
def deliver(session: Session, folder: Path, report: TransferReporter) -> Iterator[None]:
    """Copy the files of `folder` to FOLDER on the host for the duration of the block; `report` gets
    the bytes sent so far, and those of all files. After a failure they stay on the host, so that
    the next attempt sends only the rest."""
    bundles = bundles_of(folder)
    total = sum(bundle.total_bytes for bundle in bundles)
    before = 0

    def sent(count: int, of: int) -> None:
        report(before + count, total)

    for bundle in bundles:
        session.send_tree(bundle, FOLDER, prune=False, on_sent=sent)
        before += bundle.total_bytes
    yield
    contents = (f"{BLOBS}/{file.sha256}" for bundle in bundles for file in bundle.files)
    session.remove(FOLDER, *contents)
