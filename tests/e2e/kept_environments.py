"""Runtimes that an earlier bootstrap installed, kept in the caches between hosts and between runs.

An environment's name is the digest of everything that goes into it (locks, wheel, scripts), and it
is kept only after a bootstrap that succeeded. So a kept one is what the same bootstrap would
install again, in a tenth of the time; after a change it has another name, and is installed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from file_lock import locked

from bootstrap.plan.runtimes import ROWS, Environment, Runtime

DAYS = 7  # an environment that no test used for so long is removed
FOLDER = "railhead/test-environments"
DEFAULT, NEWEST, JAX = "tf2.18", "tf2.21", "jax0.6"


def of_hosts(home: Path) -> list[Path]:
    """The folders of environments of the local hosts in `home`, whether they exist or not."""
    hosts = sorted(home.glob(".railhead/clusters/*/hosts/*/home"))
    return [host / ".railhead/envs" for host in hosts]


@contextlib.contextmanager
def alone(caches: Path) -> Iterator[Path]:
    """The folder of kept environments, while no other worker installs or copies one."""
    folder = caches / FOLDER
    with locked(folder / "lock"):
        yield folder


def give_to_hosts(folder: Path, home: Path, row: str = DEFAULT) -> None:
    """Put the kept environments of a row of the runtimes on the local hosts in `home`, as hard
    links."""
    for digest in digests_of(row):
        environment = folder / digest
        if not (environment / ".ok").exists():
            continue
        os.utime(environment)
        for envs in of_hosts(home):
            if not envs.parent.exists():
                envs.parent.mkdir(mode=0o700)  # as a bootstrap does
            _copy(environment, envs / digest)


def python_of(home: Path, row: str = DEFAULT) -> str:
    """The python of a row's runtime on the first local host in `home`, which is ready."""
    (folder,) = [path for path in of_hosts(home)[0].iterdir() if path.name in digests_of(row)]
    return str(folder / "bin/python")


def kept_python(caches: Path, row: str) -> str | None:
    """The python of a row's runtime among the kept environments; None where none was kept."""
    with alone(caches) as folder:
        for digest in digests_of(row):
            if (folder / digest / ".ok").exists():
                os.utime(folder / digest)  # not removed while it is used
                return str(folder / digest / "bin/python")
    return None


def digests_of(row: str) -> list[str]:
    """The names of the environments of a row of the runtimes, without further packages."""
    runtime = Runtime(ROWS[row], gpu=False)
    return [Environment(runtime, python, "").digest for python in ROWS[row].pythons]


def keep(folder: Path, home: Path) -> None:
    """Keep the complete environments of the first host in `home`, and remove those out of use."""
    for marker in of_hosts(home)[0].glob("*/.ok"):
        if not (marker.parent / "lib").is_symlink():  # else a test's stand-in for one
            _copy(marker.parent, folder / marker.parent.name)
    for marker in folder.glob("*/.ok"):
        if marker.parent.stat().st_mtime < time.time() - DAYS * 86400:
            shutil.rmtree(marker.parent)


def give_bytecode(caches: Path, row: str = DEFAULT) -> None:
    """Put the bytecode of a row's kept environment beside its sources in uv's cache, whose files
    they are: an installation then has both. Python takes 12 CPU seconds to compile TensorFlow."""
    if not (python := kept_python(caches, row)):
        return
    cached = [
        package
        for archive in (caches / "railhead/uv/archive-v0").glob("*")
        for package in archive.glob("*/__init__.py")
    ]
    by_inode = {path.stat().st_ino: path.parent for path in cached}
    installed = Path(python).parents[1].glob("lib/python*/site-packages/*/__init__.py")
    for path in installed:
        if package := by_inode.get(path.stat().st_ino):
            _link_bytecode(path.parent, package)


def _link_bytecode(installed: Path, package: Path) -> None:
    if (package / "__pycache__").exists():
        return
    for file in installed.rglob("__pycache__/*.pyc"):
        target = package / file.relative_to(installed)
        target.parent.mkdir(exist_ok=True)
        if not target.exists():  # some wheels have bytecode
            target.hardlink_to(file)


def _copy(environment: Path, target: Path) -> None:
    """Copy an environment with its lock, unless it is there; a copy is complete or absent."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(environment, part, symlinks=True, copy_function=os.link)
    lock = environment.with_name(f"{environment.name}.lock.txt")
    if lock.exists():
        shutil.copy(lock, target.with_name(lock.name))
    part.rename(target)
