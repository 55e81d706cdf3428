"""The manifest of a folder of shards: what stands in each file. Standard library only.

    manifest.json   {"format": "railhead-shards", "version": 1, "records": 1437,
                     "schema": {...}, "shards": [{"name", "records", "bytes", "sha256"}, ...]}

A shard is a TFRecord file of tf.train.Example records with the features `input` and `label`.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training.data import DataError

NAME = "manifest.json"
FORMAT = "railhead-shards"
VERSION = 1
ENCODINGS = ("uint8", "float32", "int64", "image")
FRAME = 8 + 4 + 4  # bytes around a record: length, CRC of the length, CRC of the data


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


@dataclass(frozen=True)
class Shard:
    """One file."""

    name: str
    records: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """All files of a folder."""

    schema: Schema
    shards: tuple[Shard, ...]

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


def write(folder: Path, manifest: Manifest) -> None:
    """Write manifest.json; last, because it says that the shards are whole."""
    text = json.dumps(manifest.document(), indent=1)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def is_shards(folder: Path) -> bool:
    """Whether this is a folder of shards."""
    return (folder / NAME).is_file()


def load(folder: Path) -> Manifest:
    """Read and check the manifest; DataError where it is missing or not of this format."""
    path = folder / NAME
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: {error.strerror}") from None
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
    schema = Schema(**fields)
    shards = tuple(Shard(**shard) for shard in document["shards"])
    if schema.encoding not in ENCODINGS or schema.label not in ("int64", "float32"):
        raise ValueError(f"schema {schema.encoding!r}, {schema.label!r}")
    for shard in shards:
        if not re.fullmatch(r"[\w-][\w.-]*", shard.name):
            raise ValueError(f"name of a shard {shard.name!r}")
        if shard.records < 0 or shard.bytes < 0:
            raise ValueError(f"sizes of shard {shard.name}")
    if document["records"] != sum(shard.records for shard in shards):
        raise ValueError("the records of the shards do not add up")
    return Manifest(schema, shards)


def check_sizes(folder: Path, manifest: Manifest) -> None:
    """Refuse a shard that is missing or has another size; fast, done before every training."""
    for shard in manifest.shards:
        path = folder / shard.name
        if not path.is_file():
            raise DataError(f"shard {path} is missing")
        if (size := path.stat().st_size) != shard.bytes:
            raise DataError(f"shard {path} has {size} bytes, the manifest says {shard.bytes}")


def verify(folder: Path) -> Manifest:
    """Read every byte: sizes, hashes and numbers of records; DataError names the wrong shard."""
    manifest = load(folder)
    check_sizes(folder, manifest)
    for shard in manifest.shards:
        path = folder / shard.name
        if sha256_of(path) != shard.sha256:
            raise DataError(f"shard {path} is altered: its sha256 is not the manifest's")
        if (records := sum(1 for _ in frames(path))) != shard.records:
            raise DataError(
                f"shard {path} has {records} records, the manifest says {shard.records}"
            )
    return manifest


def sha256_of(path: Path) -> str:
    """The digest of a file, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def frames(path: Path) -> Iterator[int]:
    """The length of each record of a TFRecord file; DataError where the file ends inside one."""
    size, offset = path.stat().st_size, 0
    with path.open("rb") as file:
        while offset < size:
            file.seek(offset)
            header = file.read(8)
            length = struct.unpack("<Q", header)[0] if len(header) == 8 else size
            offset += length + FRAME
            if offset > size:
                raise DataError(f"shard {path} ends inside a record")
            yield length
