"""The manifest of a folder of shards: what each file contains. Standard library only.

    manifest.json   {"format": "railhead-shards", "version": 2, "records": 1437, "shards": 16,
                     "schema": {...}, "file": "manifest-<digest>.columns", "names": {...},
                     "columns": {...}}

The numbers of the shards are in a file beside it (`columns`). Version 1 has them in `shards` of
manifest.json: [{"name", "records", "bytes", "sha256", "every", "offsets"}, ...].

A shard is a TFRecord file of tf.train.Example records with the features `input` and `label`. In
version 3, an index of other TFRecord files, the schema names their features, and `source` is where
they are, if that is another place. The offsets are the places in the file of the records `every`,
2 * `every` and so on: a stream that begins inside a shard reads little of what is before.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from railhead.documents.names import MANIFEST
from railhead.documents.uri import scheme_of

from .. import DataError
from ..records import frames
from ..store import Item, Store, open_store
from .columns import Shard, Table, name_fault, offsets_fault, packed

FORMAT = "railhead-shards"
VERSION, INDEX = 2, 3
ENCODINGS = ("uint8", "float32", "int64", "image")
STORED = ("bytes", "float", "int64")  # the kinds of tf.train.Feature
SHA256 = re.compile(r"[0-9a-f]{64}|")
OF_OTHERS = ("input_feature", "label_feature", "stored")  # only in the schema of an index
PIECES = 32  # of a shard, between offsets
PIECE = 8 << 20  # bytes that are read at once


@dataclass(frozen=True)
class Schema:
    """How a record is read: the input is an encoded image or an array of `shape`, `stored` as its
    bytes or, in other programs' files, as a list of numbers."""

    encoding: str
    shape: tuple[int, ...]
    label: str  # int64 or float32
    classes: tuple[str, ...] = ()
    vocabulary: int = 0
    lowest_label: float = 0.0
    highest_label: float = 0.0
    columns: tuple[str, ...] = ()
    input_feature: str = ""
    label_feature: str = ""
    stored: str = "bytes"

    @property
    def of_others(self) -> bool:
        """Whether it describes files that were not written as shards."""
        return bool(self.input_feature)

    @property
    def features(self) -> tuple[str, str]:
        """The names of the input and of the label in a record."""
        return self.input_feature or "input", self.label_feature or "label"


@dataclass(frozen=True)
class Manifest:
    """All files of a folder; `source` is the URI of the folder if the manifest is elsewhere."""

    schema: Schema
    shards: Sequence[Shard]
    source: str = ""

    @property
    def counts(self) -> Sequence[int]:
        """The records of each shard."""
        if isinstance(self.shards, Table):
            return self.shards.records
        return [shard.records for shard in self.shards]

    @property
    def sizes(self) -> Sequence[int]:
        """The bytes of each shard."""
        if isinstance(self.shards, Table):
            return self.shards.bytes
        return [shard.bytes for shard in self.shards]

    @property
    def names(self) -> Iterable[str]:
        """The name of each shard."""
        if isinstance(self.shards, Table):
            return self.shards.names()
        return [shard.name for shard in self.shards]

    @property
    def records(self) -> int:
        return sum(self.counts)


def write(store: Store, manifest: Manifest) -> None:
    """Write the columns, then manifest.json: last, because it marks the shards as complete."""
    columns, schema = packed(manifest.shards), asdict(manifest.schema)
    index = manifest.schema.of_others
    document = {
        "format": FORMAT,
        "version": INDEX if index else VERSION,
        "records": manifest.records,
        "shards": len(manifest.shards),
        "schema": schema if index else {k: schema[k] for k in schema if k not in OF_OTHERS},
        **({"source": manifest.source} if manifest.source else {}),
        **columns.head,
    }
    store.put(columns.head["file"], columns.content)
    store.put(MANIFEST, (json.dumps(document, indent=1) + "\n").encode())


def load(store: Store) -> Manifest:
    """Read and check the manifest; DataError if it is missing or not of this format."""
    return parse(store.read(MANIFEST), store)


