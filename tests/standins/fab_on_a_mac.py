"""`fab` on a computer that is not Linux, as far as Python can pretend: macOS on ARM.

It has no /proc and no /dev/shm, none of Linux's functions, and on PATH only what macOS has, too.
"""

from __future__ import annotations

import importlib
import os
import platform
import shutil
import socket
import sys
import tempfile
from pathlib import Path

TOOLS = ("sh", "ssh", "ssh-keygen", "cat", "uname", "git", "env", "df", "du")
OF_LINUX = {
    os: ("memfd_create", "pidfd_open", "sched_getaffinity", "sched_setaffinity", "getrandom"),
    socket: ("SO_PEERCRED", "TCP_USER_TIMEOUT", "SO_BINDTODEVICE"),
}
# Of the standard library: they import other modules of a Python that was built for macOS.
STANDARD = ("asyncio", "ctypes.util", "multiprocessing", "subprocess", "urllib.request", "uuid")
MISSING = ("/proc", "/dev/shm", "/sys")


def refuse_linux(event: str, arguments: tuple[object, ...]) -> None:
    """No file of Linux is there: an audit hook."""
    if event in ("open", "os.listdir", "os.scandir") and str(arguments[0]).startswith(MISSING):
        raise FileNotFoundError(2, os.strerror(2), arguments[0])


for standard in STANDARD:
    importlib.import_module(standard)
for module, names in OF_LINUX.items():
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "darwin"
platform.system, platform.machine = lambda: "Darwin", lambda: "arm64"
folder = Path(tempfile.mkdtemp())
for tool in TOOLS:
    if path := shutil.which(tool):
        (folder / tool).symlink_to(path)
os.environ["PATH"] = str(folder)
sys.addaudithook(refuse_linux)

from bootstrap.cli.program import main  # noqa: E402

main()
