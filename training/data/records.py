"""TFRecord files as sequences of framed records, without decoding them. Standard library only.

A record is framed by its length (8 bytes), a CRC of the length, and behind it a CRC of the data.
TensorFlow checks the CRCs when it reads; here only the first length's is checked, to know a
TFRecord file from any other.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from training.data import DataError
from training.data.store import Store

FRAME = 8 + 4 + 4
LENGTH = struct.Struct("<Q")


def frames(pieces: Iterable[Any], path: str) -> Iterator[int]:
    """The bytes of each record with its frame, from the pieces of a file in order.

    Raises:
        DataError: the file ends inside a record.
    """
    rest = bytearray()
    skip = 0  # bytes of the record that began before
    for piece in pieces:
        rest += piece
        position = min(skip, len(rest))
        skip -= position
        while not skip and len(rest) - position >= LENGTH.size:
            frame = LENGTH.unpack_from(rest, position)[0] + FRAME
            yield frame
            skip = max(0, position + frame - len(rest))
            position = min(position + frame, len(rest))
        del rest[:position]
    if skip or rest:
        raise DataError(f"{path} ends inside a record")


def segments(
    store: Store,
    name: str,
    size: int,
    *,
    begin: int = 0,
    skip: int = 0,
    count: int | None = None,
    end: int | None = None,
    segment: int = 4 << 20,
) -> Iterator[tuple[memoryview, int]]:
    """Read records of a file of `size` bytes: about `segment` bytes of whole records at a time,
    and how many they are. What was read is copied only where a record began before it.

    `begin` is the place of a record, `skip` the records to leave out from there, `count` those to
    read (None: to the end of the file), `end` a byte that is not before their end.

    Raises:
        DataError: the file cannot be read, ends inside a record, or has fewer records.
    """
    path, left = f"{store.uri}/{name}", count
    rest, position, end = b"", begin, size if end is None else end
    while position < end and left != 0:
        want = min(end, position + max(segment, missing(rest)))
        read = memoryview(store.read_range(name, position, want))
        data = memoryview(rest + read) if rest else read
        if position == begin == 0:
            check_first(data, path)
        position = want
        first, stop, skip, taken = cut(data, skip, left)
        if stop + missing(data[stop : stop + LENGTH.size]) > len(data) + size - position:
            raise DataError(f"{path} ends inside a record, or is not a TFRecord file")
        left = None if left is None else left - taken
        rest = bytes(data[stop:])
        if taken:
            yield data[first:stop], taken
    if left or (left is None and rest):
        raise DataError(f"{path} ends inside a record, or has fewer records than it should")


def missing(data: bytes | memoryview) -> int:
    """How long the record is that `data` begins with; 0 where its length is not known."""
    return LENGTH.unpack_from(data)[0] + FRAME if len(data) >= LENGTH.size else 0


def cut(data: memoryview, skip: int, most: int | None) -> tuple[int, int, int, int]:
    """Where whole records begin and end behind `skip` others; what is left to skip, and how many
    they are, at most `most`."""
    first = position = taken = 0
    unpack, size = LENGTH.unpack_from, len(data) - LENGTH.size
    while position <= size and taken != most:
        behind = position + unpack(data, position)[0] + FRAME
        if behind > len(data):
            break
        position = behind
        if skip:
            skip, first = skip - 1, position
        else:
            taken += 1
    return first, position, skip, taken


def check_first(data: memoryview, path: str) -> None:
    """Refuse a file that does not begin with a length and its CRC."""
    if len(data) < 12 or masked_crc(data[:8]) != struct.unpack_from("<I", data, 8)[0]:
        raise DataError(f"{path} is not a TFRecord file, or is compressed")


def masked_crc(data: bytes | memoryview) -> int:
    """CRC-32C of some bytes, masked as TFRecord files have it; slow."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
