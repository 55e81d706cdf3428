"""TFRecord files of `tf.train.Example` records, as TensorFlow's tools write them; plain, gzip or
zlib.

FOLDER/train-00000-of-00010, validation-00000-of-00002   or FOLDER/train/*.tfrecord, or a file

The input of a record is an encoded image, numbers, or bytes that are pixels (`input_shape`); its
label is one number. Each file is read once when it is opened: that checks every record's CRC and
finds the places of the images. First the lengths of its records are checked: TensorFlow would crash
on one that is too large.
"""

from __future__ import annotations

import gzip
import io
import math
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import tensorflow as tf

from ...config import TrainConfig
from .. import DataError, tfds
from ..arrays import Arrays, first_not_finite
from ..records import FRAME, HEADER, check_lengths, damaged, is_header
from .decoding import is_image
from .folders import SPLIT_OF, not_used
from .images import EncodedImages

NAME = re.compile(r"(\.tfrec(ords?)?(-\d+-of-\d+)?|-\d{5}-of-\d{5})(\.gz)?$")
NAMES = "*.tfrecord, *.tfrecords, *.tfrec, *-00000-of-00010; each also with .gz"
SPLIT = re.compile(rf"(?:^|[-_./])({'|'.join(SPLIT_OF)})(?=[-_./\d]|$)")
T = TypeVar("T")
GZIP, ZLIB = b"\x1f\x8b", b"x"
TYPES = {"int64": tf.int64, "float": tf.float32, "bytes": tf.string}
BATCH = 64  # records that are parsed at once
SHOWN = 20  # features in a message


@dataclass(frozen=True)
class Feature:
    """One feature of a record: bytes, float or int64, and how many values it has."""

    kind: str
    values: int

    def __str__(self) -> str:
        return self.kind if self.values == 1 else f"{self.values} {self.kind}"


@dataclass(frozen=True)
class Layout:
    """What all records have in common."""

    input: Feature
    label: Feature

    def __str__(self) -> str:
        return f"{self.input} as input and {self.label} as label"


@dataclass(frozen=True)
class File:
    """One file; `compression` is empty, GZIP or ZLIB."""

    path: Path
    compression: str

    def records(self) -> Any:
        """Its serialized records as a tf.data.Dataset."""
        return tf.data.TFRecordDataset(str(self.path), self.compression, buffer_size=1 << 20)


@dataclass(frozen=True)
class Part:
    """The records of one file as lists of arrays: their bytes, labels and, if kept, inputs."""

    file: File
    lengths: list[Any]
    labels: list[Any]
    inputs: list[Any]

    def lengths_of_all(self) -> Any:
        """int64 [records]."""
        return np.concatenate([np.zeros(0, np.int64), *self.lengths])


@dataclass(frozen=True)
class Places:
    """Images in plain files, read when they are needed."""

    paths: tuple[str, ...]
    rows: Any  # int64 [images, 4]: file, number of the record, its first byte, its bytes
    feature: str

    def __len__(self) -> int:
        return len(self.rows)

    def subset(self, numbers: Any) -> Places:
        return Places(self.paths, self.rows[numbers], self.feature)

    def size(self) -> int:
        return int(self.rows[:, 3].sum())

    def name(self, number: int) -> str:
        file, record = self.rows[number, :2]
        return f"{self.paths[file]} record {record}"

    def content(self, number: int) -> bytes:
        return bytes_of(self._record(number), self.feature)

    def reader(self) -> Callable[[Any], Any]:
        spec = {self.feature: tf.io.FixedLenFeature([], tf.string)}

        def read(numbers: Any) -> Any:
            records = tf.numpy_function(self._records, [numbers], tf.string)
            return tf.io.parse_example(tf.reshape(records, [-1]), spec)[self.feature]

        return read

    def _records(self, numbers: Any) -> Any:
        return np.array([self._record(number) for number in numbers], object)

    def _record(self, number: int) -> bytes:
        file, _, first, size = self.rows[number]
        with Path(self.paths[file]).open("rb") as records:
            records.seek(first)
            return records.read(size)


