"""Small shards and their records, without TensorFlow."""

from __future__ import annotations

import struct
from pathlib import Path

from training.data import records
from training.data.shards import manifest
from training.data.store import Folder, open_store

SCHEMA = manifest.Schema("float32", (1,), "int64")


def frame(data: bytes) -> bytes:
    """A TFRecord; the CRC of the data, which only TensorFlow checks, is left out."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", records.masked_crc(length)) + data + bytes(4)


def make_shards(folder: Path, shards: int = 3, count: int = 50, size: int = 100) -> list[bytes]:
    """Shards of so many records each, of different sizes; all records in order."""
    folder.mkdir(parents=True)
    every, found = [], []
    for number in range(shards):
        data = [f"{number}/{k}/".encode() + b"x" * (size * (1 + k % 3)) for k in range(count)]
        framed = [frame(one) for one in data]
        path = folder / f"shard-{number}.tfrecord"
        path.write_bytes(b"".join(framed))
        found.append(manifest.described(path.name, map(len, framed), manifest.sha256_of(path)))
        every += data
    manifest.write(Folder(folder), manifest.Manifest(SCHEMA, tuple(found)))
    return every


def records_of(content: bytes | memoryview) -> list[bytes]:
    """The data of whole records."""
    content = bytes(content)
    found, position = [], 0
    while position < len(content):
        length = records.missing(content[position:])
        found.append(content[position + 12 : position + length - 4])
        position += length
    return found


def upload(folder: Path, uri: str) -> None:
    made = open_store(uri)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            made.put(path.relative_to(folder).as_posix(), path)
