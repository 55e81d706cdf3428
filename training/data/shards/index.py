"""An index of TFRecord files that other programs wrote: a manifest of the files as they are,
without a copy.

With it, any of their records can be found, so that they are read as shards: streamed, by several
ranks, and from the middle of an epoch. Each file is read once, whole.
"""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf

from railhead.documents.names import MANIFEST

from ...config import TrainConfig
from .. import DataError, tfds
from ..arrays import first_not_finite
from ..cache import check_unchanged
from ..formats import tfrecord
from ..formats.tfrecord import Layout
from ..records import FRAME, LARGEST, records_in, segments
from ..store import Item, NothingThereError, Store, open_store
from . import manifest
from .columns import Shard
from .manifest import Manifest, Schema

SEGMENT = 4 << 20  # bytes that are read at once

Report = Callable[[str], None]


def index(
    uri: str, destination: str | None, split: str, config: TrainConfig, report: Report
) -> Manifest:
    """Write the index of the files of a split to `destination`, by default beside the files.

    Raises:
        DataError: there is no such file, one is compressed, damaged, or changes meanwhile; records
            differ; there are shards already; or the place cannot be written.
    """
    store, place = open_store(uri), open_store(destination or uri)
    listed = store.items()
    items = files_of(store, listed, split, alone=destination is None)
    refuse_shards(place)
    refuse_encoded(store, listed, items, config)
    scan = Scan(store, config)
    shards = []
    for number, item in enumerate(items, 1):
        shards.append(scan.shard(item))
        report(f"index: {number} of {len(items)} files, {scan.records} records")
    if not scan.records:
        raise DataError(f"{uri} has no record")
    check_unchanged(store, items)
    written = Manifest(scan.schema(), tuple(shards), store.uri if destination else "")
    manifest.write(place, written)
    return written


def files_of(store: Store, listed: Sequence[Item], split: str, *, alone: bool) -> list[Item]:
    """The files of a split; `alone`: the index will be beside them, where it would stand for the
    files of all splits."""
    of_split = tfrecord.by_split({item.name: item for item in listed if item.bytes}, store.uri)
    if alone and len(of_split) > 1:
        names = ", ".join(name or "files of no split" for name in sorted(of_split))
        raise DataError(f"{store.uri} has {names}: write an index of each to another place: --to")
    chosen = of_split.get(split) or of_split.get("")
    if not chosen:
        raise DataError(f"{store.uri} has no {split}: it has {', '.join(of_split)}")
    return chosen


def refuse_encoded(
    store: Store, listed: Sequence[Item], items: Sequence[Item], config: TrainConfig
) -> None:
    """DataError if the file beside these files says that the inputs cannot be read."""
    folders = {item.name.rpartition("/")[0] for item in items}
    for item in listed:
        folder, _, name = item.name.rpartition("/")
        if name == tfds.FEATURES and folder in folders and item.bytes:
            place = f"{store.uri}/{folder}".rstrip("/")
            tfds.refuse_encoded(store.read(item.name), config.input_feature, place)


def refuse_shards(place: Store) -> None:
    """DataError if the place has the manifest of shards, which would be lost."""
    try:
        names = {item.name for item in place.items()}
    except NothingThereError:
        return
    if MANIFEST in names and not manifest.load(place).schema.of_others:
        raise DataError(f"{place.uri} holds shards already, which need no index")


@dataclass
class Scan:
    """What is known about the records that were read so far."""

    store: Store
    config: TrainConfig
    layout: Layout | None = None
    records: int = 0
    lowest: float = math.inf
    highest: float = -math.inf
    label: Any = field(default=np.dtype("int64"))

    def shard(self, item: Item) -> Shard:
        """Read a file.

        Raises:
            DataError: it is compressed or damaged, or a record is not like the first one.
        """
        path = f"{self.store.uri}/{item.name}"
        digest, sizes = hashlib.sha256(), array("Q")
        for content, _ in segments(self.store, item.name, item.bytes, segment=SEGMENT):
            digest.update(content)
            records = [bytes(record) for record in records_in(content)]
            if (largest := max(map(len, records))) > LARGEST:
                raise DataError(f"{path} has a record of {largest} bytes, more than {LARGEST}")
            self._look(records, path, len(sizes))
            sizes.extend(len(record) + FRAME for record in records)
        self.records += len(sizes)
        return manifest.described(item.name, sizes, digest.hexdigest())

    def _look(self, records: list[bytes], path: str, before: int) -> None:
        """Compare records with the first one, and note their labels."""
        if self.layout is None:
            self.layout = tfrecord.layout_of(records[0], f"{path} record 1", self.config)
        try:
            parsed = tf.io.parse_example(records, tfrecord.spec(self.layout, self.config))
        except (tf.errors.OpError, UnicodeError):  # a message of TensorFlow is not UTF-8
            for number, record in enumerate(records, before + 1):
                tfrecord.check_like(self.layout, record, f"{path} record {number}", self.config)
            raise DataError(f"{path} cannot be read") from None
        labels = parsed[self.config.label_feature].numpy()
        if (index := first_not_finite(labels)) is not None:
            place = f"{path} record {before + index[0] + 1}"
            raise DataError(f"{place}: the label is {labels[index]:g}, not a finite number")
        self.label = labels.dtype
        self.lowest = min(self.lowest, float(labels.min()))
        self.highest = max(self.highest, float(labels.max()))

    def schema(self) -> Schema:
        """How the records are to be read."""
        assert self.layout is not None
        kind, shape = self.layout.input.kind, self.config.shape_of_input
        if kind != "bytes":
            encoding, shape = "float32", shape or (self.layout.input.values,)
        else:
            encoding = "uint8" if shape else "image"
        return Schema(
            encoding=encoding,
            shape=tuple(shape),
            label=self.label.name,
            lowest_label=self.lowest,
            highest_label=self.highest,
            input_feature=self.config.input_feature,
            label_feature=self.config.label_feature,
            stored=kind,
        )
