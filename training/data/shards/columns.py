"""The columns of a manifest: numbers of many shards in one file, which is never pickled. Standard
library only.

    manifest-<digest>.columns    the columns one after the other, as the head in manifest.json says:
        records   uint64, little-endian       every     uint32, as Shard.every
        bytes     uint64                      offsets   uint64: those of all shards in order
        sha256    32 bytes each               names     UTF-8, each with a line feed; only where the
                                                        head has no pattern for them

A reader reads only the columns that it needs, checked by their sha256; of `offsets`, the largest
column, only those of one shard. The name has the digest of the content: of two writers, each writes
its own file, and the head in manifest.json names one of them.
"""

from __future__ import annotations

import hashlib
import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, starmap
from typing import Any

from railhead.documents.names import MANIFEST, is_manifest

from .. import DataError
from ..store import Store

# The type codes of `array`: unsigned, of 8, 4 and 1 bytes.
TYPES = {"records": "Q", "bytes": "Q", "sha256": "B", "every": "I", "offsets": "Q", "names": "B"}
MOST_DIGITS = 20  # of the number in a name


@dataclass(frozen=True)
class Shard:
    """One file. `offsets` are the places in it of the records `every`, 2 * `every` and so on."""

    name: str
    records: int
    bytes: int
    sha256: str
    every: int = 0
    offsets: Sequence[int] = ()

    def place(self, record: int) -> tuple[int, int]:
        """From which byte to read for a record, and how many records to skip from there."""
        if not record or not self.every:
            return 0, record
        known = min(record // self.every, len(self.offsets))
        return (self.offsets[known - 1], record - known * self.every) if known else (0, record)

    def end(self, record: int) -> int:
        """A byte that is not before the end of the records below `record`."""
        if not self.every:
            return self.bytes
        known = -(-record // self.every)
        return self.offsets[known - 1] if 0 < known <= len(self.offsets) else self.bytes


def known_offsets(records: int, every: int) -> int:
    """How many offsets a shard has: of each `every` records, but not of the end."""
    return (records - 1) // every if every and records else 0


def name_fault(name: str) -> str:
    """What is wrong with a shard's name, a path below the folder; empty if nothing is."""
    parts = name.split("/")
    wrong = any(name in ("", ".", "..") for name in parts) or not name.isprintable()
    return f"name of a shard {name!r}" if wrong else ""


def offsets_fault(shard: Shard) -> str:
    """What is wrong with a shard's offsets; empty if nothing is."""
    ascending = all(a < b for a, b in pairwise((0, *shard.offsets, shard.bytes)))
    expected = known_offsets(shard.records, max(1, shard.every))
    if not shard.offsets or (ascending and len(shard.offsets) == expected):
        return ""
    return f"offsets of shard {shard.name}"


# --- Names ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pattern:
    """Names that count from 0: `before`, the number with so many `digits`, `after`."""

    before: str
    digits: int
    after: str

    def __post_init__(self) -> None:
        texts = type(self.before) is str and type(self.after) is str
        if not (texts and type(self.digits) is int and 1 <= self.digits <= MOST_DIGITS):
            raise ValueError(f"names of shards {vars(self)}")

    def name(self, number: int) -> str:
        return f"{self.before}{number:0{self.digits}d}{self.after}"

    @staticmethod
    def of(names: Sequence[str]) -> Pattern | None:
        """The pattern of these names; None if they have none."""
        for zeros in re.finditer(rf"(?<!\d)0{{1,{MOST_DIGITS}}}(?!\d)", names[0]) if names else ():
            pattern = Pattern(names[0][: zeros.start()], len(zeros[0]), names[0][zeros.end() :])
            if all(pattern.name(number) == name for number, name in enumerate(names)):
                return pattern
        return None


# --- Write ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Packed:
    """The content of a file of columns, and what the head says about it."""

    content: bytes
    head: dict[str, Any]


def packed(shards: Iterable[Shard]) -> Packed:
    """Shards as columns."""
    columns = {name: array(code) for name, code in TYPES.items()}
    names: list[str] = []
    for shard in shards:
        names.append(shard.name)
        columns["records"].append(shard.records)
        columns["bytes"].append(shard.bytes)
        columns["sha256"].frombytes(bytes.fromhex(shard.sha256) or bytes(32))
        columns["every"].append(shard.every if shard.offsets else 0)
        columns["offsets"].extend(shard.offsets)
    pattern = Pattern.of(names)
    if not pattern:
        columns["names"].frombytes("".join(f"{name}\n" for name in names).encode())
    parts = {name: little(column).tobytes() for name, column in columns.items()}
    content = b"".join(parts.values())
    ends = accumulate(map(len, parts.values()), initial=0)
    digest = hashlib.sha256(content).hexdigest()
    head = {
        "file": f"manifest-{digest[:16]}.columns",
        "names": vars(pattern) if pattern else None,
        "columns": {
            name: {"at": start, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for start, (name, data) in zip(ends, parts.items(), strict=False)
        },
    }
    return Packed(content, head)


def little(column: array[int]) -> array[int]:
    """The same numbers in little-endian order, or back."""
    if sys.byteorder == "big":
        column = array(column.typecode, column)
        column.byteswap()
    return column


# --- Read ----------------------------------------------------------------------------------


class Table(Sequence[Shard]):
    """The shards of a file of columns; each is made when it is needed.

    Raises:
        DataError: the head or a column is not as it should be, or the file cannot be read.
    """

    def __init__(self, store: Store, head: dict[str, Any], shards: int) -> None:
        self.store, self.head, self.length = store, head, shards
        with self.checked():
            if not is_manifest(self.head["file"]):
                raise ValueError(f"{head['file']!r} is not the name of a file of columns")
            self.pattern = Pattern(**head["names"]) if head["names"] else None
        self.records, self.bytes = self.column("records", shards), self.column("bytes", shards)

    @contextmanager
    def checked(self) -> Iterator[None]:
        """Whatever is wrong in the head is a DataError."""
        try:
            yield
        except (KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
            raise DataError(f"{self.store.uri}/{MANIFEST} is damaged: {error}") from None

    def column(self, name: str, items: int | None = None) -> array[int]:
        """A whole column, which must have this number of items."""
        with self.checked():
            head, numbers = self.head["columns"][name], array(TYPES[name])
            data = self.column_bytes(name, 0, int(head["bytes"]))
            if hashlib.sha256(data).hexdigest() != head["sha256"]:
                raise ValueError(f"column {name} has another sha256")
            numbers.frombytes(data)
            if items is not None and len(numbers) != items:
                raise ValueError(f"column {name} has {len(numbers)} items, not {items}")
            return little(numbers)

    def column_bytes(self, name: str, begin: int, end: int) -> Any:
        """Some bytes of a column."""
        with self.checked():
            column = self.head["columns"][name]
            if not 0 <= begin <= end <= column["bytes"]:
                raise ValueError(f"column {name} has no bytes {begin} to {end}")
            start = int(column["at"])
            return memoryview(self.store.read_range(self.head["file"], start + begin, start + end))

    @property
    def file(self) -> tuple[str, int, str]:
        """The name and bytes of the file of columns, and the first 16 hex digits of its sha256."""
        name = self.head["file"]
        with self.checked():
            size = sum(int(column["bytes"]) for column in self.head["columns"].values())
        return name, size, name.removeprefix("manifest-").removesuffix(".columns")

    @cached_property
    def digests(self) -> bytes:
        return self.column("sha256", 32 * self.length).tobytes()

    @cached_property
    def every(self) -> array[int]:
        return self.column("every", self.length)

    @cached_property
    def starts(self) -> array[int]:
        """How many offsets there are before those of each shard."""
        pairs = zip(self.records, self.every, strict=True)
        with self.checked():
            return array("Q", accumulate(starmap(known_offsets, pairs), initial=0))

    @cached_property
    def listed(self) -> list[str]:
        with self.checked():
            names = self.column("names").tobytes().decode().split("\n")
            if len(names) != self.length + 1:
                raise ValueError(f"column names has {len(names) - 1} items, not {self.length}")
            return names[:-1]

    def names(self) -> Iterator[str]:
        """The name of each shard."""
        return map(self.name, range(self.length))

    def name(self, number: int) -> str:
        """The name of one shard."""
        name = self.pattern.name(number) if self.pattern else self.listed[number]
        with self.checked():
            if fault := name_fault(name):
                raise ValueError(fault)
        return name

    def offsets(self, number: int) -> array[int]:
        """The offsets of one shard."""
        begin, end = (8 * self.starts[edge] for edge in (number, number + 1))
        offsets = array("Q", bytes(self.column_bytes("offsets", begin, end)))
        return little(offsets)

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: Any) -> Any:
        if isinstance(number, slice):
            return [self[index] for index in range(*number.indices(self.length))]
        number = range(self.length)[number]
        digest = self.digests[32 * number : 32 * number + 32]
        every = self.every[number]
        return Shard(
            self.name(number),
            self.records[number],
            self.bytes[number],
            digest.hex(),
            every,
            Offsets(self, number) if every else (),
        )


@dataclass(frozen=True)
class Offsets(Sequence[int]):
    """The offsets of a shard, read when one is needed."""

    table: Table
    number: int

    @cached_property
    def read(self) -> array[int]:
        """Read and check them: a stream would otherwise begin inside a record."""
        offsets = self.table.offsets(self.number)
        with self.table.checked():
            if not all(a < b for a, b in pairwise((0, *offsets, self.table.bytes[self.number]))):
                raise ValueError(f"offsets of shard {self.table.name(self.number)}")
        return offsets

    def __len__(self) -> int:
        return self.table.starts[self.number + 1] - self.table.starts[self.number]

    def __getitem__(self, index: Any) -> Any:
        return self.read[index]