@dataclass(frozen=True)
class Held:
    """Images of compressed files, in memory: such a file can be read only from its beginning."""

    images: tuple[bytes, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)

    def subset(self, numbers: Any) -> Held:
        return Held(
            tuple(self.images[number] for number in numbers),
            tuple(self.names[number] for number in numbers),
        )

    def size(self) -> int:
        return sum(map(len, self.images))

    def name(self, number: int) -> str:
        return self.names[number]

    def content(self, number: int) -> bytes:
        return self.images[number]

    def reader(self) -> Callable[[Any], Any]:
        with tf.device("cpu"):
            images = tf.constant(self.images)
        return lambda numbers: tf.gather(images, numbers)


def read(folder: Path, config: TrainConfig) -> dict[str, Any]:
    """The files of a folder, each in the split that its path names; or one file."""
    files = files_of(folder)
    used = {path for paths in files.values() for path in paths}
    rest = [path for path in folder.rglob("*") if path.is_file() and path not in used]
    splits = {name: samples(paths, config) for name, paths in files.items()}
    first = next(iter(splits))
    return {**splits, first: replace(splits[first], ignored=not_used(rest, folder))}


def files_of(folder: Path) -> dict[str, list[Path]]:
    """The paths of each split; without the name of a split they are all `train`."""
    if folder.is_file():
        return {"train": [folder]}
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file())
    paths_of = by_split({path.relative_to(folder).as_posix(): path for path in paths}, str(folder))
    if "" in paths_of and len(paths_of) > 1:
        raise DataError(
            f"{paths_of[''][0]} is of no split, but other files are of "
            f"{', '.join(sorted(paths_of)[1:])}: write train, validation or test into each "
            "name, or into none"
        )
    return {name or "train": paths for name, paths in paths_of.items()}


def by_split(files: Mapping[str, T], where: str) -> dict[str, list[T]]:
    """The TFRecord files among these by the split that their paths name; "" for a path that names
    none.

    Raises:
        DataError: there is no such file.
    """
    by_name: dict[str, list[T]] = {}
    for name, file in files.items():
        if is_record_file(name):
            words = SPLIT.findall(name)  # the last one: a file's name counts before its folders
            by_name.setdefault(SPLIT_OF[words[-1]] if words else "", []).append(file)
    if not by_name:
        raise DataError(f"{where} has no TFRecord file ({NAMES})")
    tfds.refuse_versions(filter(is_record_file, files), files, where)
    return by_name


def is_record_file(name: str) -> bool:
    """Whether a path is that of a TFRecord file of a data set that is whole."""
    hidden = re.search(r"(^|/)\.", name) or tfds.INCOMPLETE.search(name)
    return NAME.search(name) is not None and not hidden


def samples(paths: Sequence[Path], config: TrainConfig) -> Arrays | EncodedImages:
    """All records of some files: encoded images, or arrays of numbers."""
    files = [checked(path) for path in paths if path.stat().st_size]
    for folder in dict.fromkeys(path.parent for path in paths):
        if (features := folder / tfds.FEATURES).is_file():
            tfds.refuse_encoded(features.read_bytes(), config.input_feature, str(folder))
    if (layout := first_layout(files, config)) is None:
        raise DataError(f"{paths[0]} has no record, nor has any other file")
    images = layout.input.kind == "bytes" and not config.shape_of_input
    keep = not images or any(file.compression for file in files)
    parts = [part_of(file, layout, config, keep) for file in files]
    labels = np.concatenate([some for part in parts for some in part.labels])
    source = str(paths[0] if len(paths) == 1 else paths[0].parent)
    place = partial(place_of, parts, config)
    if not images:
        values = np.concatenate([some for part in parts for some in part.inputs])
        shaped = shaped_values(values, config, names_of_records(parts))
        return Arrays(shaped, labels, source=source, place=place)
    if (index := first_not_finite(labels)) is not None:
        raise DataError(f"{place(index)} is {labels[index]:g}: labels must be finite numbers")
    contents = held(parts) if keep else places(parts, config.input_feature)
    return EncodedImages(contents, labels, (), config.image_size, source, turn=config.exif == "on")


