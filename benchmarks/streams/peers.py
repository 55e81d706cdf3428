"""The first record of s3://data/large by another client; prints the seconds, its import left out.

    PYTHON peers.py "s5cmd cp"|"s3fs get"|"s3fs open"

The first two copy everything to a folder and read it then; `s3fs open` reads from the bucket.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

PREFIX, FIRST = "data/large", "shard-0"


def s5cmd_cp(folder: str) -> IO[bytes]:
    program = Path(sys.executable).with_name("s5cmd")
    command = [str(program), "--endpoint-url", os.environ["AWS_ENDPOINT_URL"]]
    command += ["cp", f"s3://{PREFIX}/*", folder]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return Path(folder, FIRST).open("rb")


def s3fs_get(folder: str) -> IO[bytes]:
    filesystem().get(f"{PREFIX}/", f"{folder}/", recursive=True)
    return Path(folder, FIRST).open("rb")


def s3fs_open(folder: str) -> IO[bytes]:
    opened: IO[bytes] = filesystem().open(f"{PREFIX}/{FIRST}", "rb")
    return opened


def filesystem() -> Any:
    import s3fs  # type: ignore[import-not-found]

    return s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def read_record(file: IO[bytes]) -> bytes:
    """A TFRecord's data; its CRC is not checked."""
    (length,) = struct.unpack("<Q4x", file.read(12))
    return file.read(length)


def main() -> None:
    """Print the seconds."""
    clients: dict[str, Callable[[str], IO[bytes]]] = {
        "s5cmd cp": s5cmd_cp,
        "s3fs get": s3fs_get,
        "s3fs open": s3fs_open,
    }
    name = sys.argv[1]
    if name.startswith("s3fs"):
        filesystem()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        with clients[name](folder) as file:
            assert len(read_record(file)) > 100_000
        print(time.monotonic() - begin)


if __name__ == "__main__":
    main()
