"""Shards, whatever the value of `data`: TFRecord files with a manifest, read from front to back."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from railhead.documents.names import MANIFEST

from ...config import TrainConfig
from .. import DataError, Inputs, cache
from ..arrays import as_inputs, first_not_finite
from ..assignment import Span
from ..formats.decoding import decode, image_fault
from ..formats.tfrecord import TYPES
from ..records import records_in
from ..store import Folder, Store, open_store
from ..uri import DataSource
from . import manifest
from .columns import Table
from .lanes import Spans
from .manifest import Manifest, Schema
from .stream import Stream, span_segments

SEGMENT = 4 << 20  # bytes that are read at once in the search for a fault


Piece = tuple[str, int, int, int]


class Source(Protocol):
    """Where the records of shards come from. A piece is (path, offset, skip, count): `count`
    records of a TFRecord file, after the first `skip` from byte `offset` on; -1 means all."""

    store: Store

    def prepare(self, shards: Iterable[int]) -> None:
        """Called once before pieces of these shards are read."""

    def pieces(self, spans: Iterable[Span], tracks: int) -> Iterator[Piece]:
        """The records of these spans in order; `tracks` are read at the same time."""

    def find_fault(self) -> str:
        """Name the first shard that is not what the manifest says."""

    def again(self, name: str) -> Store | None:
        """The store from which a shard can be read again; None if this host has not read it."""


class Files:
    """Mode `file`: shards in a local folder; those of a bucket are downloaded to it first, with
    `content`, that of its manifest.json."""

    def __init__(
        self, store: Store, shards: Manifest, content: bytes, folder: Path, report: cache.Report
    ) -> None:
        self.store, self.manifest, self.content = store, shards, content
        self.folder, self.report = folder, report

    def prepare(self, shards: Iterable[int]) -> None:
        if isinstance(self.store, Folder):
            return
        with cache.locked(self.folder, self.report):
            self._keep_manifest()
            listed = (self.manifest.shards[number] for number in shards)
            files = [cache.RemoteFile(shard.name, shard.bytes, shard.sha256) for shard in listed]
            cache.download(self.store, files, self.folder, self.report)

    def _keep_manifest(self) -> None:
        """Its files as they are; the columns are then read from the disk, in every epoch."""
        here, shards = Folder(self.folder), self.manifest.shards
        here.put(MANIFEST, self.content)
        if isinstance(shards, Table) and not isinstance(shards.store, Folder):
            columns = cache.RemoteFile(*shards.file)
            path = self.folder / columns.name
            if path.exists() and not manifest.sha256_of(path).startswith(columns.sha256):
                path.unlink()
            cache.download(shards.store, [columns], self.folder, self.report)
            self.manifest = manifest.parse(self.content, here)

    def pieces(self, spans: Iterable[Span], tracks: int) -> Iterator[Piece]:
        for span in spans:
            shard = self.manifest.shards[span.shard]
            yield str(self.folder / shard.name), *shard.place(span.first), span.count

    def find_fault(self) -> str:
        here = Folder(self.folder)
        try:
            for shard in self.manifest.shards:
                if (self.folder / shard.name).exists() or isinstance(self.store, Folder):
                    manifest.verify_shard(here, shard)
        except DataError as error:
            return str(error)
        return ""

    def again(self, name: str) -> Store | None:
        return Folder(self.folder) if (self.folder / name).exists() else None


class Streamed:
    """Mode `stream`: records are read while they are downloaded; nothing is kept."""

    def __init__(self, store: Store, shards: Manifest) -> None:
        self.store, self.stream = store, Stream(store, shards)

    def prepare(self, shards: Iterable[int]) -> None:
        """Nothing to do before."""

    def pieces(self, spans: Iterable[Span], tracks: int) -> Iterator[Piece]:
        for path in self.stream.files(spans, tracks):
            yield path, 0, 0, -1

    def find_fault(self) -> str:
        return self.stream.fault

    def again(self, name: str) -> Store | None:
        return self.store


@dataclass(frozen=True)
class Shards:
    """The records of `spans`, in the order of the manifest. `classes` are those of the manifest,
    or others that have them too; `numbers` are then the numbers of the manifest's classes."""

    source: Source
    manifest: Manifest
    spans: Spans
    image_size: int
    classes: tuple[str, ...]
    numbers: tuple[int, ...] = ()
    ignored: tuple[str, ...] = ()
    turn: bool = True

    def __len__(self) -> int:
        return self.spans.records

    @property
    def inputs(self) -> Inputs:
        schema = self.manifest.schema
        image = (self.image_size, self.image_size, 3)
        return Inputs(image if schema.encoding == "image" else schema.shape, schema.vocabulary)

    @property
    def columns(self) -> tuple[str, ...]:
        return self.manifest.schema.columns

    def check(self, task: Any) -> int:
        schema = self.manifest.schema
        if task.label_rank != 1:
            raise DataError(f"{self.source.store.uri}: shards have one label per sample")
        low, high, whole = schema.lowest_label, schema.highest_label, schema.label == "int64"
        if self.numbers:
            low, high = min(self.numbers), max(self.numbers)
        count = len(self.classes) or (int(high) + 1 if whole else 0)
        if wrong := task.check_labels(low, high, whole, count):
            raise DataError(f"{self.source.store.uri} has labels from {low:g} to {high:g}: {wrong}")
        return count

    def to_measure(self, most: int) -> tuple[Any, Any]:
        spans, parts = self.spans.take(0, most), []
        if self.manifest.schema.encoding == "image":
            return None, np.zeros(1)  # shards of images have classes as labels
        for span in spans:
            for content, _ in span_segments(self.source.store, self.manifest, span, SEGMENT):
                parts.append(self.parse([bytes(record) for record in records_in(content)]))
        inputs, labels = zip(*parts, strict=True)
        return np.concatenate([i.numpy() for i in inputs]), np.concatenate(
            [i.numpy() for i in labels]
        )

    def subset(self, numbers: Any) -> Shards:
        raise NotImplementedError("shards are read from front to back")

    def renumbered(self, numbers: Sequence[int], classes: tuple[str, ...]) -> Shards:
        return replace(self, numbers=tuple(numbers), classes=classes)

    def at_hand(self, most: int) -> Shards:
        """The first samples, at most `most`, of the shards that need no download."""
        shards, again = self.manifest.shards, self.source.again
        here = [again(shards[span.shard].name) is not None for span in self.spans]
        return replace(self, spans=self.spans.chosen(here).take(0, most))

    def hold_out(self, fraction: float, seed: int) -> tuple[Shards, Shards]:
        """Cut one stretch out of each shard, at a seeded place; together `fraction` of all."""
        owed, generator = 0.0, Random(f"held-out/{seed}")
        counts, begins = [], []
        for records in self.spans.count.tolist():
            owed += records * fraction
            counts.append(min(int(owed), records))
            owed -= counts[-1]
            begins.append(generator.randrange(records - counts[-1] + 1))
        training, held_out = self.spans.without(np.array(begins), np.array(counts))
        if not held_out.records:  # fewer samples than one part
            held_out, training = training.take(0, 1), training.take(1, len(self))
        return replace(self, spans=training), replace(self, spans=held_out)

    def parse(self, records: Any) -> tuple[Any, Any]:
        """Serialized examples [batch] to inputs and labels; a value that is not finite is an error
        of the operation."""
        schema = self.manifest.schema
        name, label = schema.features
        size = [] if schema.stored == "bytes" else [math.prod(schema.shape)]
        features = {
            name: tf.io.FixedLenFeature(size, TYPES[schema.stored]),
            label: tf.io.FixedLenFeature([], tf.as_dtype(schema.label)),
        }
        parsed = tf.io.parse_example(records, features)
        inputs, labels = parsed[name], checked(parsed[label])
        if self.numbers:
            labels = tf.gather(tf.constant(self.numbers, labels.dtype), labels)
        if schema.encoding == "image":
            return decode(inputs, self.image_size, turn=self.turn), labels
        kind = tf.as_dtype(schema.encoding)
        listed = schema.stored != "bytes"
        values = checked(tf.cast(inputs, kind) if listed else tf.io.decode_raw(inputs, kind))
        return as_inputs(tf.reshape(values, [-1, *schema.shape])), labels

    def digest(self) -> str:
        digest = hashlib.sha256()
        for span in self.spans:
            shard = self.manifest.shards[span.shard]
            digest.update(f"{shard.sha256} {span.first} {span.count}\n".encode())
        return digest.hexdigest()

    def find_fault(self) -> str:
        return self.source.find_fault() or next(self._faults(), "")

    def _faults(self) -> Iterator[str]:
        """The records that cannot be used, read one after the other."""
        for span in self.spans:
            name, before = self.manifest.shards[span.shard].name, span.first
            if (store := self.source.again(name)) is None:
                continue
            for content, count in span_segments(store, self.manifest, span, SEGMENT):
                for number, record in enumerate(records_in(content), before + 1):
                    if fault := record_fault(bytes(record), self.manifest.schema):
                        yield f"{store.uri}/{name} record {number}{fault}"
                before += count