def parse(content: bytes, store: Store) -> Manifest:
    """The manifest in the content of a store's manifest.json; DataError if it is not of this
    format."""
    path = f"{store.uri}/{MANIFEST}"
    try:
        document = json.loads(content)
    except ValueError:
        raise DataError(f"{path} is not JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f"{path} is not a manifest of {FORMAT}")
    if (version := document.get("version")) not in (1, VERSION, INDEX):
        raise DataError(f"{path} has version {version!r}, this reads 1 to {INDEX}")
    try:
        if version == 1:
            shards: Sequence[Shard] = shards_of_version_1(document)
        else:
            shards = Table(store, document, int(document["shards"]))
        parsed = Manifest(_schema(document), shards, _source(document, store))
        if document["records"] != parsed.records:
            raise ValueError("the records of the shards do not add up")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is damaged: {error}") from None
    return parsed


def _schema(document: dict[str, Any]) -> Schema:
    fields = dict(document["schema"])
    fields["shape"] = tuple(int(size) for size in fields["shape"])
    fields["classes"] = tuple(str(name) for name in fields["classes"])
    fields["columns"] = tuple(str(name) for name in fields.get("columns", ()))
    schema = Schema(**fields)
    if schema.encoding not in ENCODINGS or schema.label not in ("int64", "float32"):
        raise ValueError(f"schema {schema.encoding!r}, {schema.label!r}")
    if schema.stored not in STORED or not all(type(name) is str for name in schema.features):
        raise ValueError(f"schema {schema.stored!r}, {schema.features!r}")
    return schema


def _source(document: dict[str, Any], store: Store) -> str:
    """Where the files are. A manifest in a bucket must not name a path of a host."""
    source = document.get("source", "")
    if type(source) is not str or (source and not scheme_of(source) and scheme_of(store.uri)):
        raise ValueError(f"source {source!r}")
    return source


def place_of(manifest: Manifest, store: Store) -> Store:
    """The store of the files of a manifest that was read from `store`."""
    return open_store(manifest.source) if manifest.source else store


def beside(store: Store, items: Iterable[Item]) -> Manifest | None:
    """The manifest among these items of a store; None without one.

    Raises:
        DataError: it is wrong, or an index of files that are elsewhere: a reader of files does not
            need it.
    """
    if not any(item.name == MANIFEST for item in items):
        return None
    manifest = load(store)
    if manifest.source:
        raise DataError(f"{store.uri} is an index: name the files themselves, {manifest.source}")
    return manifest


def shards_of_version_1(document: dict[str, Any]) -> tuple[Shard, ...]:
    """Those that the document itself lists, checked."""
    shards = tuple(
        Shard(**{**shard, "offsets": tuple(shard.get("offsets", ()))})
        for shard in document["shards"]
    )
    for shard in shards:
        if type(shard.name) is not str or name_fault(shard.name):
            raise ValueError(f"name of a shard {shard.name!r}")
        numbers = (shard.records, shard.bytes, shard.every, *shard.offsets)
        if not all(type(number) is int and 0 <= number < 2**63 for number in numbers):
            raise ValueError(f"sizes of shard {shard.name}")
        if type(shard.sha256) is not str or not SHA256.fullmatch(shard.sha256):
            raise ValueError(f"sha256 of shard {shard.name}")
        if fault := offsets_fault(shard):
            raise ValueError(fault)
    return shards


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
    for name, expected in zip(manifest.names, manifest.sizes, strict=True):
        path = f"{store.uri}/{name}"
        if name not in there:
            raise DataError(f"shard {path} is missing")
        if (size := there[name]) != expected:
            raise DataError(f"shard {path} has {size} bytes, the manifest says {expected}")


def verify(store: Store) -> Manifest:
    """Read every byte: sizes, hashes, and numbers and places of records; DataError names the wrong
    shard."""
    manifest = load(store)
    place = place_of(manifest, store)
    check_sizes(place, manifest)
    for shard in manifest.shards:
        verify_shard(place, shard)
    return manifest


def verify_shard(store: Store, shard: Shard) -> None:
    """Read one shard; DataError if it is not what the manifest says."""
    path, digest = f"shard {store.uri}/{shard.name}", hashlib.sha256()
    pieces = (
        store.read_range(shard.name, start, min(start + PIECE, shard.bytes))
        for start in range(0, shard.bytes, PIECE)
    )
    records, end, offsets = 0, 0, []
    try:
        for frame in frames(_hashed(pieces, digest), path):
            if records and records % max(1, shard.every) == 0:
                offsets.append(end)
            records, end = records + 1, end + frame
    except DataError:
        if digest.hexdigest() == shard.sha256:
            raise
    if digest.hexdigest() != shard.sha256:
        raise DataError(f"{path} is altered: its sha256 is not the manifest's")
    if records != shard.records:
        raise DataError(f"{path} has {records} records, the manifest says {shard.records}")
    if shard.offsets and list(shard.offsets) != offsets:
        raise DataError(f"{store.uri}/{MANIFEST} is damaged: offsets of shard {shard.name}")


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
