"""uv, the installer: this machine's copy, and the same release for the hosts. It never downloads
a Python."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from bootstrap.errors import RailheadError
from bootstrap.inventory import local_state
from bootstrap.plan.runtimes import LOCKS, uv_digest
from bootstrap.ssh.bundle import Bundle, pack_folder

ENVIRONMENT = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1", "NO_COLOR": "1"}


def local_uv() -> str:
    """The uv of the control environment."""
    return str(Path(sys.executable).parent / "uv")


def uv_for_hosts() -> Bundle:
    """The uv binary for Linux on x86_64, whatever this machine is; fetched once, by hash."""
    with _FETCHING_UV:
        return _uv_for_hosts()


_FETCHING_UV = threading.Lock()


def _uv_for_hosts() -> Bundle:
    folder = local_state.cache("uv-for-hosts") / uv_digest()
    if not (folder / "uv").exists():
        part = folder.with_name(f"{folder.name}.part")
        argv = [local_uv(), "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        argv += ["--python-platform", "x86_64-manylinux_2_28", "--no-config"]
        argv += ["--target", str(part), "-r", str(LOCKS / "uv.txt")]
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            raise RailheadError(f"uv for the hosts could not be fetched:\n{done.stderr.strip()}")
        folder.mkdir(parents=True, exist_ok=True)
        (part / "bin" / "uv").replace(folder / "uv")
    return pack_folder(folder)
