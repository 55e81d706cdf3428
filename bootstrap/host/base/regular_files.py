"""Regular files of a host, opened without following a link or waiting for a FIFO."""

from __future__ import annotations

import hashlib
import os
import stat
from typing import IO


def open_regular(path: str) -> IO[bytes]:
    """Open a regular file for reading; OSError for links, FIFOs, devices and sockets."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{path} is not a regular file")
    return os.fdopen(descriptor, "rb")


def size_and_sha256(path: str) -> tuple[int, str]:
    """A regular file's bytes and sha256."""
    digest, size = hashlib.sha256(), 0
    with open_regular(path) as file:
        while data := file.read(1 << 20):
            digest.update(data)
            size += len(data)
    return size, digest.hexdigest()
