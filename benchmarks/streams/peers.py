"""The first record of data/large by another client; prints the seconds, its import left out.

    PYTHON peers.py "s5cmd cp"|"s3fs get"|"s3fs open"|"gcsfs get"|"gcsfs open"

`cp` and `get` copy everything to a folder and read it then; `open` reads from the bucket.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
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


def get(folder: str) -> IO[bytes]:
    filesystem().get(f"{PREFIX}/", f"{folder}/", recursive=True)
    return Path(folder, FIRST).open("rb")


def from_bucket(folder: str) -> IO[bytes]:
    opened: IO[bytes] = filesystem().open(f"{PREFIX}/{FIRST}", "rb")
    return opened


def filesystem() -> Any:
    """That of s3fs or gcsfs."""
    return s3() if sys.argv[1].startswith("s3fs") else google()


def s3() -> Any:
    import s3fs  # type: ignore[import-not-found]

    return s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def google() -> Any:
    """Its own client of the metadata server wants more of it than a token."""
    # Else it asks for the kind of the bucket by gRPC, which the emulator does not have.
    os.environ["GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"] = "false"
    import gcsfs  # type: ignore[import-not-found]
    from google.oauth2.credentials import Credentials

    path = "computeMetadata/v1/instance/service-accounts/default/token"
    request = urllib.request.Request(f"http://{os.environ['GCE_METADATA_HOST']}/{path}")
    request.add_header("Metadata-Flavor", "Google")
    with urllib.request.urlopen(request, timeout=60) as answer:
        token = json.load(answer)["access_token"]
    credentials = Credentials(token)  # type: ignore[no-untyped-call]
    proxy = {"trust_env": True}  # $HTTPS_PROXY
    return gcsfs.GCSFileSystem(project="p", token=credentials, session_kwargs=proxy)


def read_record(file: IO[bytes]) -> bytes:
    """A TFRecord's data; its CRC is not checked."""
    (length,) = struct.unpack("<Q4x", file.read(12))
    return file.read(length)


def main() -> None:
    """Print the seconds."""
    clients: dict[str, Callable[[str], IO[bytes]]] = {
        "s5cmd cp": s5cmd_cp,
        "s3fs get": get,
        "s3fs open": from_bucket,
        "gcsfs get": get,
        "gcsfs open": from_bucket,
    }
    name = sys.argv[1]
    if name != "s5cmd cp":
        filesystem()
    with tempfile.TemporaryDirectory() as folder:
        begin = time.monotonic()
        with clients[name](folder) as file:
            assert len(read_record(file)) > 100_000
        print(time.monotonic() - begin)


if __name__ == "__main__":
    main()
