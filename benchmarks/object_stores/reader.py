"""Reads objects with one client, four at a time in parts of 4 MB; prints its figures as JSON."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

PART = 4 << 20
SIZE = 64 << 20


def obstore() -> Callable[[str], Iterator[Any]]:
    import obstore
    from obstore.store import S3Store

    store = S3Store("data", client_options={"allow_http": True})
    return lambda name: iter(obstore.get(store, name).stream(PART))


def boto3() -> Callable[[str], Iterator[Any]]:
    import boto3

    client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])
    return lambda name: client.get_object(Bucket="data", Key=name)["Body"].iter_chunks(PART)


def s3fs() -> Callable[[str], Iterator[Any]]:
    import s3fs  # type: ignore[import-not-found]

    files = s3fs.S3FileSystem(endpoint_url=os.environ["AWS_ENDPOINT_URL"])

    def parts(name: str) -> Iterator[Any]:
        with files.open(f"data/{name}", block_size=PART, cache_type="none") as file:
            while chunk := file.read(PART):
                yield chunk

    return parts


def read_all(parts: Callable[[str], Iterator[Any]], objects: int) -> float:
    """Read everything; the seconds until the first bytes."""
    begin, first, lock = time.monotonic(), [0.0], threading.Lock()

    def read(number: int) -> int:
        size = 0
        for chunk in parts(f"object-{number}"):
            with lock:
                first[0] = first[0] or time.monotonic() - begin
            size += len(chunk)
        return size

    with ThreadPoolExecutor(4) as threads:
        sizes = list(threads.map(read, range(objects)))
    assert sizes == [SIZE] * objects
    return first[0]


def s5cmd(objects: int) -> float:
    """s5cmd is a program: it copies to files in memory where that is possible."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        program = Path(sys.executable).with_name("s5cmd")
        command = [str(program), "--endpoint-url", os.environ["AWS_ENDPOINT_URL"]]
        command += ["--numworkers", "4", "cp", "s3://data/*", folder]
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        while not any(path.stat().st_size for path in Path(folder).iterdir()):
            time.sleep(0.001)
        first = time.monotonic() - begin
        assert process.wait() == 0
        assert len(list(Path(folder).iterdir())) == objects
    return first


def main() -> None:
    """Read, and print what it took, the import left out."""
    name, objects = sys.argv[1], int(sys.argv[2])
    parts = {"obstore": obstore, "boto3": boto3, "s3fs": s3fs}[name]() if name != "s5cmd" else None
    before, begin = cpu(), time.monotonic()
    first = read_all(parts, objects) if parts else s5cmd(objects)
    seconds = time.monotonic() - begin
    print(json.dumps({"seconds": seconds, "cpu": cpu() - before, "first": first}))


def cpu() -> float:
    """CPU seconds of this process and its ended children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    main()