def shaped_values(values: Any, config: TrainConfig, names: Sequence[str]) -> Any:
    """Lists of numbers, float32, or bytes, uint8, in the shape of the settings.

    Raises:
        DataError: a record has another number of values.
    """
    shape = config.shape_of_input
    if values.dtype != object:
        values = values.astype(np.float32)
        if shape and values.shape[1] != math.prod(shape):
            raise DataError(f"{names[0]} has {values.shape[1]} values, not {config.input_shape}")
        return values.reshape(-1, *shape) if shape else values
    wrong = next((k for k, each in enumerate(values) if len(each) != math.prod(shape)), None)
    if wrong is not None:
        expected = f"{math.prod(shape)} of input_shape={config.input_shape}"
        raise DataError(f"{names[wrong]} has {len(values[wrong])} bytes, not the {expected}")
    return np.frombuffer(b"".join(values), np.uint8).reshape(-1, *shape)


def place_of(parts: Sequence[Part], config: TrainConfig, index: tuple[int, ...]) -> str:
    """The file and the record of an input [sample, value], or of a label [sample]."""
    if len(index) > 1:
        feature = f"value {index[1] + 1} of {config.input_feature!r}"
    else:
        feature = repr(config.label_feature)
    return f"{names_of_records(parts)[index[0]]}: {feature}"


def names_of_records(parts: Sequence[Part]) -> list[str]:
    """Where each record is."""
    counts = [(part.file.path, len(part.lengths_of_all())) for part in parts]
    return [f"{path} record {number + 1}" for path, count in counts for number in range(count)]


def held(parts: Sequence[Part]) -> Held:
    """The images of all files."""
    images = [image for part in parts for some in part.inputs for image in some]
    return Held(tuple(images), tuple(names_of_records(parts)))


def places(parts: Sequence[Part], feature: str) -> Places:
    """Where the images of all files are: each record follows the one before, with its frame."""
    rows = []
    for file, part in enumerate(parts):
        lengths = part.lengths_of_all()
        count = len(lengths)
        ends = np.cumsum(lengths + FRAME)
        first = ends - (lengths + FRAME) + HEADER
        rows.append(np.stack([np.full(count, file), np.arange(1, count + 1), first, lengths], 1))
    return Places(tuple(str(part.file.path) for part in parts), np.concatenate(rows), feature)


def checked(path: Path) -> File:
    """A file whose record lengths do not make TensorFlow crash; DataError for any other."""
    file = File(path, compression_of(path))
    with opened(file) as content:
        check_lengths(content, str(path))
    return file


def opened(file: File) -> IO[bytes] | gzip.GzipFile:
    """The content of a file without its compression."""
    if file.compression != "ZLIB":
        return gzip.open(file.path) if file.compression else file.path.open("rb")
    try:
        return io.BytesIO(zlib.decompress(file.path.read_bytes()))
    except zlib.error as error:
        raise damaged(str(file.path), 0, str(error)) from None


def compression_of(path: Path) -> str:
    """Empty, GZIP or ZLIB, by the first bytes; DataError for a file that is not a TFRecord file."""
    with path.open("rb") as file:
        head = file.read(HEADER)
    if is_header(head):
        return ""
    if head.startswith(GZIP):
        return "GZIP"
    if head[:1] == ZLIB and int.from_bytes(head[:2], "big") % 31 == 0:
        return "ZLIB"
    raise DataError(f"{path} is not a TFRecord file, plain, gzip or zlib")


def first_layout(files: Sequence[File], config: TrainConfig) -> Layout | None:
    """The layout of the first record, which all others must have; None if there is no record."""
    for file in files:
        for number, record in numbered(file):
            return layout_of(record, f"{file.path} record {number}", config)
    return None


def numbered(file: File) -> Iterator[tuple[int, bytes]]:
    """The records of a file; the first number is 1.

    Raises:
        DataError: the file is damaged; the message says after which record.
    """
    number = 0
    try:
        for number, record in enumerate(file.records(), 1):
            yield number, record.numpy()
    except tf.errors.OpError as error:
        raise damaged(str(file.path), number, error.message.partition(" [Op:")[0]) from None


