"""Shards, read from front to back: TFRecord files with a manifest, in a folder or a bucket."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

import tensorflow as tf

from training.config import TrainConfig
from training.data import DataError, Inputs, cache, manifest
from training.data.arrays import as_inputs
from training.data.assignment import Span, take
from training.data.formats.images import decode
from training.data.manifest import Manifest
from training.data.store import Folder, Store, open_store
from training.data.stream import Stream
from training.data.uri import Given


class Source(Protocol):
    """Where the records of shards come from. A piece is (path, first, count): `count` records of
    a TFRecord file behind its `first` ones; -1 are all."""

    store: Store

    def prepare(self, spans: Iterable[Span]) -> None:
        """Called once before the pieces of these spans are read."""

    def pieces(self, spans: Iterable[Span], lanes: int) -> Iterator[tuple[str, int, int]]:
        """The records of these spans in order; `lanes` are read at the same time."""

    def find_fault(self) -> str:
        """Name the first shard that is not what the manifest says."""


class Files:
    """Mode `file`: shards in a local folder; those of a bucket are downloaded to it first."""

    def __init__(self, store: Store, found: Manifest, folder: Path, report: cache.Report) -> None:
        self.store, self.manifest, self.folder, self.report = store, found, folder, report

    def prepare(self, spans: Iterable[Span]) -> None:
        if isinstance(self.store, Folder):
            return
        shards = (self.manifest.shards[number] for number in sorted({s.shard for s in spans}))
        wanted = [cache.Wanted(shard.name, shard.bytes, shard.sha256) for shard in shards]
        with cache.locked(self.folder, self.report):
            cache.download(self.store, wanted, self.folder, self.report)
            manifest.write(Folder(self.folder), self.manifest)

    def pieces(self, spans: Iterable[Span], lanes: int) -> Iterator[tuple[str, int, int]]:
        for span in spans:
            path = self.folder / self.manifest.shards[span.shard].name
            yield str(path), span.first, span.count

    def find_fault(self) -> str:
        here = Folder(self.folder)
        try:
            for shard in self.manifest.shards:
                if (self.folder / shard.name).exists() or isinstance(self.store, Folder):
                    manifest.verify_shard(here, shard)
        except DataError as error:
            return str(error)
        return ""


class Streamed:
    """Mode `stream`: records are read while they are downloaded; nothing is kept."""

    def __init__(self, store: Store, found: Manifest) -> None:
        self.store, self.stream = store, Stream(store, found)

    def prepare(self, spans: Iterable[Span]) -> None:
        """Nothing to do before."""

    def pieces(self, spans: Iterable[Span], lanes: int) -> Iterator[tuple[str, int, int]]:
        for path in self.stream.files(spans, lanes):
            yield path, 0, -1

    def find_fault(self) -> str:
        return self.stream.fault


@dataclass(frozen=True)
class Shards:
    """The records of `spans`, in the order of the manifest."""

    source: Source
    manifest: Manifest
    spans: tuple[Span, ...]
    image_size: int

    def __len__(self) -> int:
        return sum(span.count for span in self.spans)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.manifest.schema.classes

    @property
    def inputs(self) -> Inputs:
        schema = self.manifest.schema
        image = (self.image_size, self.image_size, 3)
        return Inputs(image if schema.encoding == "image" else schema.shape, schema.vocabulary)

    def check(self, task: Any) -> int:
        schema = self.manifest.schema
        low, high, whole = schema.lowest_label, schema.highest_label, schema.label == "int64"
        count = len(schema.classes) or (int(high) + 1 if whole else 0)
        if wrong := task.check_labels(low, high, whole, count):
            raise DataError(f"{self.source.store.uri} has labels from {low:g} to {high:g}: {wrong}")
        return count

    def part(self, numbers: Any) -> Shards:
        raise NotImplementedError("shards are read from front to back")

    def hold_out(self, fraction: float, seed: int) -> tuple[Shards, Shards]:
        """Cut one stretch out of each shard, at a seeded place; together `fraction` of all."""
        held: list[Span] = []
        kept: list[Span] = []
        owed, generator = 0.0, Random(f"held-out/{seed}")
        for span in self.spans:
            owed += span.count * fraction
            count = min(int(owed), span.count)
            owed -= count
            begin = generator.randrange(span.count - count + 1)
            held += take([span], begin, count)
            kept += take([span], 0, begin) + take([span], begin + count, span.count)
        if not held:  # fewer samples than one part
            held, kept = take(kept, 0, 1), take(kept, 1, len(self))
        return replace(self, spans=tuple(kept)), replace(self, spans=tuple(held))

    def parse(self, records: Any) -> tuple[Any, Any]:
        """Serialized examples [batch] to inputs and labels."""
        schema = self.manifest.schema
        features = {
            "input": tf.io.FixedLenFeature([], tf.string),
            "label": tf.io.FixedLenFeature([], tf.as_dtype(schema.label)),
        }
        parsed = tf.io.parse_example(records, features)
        if schema.encoding == "image":
            return decode(parsed["input"], self.image_size), parsed["label"]
        values = tf.io.decode_raw(parsed["input"], tf.as_dtype(schema.encoding))
        return as_inputs(tf.reshape(values, [-1, *schema.shape])), parsed["label"]

    def digest(self) -> str:
        found = hashlib.sha256()
        for span in self.spans:
            shard = self.manifest.shards[span.shard]
            found.update(f"{shard.sha256} {span.first} {span.count}\n".encode())
        return found.hexdigest()

    def find_fault(self) -> str:
        return self.source.find_fault()


def open_shards(given: Given, config: TrainConfig, report: cache.Report) -> dict[str, Any]:
    """The shards of a URI that has a manifest.

    Raises:
        DataError: the manifest is wrong, or a shard is missing or has another size.
    """
    store = open_store(given.uri)
    content = store.read(manifest.NAME)
    found = manifest.parse(content, f"{store.uri}/{manifest.NAME}")
    manifest.check_sizes(store, found)
    if given.mode == "stream":
        source: Source = Streamed(store, found)
    else:
        folder = cache.root() / cache.digest_of("shards", [content.decode()])
        local = given.path if isinstance(store, Folder) else folder
        source = Files(store, found, local, report)
    return {"train": Shards(source, found, spans_of(found), config.image_size)}


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """A folder that has a manifest never comes here."""
    raise DataError(f"{folder} has no {manifest.NAME}: python -m training.data shard makes it")


def fetch(config: TrainConfig) -> dict[str, Any]:
    """Shards are always given."""
    raise DataError("data=shards needs a folder: --data train=FOLDER")


def spans_of(found: Manifest) -> tuple[Span, ...]:
    """All records, each shard as one span."""
    spans: list[Span] = []
    number = 0
    for index, shard in enumerate(found.shards):
        if shard.records:
            spans.append(Span(index, 0, shard.records, number))
        number += shard.records
    return tuple(spans)
