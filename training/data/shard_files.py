"""A folder of shards, read from front to back: TFRecord files with a manifest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import tensorflow as tf

from training.config import TrainConfig
from training.data import DataError, Inputs, manifest
from training.data.arrays import as_inputs
from training.data.assignment import Span, take
from training.data.formats.images import decode
from training.data.manifest import Manifest


@dataclass(frozen=True)
class Shards:
    """The records of `spans`, in the order of the manifest."""

    folder: Path
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

    @property
    def paths(self) -> list[str]:
        return [str(self.folder / shard.name) for shard in self.manifest.shards]

    def check(self, task: Any) -> int:
        schema = self.manifest.schema
        low, high, whole = schema.lowest_label, schema.highest_label, schema.label == "int64"
        count = len(schema.classes) or (int(high) + 1 if whole else 0)
        if wrong := task.check_labels(low, high, whole, count):
            raise DataError(f"{self.folder} has labels from {low:g} to {high:g}: {wrong}")
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

    def find_fault(self) -> str:
        """Name the first shard that is not what the manifest says."""
        try:
            manifest.verify(self.folder)
        except DataError as error:
            return str(error)
        return ""


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The shards of a folder, or of its folders train, validation and test."""
    if not manifest.is_shards(folder):
        raise DataError(f"{folder} has no {manifest.NAME}: python -m training.data shard makes it")
    found = manifest.load(folder)
    manifest.check_sizes(folder, found)
    return {"train": Shards(folder, found, spans_of(found), config.image_size)}


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
