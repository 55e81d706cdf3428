"""What locks name, fetched here once and by hash, for hosts without outbound access.

By pip, which every environment made by Python has: uv installs, but hands out no files.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from packaging.requirements import Requirement

from bootstrap.console import log
from bootstrap.errors import RailheadError
from bootstrap.inventory import local_state
from bootstrap.ssh.bundle import Bundle, BundleFile, pack_folder

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
AT_ONCE = 16_000_000  # each transfer costs a far host two turns
Told = Callable[[int], None]


def fetch(locks: Sequence[str], python: str, told: Told) -> Path:
    """The folder with every wheel that a host with this Python takes from these locks; `told`
    hears the bytes that have come.

    Raises:
        RailheadError: one could not be fetched, is not what the lock says, or is no wheel.
    """
    options = ["--only-binary", ":all:", "--implementation", "cp", "--python-version", python]
    options += [word for name in PLATFORMS for word in ("--platform", name)]
    return _fetched(applying(locks, python), options, told)


def fetch_source(lock: str, told: Told) -> Path:
    """The folder with the source distributions that a lock names."""
    return _fetched(lock, ["--no-binary", ":all:", "--no-build-isolation"], told)


def each(folder: Path) -> list[Bundle]:
    """The files in bundles of AT_ONCE bytes, the smallest first: what one transfer brings is kept.
    A larger file goes alone."""
    whole = _packed(folder)
    groups: list[list[BundleFile]] = [[]]
    for file in sorted(whole.files, key=lambda file: (file.size, file.path)):
        if sum(one.size for one in groups[-1]) + file.size > AT_ONCE:
            groups.append([])
        groups[-1].append(file)
    return [replace(whole, files=tuple(group)) for group in groups if group]


@cache
def _packed(folder: Path) -> Bundle:
    return pack_folder(folder, limit=1 << 40)


def applying(locks: Sequence[str], python: str) -> str:
    """The entries of locks that apply on a host with this Python, each once, without markers:
    pip would hold those against the machine that it runs on."""
    world = HOST | {"python_version": python, "python_full_version": f"{python}.0"}
    found: dict[str, str] = {}
    for entry in "\n".join(locks).replace("\\\n", " ").splitlines():
        words, *hashes = entry.split(" --hash=")
        if not words.strip() or words.startswith("#"):
            continue
        wanted = Requirement(words.strip())
        if wanted.marker is None or wanted.marker.evaluate(world):
            pin = f"{wanted.name}{wanted.specifier}"
            found[wanted.name] = " ".join([pin, *(f"--hash={x.strip()}" for x in hashes)])
    return "".join(f"{found[name]}\n" for name in sorted(found))


def _fetched(requirements: str, options: Sequence[str], told: Told) -> Path:
    whole = "\0".join([requirements, *options])
    folder = local_state.cache("wheelhouse") / hashlib.sha256(whole.encode()).hexdigest()[:16]
    # Two who need the same fetch it once.
    with local_state.alone(folder.with_name(f"{folder.name}.lock")):
        if not folder.exists():
            part = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            (part / "files").mkdir(parents=True)
            (part / "coming").mkdir()
            _download(part, requirements, options, told)
            (part / "files").replace(folder)
            shutil.rmtree(part)
    return folder


def _download(part: Path, requirements: str, options: Sequence[str], told: Told) -> None:
    lock, pip_log = part / "lock.txt", part / "log"
    lock.write_text(requirements)
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "download"]
    argv += ["--quiet", "--no-cache-dir", "--no-deps", "--require-hashes", *options]
    argv += ["--dest", str(part / "files"), "--requirement", str(lock)]
    # It copies the files to their place in the end; until then they grow below TMPDIR.
    environment = {**os.environ, "TMPDIR": str(part / "coming")}
    with pip_log.open("wb") as out, log.timed(f"here: {log.shown(shlex.join(argv))}") as notes:
        process = subprocess.Popen(argv, env=environment, stdout=out, stderr=out)
        try:
            while process.poll() is None:
                told(_size(part / "coming"))
                time.sleep(0.5)
        finally:
            process.kill()
            notes.append(f"exit {process.wait()}")
    if process.returncode:
        tail = "\n".join(pip_log.read_text(errors="replace").strip().splitlines()[-4:])
        raise RailheadError(
            f"the wheels for hosts without outbound access were not fetched:\n{tail}"
        )


def _size(folder: Path) -> int:
    """Bytes of the files below a folder whose files come and go."""
    found = 0
    for inside, _, names in os.walk(folder):
        for name in names:
            path = Path(inside, name)
            found += path.stat().st_size if path.exists() else 0
    return found
