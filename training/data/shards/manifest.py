"""The manifest of a folder of shards: what each file contains. Standard library only.

    manifest.json   {"format": "railhead-shards", "version": 1, "records": 1437,
                     "schema": {...}, "shards": [{"name", "records", "bytes", "sha256",
                                                  "every", "offsets"}, ...]}

A shard is a TFRecord file of tf.train.Example records with the features `input` and `label`.
`offsets` are the places in the file of the records `every`, 2 * `every` and so on: a stream that
begins inside a shard reads little of what is before.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from .. import DataError
from ..records import frames
from ..store import Store

NAME = "manifest.json"
FORMAT = "railhead-shards"
VERSION = 1
ENCODINGS = ("uint8", "float32", "int64", "image")
PIECES = 32  # of a shard, between offsets
PIECE = 8 << 20  # bytes that are read at once


@dataclass(frozen=True)
class Schema:
    """How a record is read: `input` is the bytes of an array of `shape`, or an encoded image."""

    encoding: str
    shape: tuple[int, ...]
    label: str  # int64 or float32
    classes: tuple[str, ...] = ()
    vocabulary: int = 0
    lowest_label: float = 0.0
    highest_label: float = 0.0
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shard:
    """One file."""

    name: str
    records: int
    bytes: int
    sha256: str
    every: int = 0
    offsets: tuple[int, ...] = ()

    def place(self, record: int) -> tuple[int, int]:
        """From which byte to read for a record, and how many records to skip from there."""
        known = min(record // self.every, len(self.offsets)) if self.every else 0
        return (self.offsets[known - 1], record - known * self.every) if known else (0, record)

    def end(self, record: int) -> int:
        """A byte that is not before the end of the records below `record`."""
        known = -(-record // self.every) if self.every else 0
        return self.offsets[known - 1] if 0 < known <= len(self.offsets) else self.bytes


@dataclass(frozen=True)
class Manifest:
    """All files of a folder."""

    schema: Schema
    shards: tuple[Shard, ...]

    @property
    def counts(self) -> list[int]:
        """The records of each shard."""
        return [shard.records for shard in self.shards]

    @property
    def records(self) -> int:
        return sum(shard.records for shard in self.shards)

    def document(self) -> dict[str, Any]:
        """As it is written to manifest.json."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "records": self.records,
            "schema": asdict(self.schema),
            "shards": [asdict(shard) for shard in self.shards],
        }


def write(store: Store, manifest: Manifest) -> None:
    """Write manifest.json; last, because it says that the shards are whole."""
    store.put(NAME, (json.dumps(manifest.document(), indent=1) + "\n").encode())


def load(store: Store) -> Manifest:
    """Read and check the manifest; DataError where it is missing or not of this format."""
    return parse(store.read(NAME), f"{store.uri}/{NAME}")


def parse(content: bytes, path: str) -> Manifest:
    """The manifest in a file's content; DataError if it is not of this format."""
    try:
        document = json.loads(content)
    except ValueError:
        raise DataError(f"{path} is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f"{path} is not a manifest of {FORMAT}")
    if document.get("version") != VERSION:
        raise DataError(f"{path} has version {document.get('version')!r}, this reads {VERSION}")
    try:
        return _manifest(document)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{path} is damaged: {error}") from None


def _manifest(document: dict[str, Any]) -> Manifest:
    fields = dict(document["schema"])
    fields["shape"] = tuple(int(size) for size in fields["shape"])
    fields["classes"] = tuple(str(name) for name in fields["classes"])
    fields["columns"] = tuple(str(name) for name in fields.get("columns", ()))
    schema = Schema(**fields)
    shards = tuple(
        Shard(**{**shard, "offsets": tuple(shard.get("offsets", ()))})
        for shard in document["shards"]
    )
    if schema.encoding not in ENCODINGS or schema.label not in ("int64", "float32"):
        raise ValueError(f"schema {schema.encoding!r}, {schema.label!r}")
    for shard in shards:
        if not re.fullmatch(r"[\w-][\w.-]*", shard.name):
            raise ValueError(f"name of a shard {shard.name!r}")
        if shard.records < 0 or shard.bytes < 0:
            raise ValueError(f"sizes of shard {shard.name}")
        if not _has_valid_offsets(shard):
            raise ValueError(f"offsets of shard {shard.name}")
    if document["records"] != sum(shard.records for shard in shards):
        raise ValueError("the records of the shards do not add up")
    return Manifest(schema, shards)


def _has_valid_offsets(shard: Shard) -> bool:
    if not shard.offsets:
        return True
    ascending = all(a < b for a, b in pairwise((0, *shard.offsets, shard.bytes)))
    return ascending and len(shard.offsets) == (shard.records - 1) // max(1, shard.every)


def described(name: str, frames_of_shard: Iterable[int], sha256: str) -> Shard:
    """A shard with its offsets, from the bytes of each of its records with their frames."""
    ends, size = [], 0
    for frame in frames_of_shard:
        size += frame
        ends.append(size)
    every = max(1, -(-len(ends) // PIECES))
    offsets = tuple(ends[every - 1 : len(ends) - 1 : every])
    return Shard(name, len(ends), size, sha256, every, offsets)


def check_sizes(store: Store, manifest: Manifest) -> None:
    """Refuse a shard that is missing or has another size; fast, done before every training."""
    there = {item.name: item.bytes for item in store.items()}
    for shard in manifest.shards:
        path = f"{store.uri}/{shard.name}"
        if shard.name not in there:
            raise DataError(f"shard {path} is missing")
        if (size := there[shard.name]) != shard.bytes:
            raise DataError(f"shard {path} has {size} bytes, the manifest says {shard.bytes}")


def verify(store: Store) -> Manifest:
    """Read every byte: sizes, hashes and numbers of records; DataError names the wrong shard."""
    manifest = load(store)
    check_sizes(store, manifest)
    for shard in manifest.shards:
        verify_shard(store, shard)
    return manifest


def verify_shard(store: Store, shard: Shard) -> None:
    """Read one shard; DataError where it is not what the manifest says."""
    path, digest = f"shard {store.uri}/{shard.name}", hashlib.sha256()
    pieces = (
        store.read_range(shard.name, start, min(start + PIECE, shard.bytes))
        for start in range(0, shard.bytes, PIECE)
    )
    records = 0
    try:
        for _ in frames(_hashed(pieces, digest), path):
            records += 1
    except DataError:
        if digest.hexdigest() == shard.sha256:
            raise
    if digest.hexdigest() != shard.sha256:
        raise DataError(f"{path} is altered: its sha256 is not the manifest's")
    if records != shard.records:
        raise DataError(f"{path} has {records} records, the manifest says {shard.records}")


def sha256_of(path: Path) -> str:
    """The digest of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _hashed(pieces: Iterable[Any], digest: Any) -> Iterator[Any]:
    for piece in pieces:
        digest.update(piece)
        yield piece