def checked(values: Any) -> Any:
    """The same values; the operation fails if one of them is NaN or infinite.

    A sum costs a tenth of a check of each value. It is infinite for some large numbers too, so it
    only decides whether to check.
    """
    if not values.dtype.is_floating:
        return values
    return tf.cond(
        tf.math.is_finite(tf.reduce_sum(values)),
        lambda: values,
        lambda: tf.debugging.check_numerics(values, "a value of a shard is not finite"),
    )


def record_fault(record: bytes, schema: Schema) -> str:
    """What is wrong in a record, as the end of a sentence about it; empty if nothing is."""
    name, label_name = schema.features
    try:
        features = tf.train.Example.FromString(record).features.feature
        stored = getattr(features[name], f"{schema.stored}_list").value
        value = stored[0] if schema.stored == "bytes" else stored
    except Exception:  # protobuf's DecodeError, which TensorFlow does not export; or no value
        return f" is not a tf.train.Example with the feature {name!r}"
    label = np.array(features[label_name].float_list.value)
    if first_not_finite(label) is not None:
        return f": the label is {label[0]:g}: labels must be finite numbers"
    if schema.encoding == "image":
        return f" {fault}" if (fault := image_fault(value)) else ""
    kind = np.dtype(schema.encoding)
    size, unit = (kind.itemsize, "bytes") if schema.stored == "bytes" else (1, "values")
    if len(value) != (expected := size * math.prod(schema.shape)):
        return f": the input has {len(value)} {unit}, and not {expected} as the manifest says"
    values = np.frombuffer(value, kind) if schema.stored == "bytes" else np.array(value, kind)
    if (index := first_not_finite(values)) is not None:
        place = f"value {index[0] + 1} of the input"
        return f": {place} is {values[index]:g}: inputs must be finite numbers"
    return ""


def open_shards(data: DataSource, config: TrainConfig, report: cache.Report) -> dict[str, Any]:
    """The shards of a URI that has a manifest.

    Raises:
        DataError: the manifest is wrong, or a shard is missing or has another size.
    """
    beside = open_store(data.uri)
    content = beside.read(MANIFEST)
    shards = manifest.parse(content, beside)
    store = manifest.place_of(shards, beside)
    manifest.check_sizes(store, shards)
    if data.mode == "stream":
        source: Source = Streamed(store, shards)
    else:
        folder = cache.root() / cache.digest_of("shards", [content.decode()])
        local = store.root if isinstance(store, Folder) else folder
        source = Files(store, shards, content, local, report)
    spans, classes = Spans.of_shards(shards.counts), shards.schema.classes
    turn = config.exif == "on"
    return {"train": Shards(source, shards, spans, config.image_size, classes, turn=turn)}


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """Refused: this folder has no manifest; `open_shards` reads those that have one."""
    raise DataError(f"{folder} has no {MANIFEST}: the task data shard makes it")
