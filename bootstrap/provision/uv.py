"""uv, the package installer: this computer's copy, and the same release for the hosts. It never
downloads a Python."""

from __future__ import annotations

from pathlib import Path

from uv import find_uv_bin

from ..console import log
from ..errors import RailheadError
from ..inventory import local_state
from ..inventory.files import atomic_folder
from ..plan.runtimes import LOCKS, uv_digest
from ..ssh.bundle import Bundle, pack_folder

FOLDER = f"~/.railhead/uv/{uv_digest()}"  # on a host
PROGRAM = f"{FOLDER}/uv"
ENVIRONMENT = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1", "NO_COLOR": "1"}


def local_uv() -> str:
    """The path of the uv that was installed with Railhead."""
    return find_uv_bin()


def uv_for_hosts() -> Bundle:
    """The uv binary for Linux on x86_64, on any control machine; downloaded once, by hash."""
    folder = local_state.cache("uv-for-hosts") / uv_digest()
    with local_state.alone(folder.with_name(f"{folder.name}.lock")):
        if not (folder / "uv").exists():
            _fetch_uv(folder)
    return pack_folder(folder)


def _fetch_uv(folder: Path) -> None:
    argv = [local_uv(), "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    argv += ["--python-platform", "x86_64-manylinux_2_28", "--no-config"]
    with atomic_folder(folder) as part:
        target = part.with_name("target")
        argv += ["--target", str(target), "-r", str(LOCKS / "uv.txt")]
        process = log.run(argv, capture_output=True)
        if process.returncode:
            raise RailheadError(f"uv for the hosts could not be fetched:\n{process.stderr.strip()}")
        (target / "bin/uv").replace(part / "uv")