def layout_of(record: bytes, where: str, config: TrainConfig) -> Layout:
    """The kinds of the two features that the settings name; DataError if they do not fit."""
    try:
        features = features_of(record)
    except Exception:  # protobuf's DecodeError, which TensorFlow does not export
        raise DataError(f"{where} is not a tf.train.Example") from None
    if lists := lists_of(record):
        raise DataError(
            f"{where} is a tf.train.SequenceExample with the lists {', '.join(lists)}, and only "
            "tf.train.Example is read: --script with tf.io.parse_sequence_example, or write each "
            "list as a feature of one length"
        )
    have = ", ".join(f"{name} ({features[name]})" for name in sorted(features)[:SHOWN]) or "none"
    for setting in ("input_feature", "label_feature"):
        if (name := getattr(config, setting)) not in features:
            raise DataError(
                f"{where} has no feature {name!r}: --set {setting}=NAME. Its features: {have}"
            )
    layout = Layout(features[config.input_feature], features[config.label_feature])
    if layout.label not in (Feature("int64", 1), Feature("float", 1)):
        raise DataError(
            f"{where}: the label must be one int64 or float, but {config.label_feature!r} is "
            f"{layout.label}: --set label_feature=NAME. Its features: {have}"
        )
    if layout.input.kind == "bytes" and layout.input.values != 1:
        raise DataError(f"{where}: {config.input_feature!r} must be one image, not {layout.input}")
    if layout.input.kind == "bytes" and not config.shape_of_input:
        content = bytes_of(record, config.input_feature)
        if not is_image(content):
            raise DataError(
                f"{where}: {config.input_feature!r} has {len(content)} bytes that are no image: "
                "--set input_shape=HEIGHT,WIDTH,CHANNELS if they are pixels of one byte each"
            )
    return layout


def bytes_of(record: bytes, feature: str) -> bytes:
    """The bytes in a feature of a serialized tf.train.Example."""
    example = tf.train.Example.FromString(record)
    content: bytes = example.features.feature[feature].bytes_list.value[0]
    return content


def lists_of(record: bytes) -> list[str]:
    """The names of the lists of a serialized tf.train.SequenceExample; [] for an Example."""
    try:
        sequence = tf.train.SequenceExample.FromString(record)
    except Exception:  # protobuf's DecodeError, which TensorFlow does not export
        return []
    return sorted(sequence.feature_lists.feature_list)[:SHOWN]


def features_of(record: bytes) -> dict[str, Feature]:
    """The features of a serialized tf.train.Example that have a value."""
    features = {}
    for name, feature in tf.train.Example.FromString(record).features.feature.items():
        kind = feature.WhichOneof("kind")
        if kind and (values := len(getattr(feature, kind).value)):
            features[name] = Feature(kind.removesuffix("_list"), values)
    return features


def part_of(file: File, layout: Layout, config: TrainConfig, keep: bool) -> Part:
    """Read one file whole; DataError names the first record that is not like the others."""
    part = Part(file, [], [], [])
    try:
        for records in file.records().batch(BATCH):
            parsed = tf.io.parse_example(records, spec(layout, config))
            part.lengths.append(tf.strings.length(records).numpy().astype(np.int64))
            part.labels.append(parsed[config.label_feature].numpy())
            if keep:
                part.inputs.append(parsed[config.input_feature].numpy())
    except (tf.errors.OpError, UnicodeError) as error:  # a message of TensorFlow is not UTF-8
        for number, record in numbered(file):  # slow: looks for the record
            check_like(layout, record, f"{file.path} record {number}", config)
        reason = getattr(error, "message", str(error))
        raise DataError(f"{file.path} cannot be read: {reason}") from None
    return part


def check_like(layout: Layout, record: bytes, where: str, config: TrainConfig) -> None:
    """DataError if a record has another layout than the first one."""
    if (own_layout := layout_of(record, where, config)) != layout:
        raise DataError(
            f"{where} has {own_layout}, but the first record has {layout}: all must have the same"
        )


def spec(layout: Layout, config: TrainConfig) -> dict[str, Any]:
    """How TensorFlow parses such records."""
    shape = [] if layout.input.kind == "bytes" else [layout.input.values]
    return {
        config.input_feature: tf.io.FixedLenFeature(shape, TYPES[layout.input.kind]),
        config.label_feature: tf.io.FixedLenFeature([], TYPES[layout.label.kind]),
    }
