"""TFRecord files as sequences of framed records, without decoding them. Standard library only.

A record is framed by its length (8 bytes), a CRC of the length, and after it a CRC of the data.
TensorFlow checks the CRCs when it reads; here only the CRC of the first length is checked, to
recognise a TFRecord file, and that of a length which is too large.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import IO, Any

from . import DataError
from .store import Store

HEADER = 8 + 4  # bytes before the data of a record: its length and a CRC
FRAME = HEADER + 4
LENGTH = struct.Struct("<Q")
LARGEST = 1 << 30  # bytes of one record that TensorFlow may read


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
    """Read records of a file of `size` bytes: about `segment` bytes of whole records at a time, and
    their number. Data is copied only where a record began in the piece before.

    `begin` is the place of a record, `skip` the records to leave out from there, `count` those to
    read (None: to the end of the file), `end` a byte that is not before their end.

    Raises:
        DataError: the file cannot be read, ends inside a record, or has fewer records.
    """
    path, unread = f"{store.uri}/{name}", count
    rest, position, end = b"", begin, size if end is None else end
    while position < end and unread != 0:
        want = min(end, position + max(segment, missing(rest)))
        read = memoryview(store.read_range(name, position, want))
        data = memoryview(rest + read) if rest else read
        if position == begin:
            check_first(data, path, begin)
        position = want
        first, stop, skip, taken = cut(data, skip, unread)
        if stop + missing(data[stop : stop + LENGTH.size]) > len(data) + size - position:
            raise DataError(f"{path} ends inside a record, or is not a TFRecord file")
        unread = None if unread is None else unread - taken
        rest = bytes(data[stop:])
        if taken:
            yield data[first:stop], taken
    if unread or (unread is None and rest):
        raise DataError(f"{path} ends inside a record, or has fewer records than it should")


def records_in(content: memoryview) -> Iterator[memoryview]:
    """The data of each record of some whole records."""
    begin = 0
    while begin < len(content):
        end = begin + HEADER + LENGTH.unpack_from(content, begin)[0]
        yield content[begin + HEADER : end]
        begin = end + FRAME - HEADER


def missing(data: bytes | memoryview) -> int:
    """How long the record is that `data` begins with; 0 if its length is not known."""
    return LENGTH.unpack_from(data)[0] + FRAME if len(data) >= LENGTH.size else 0


def cut(data: memoryview, skip: int, most: int | None) -> tuple[int, int, int, int]:
    """Where complete records begin and end after `skip` others; how many are still to be skipped,
    and how many they are, at most `most`."""
    first = position = taken = 0
    unpack, size = LENGTH.unpack_from, len(data) - LENGTH.size
    while position <= size and taken != most:
        end = position + unpack(data, position)[0] + FRAME
        if end > len(data):
            break
        position = end
        if skip:
            skip, first = skip - 1, position
        else:
            taken += 1
    return first, position, skip, taken


def check_first(data: memoryview, path: str, begin: int = 0) -> None:
    """Refuse a file that does not have a length and its CRC where a record should begin."""
    if not is_header(data):
        if begin:
            raise DataError(f"{path} has no record at byte {begin}: its manifest is older than it")
        raise DataError(f"{path} is not a TFRecord file, or is compressed")


def check_lengths(file: IO[bytes] | gzip.GzipFile, path: str) -> None:
    """Compare the length of each record with what follows it: TensorFlow allocates that much memory
    before it reads, and crashes if there is too little. A length with a wrong CRC ends the check,
    since TensorFlow refuses it. `file` is open at its beginning, may be a gzip.GzipFile, and only
    its headers are read.

    Raises:
        DataError: the file ends inside a record, has one above LARGEST, or is damaged gzip.
    """
    complete = begin = 0  # records, and where the next one begins
    try:
        while len(header := file.read(HEADER)) == HEADER:
            end = begin + LENGTH.unpack_from(header)[0] + FRAME
            if end - begin - FRAME > LARGEST or not reaches(file, end):
                if is_header(header):
                    raise damaged(path, complete, reason(file, begin, end))
                return
            complete, begin = complete + 1, end
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, complete, str(error)) from None


def reaches(file: IO[bytes] | gzip.GzipFile, end: int) -> bool:
    """Whether a file has this many bytes; if so, its position is then there."""
    file.seek(end - 1)
    return bool(file.read(1))


def reason(file: IO[bytes] | gzip.GzipFile, begin: int, end: int) -> str:
    """Why a record that begins and ends at these places is refused."""
    needs, rest = end - begin - HEADER, file.seek(0, os.SEEK_END) - begin - HEADER
    if rest < needs:
        return f"the record needs {needs} bytes with its CRC, but the file has {rest} more"
    return f"the record has {needs - 4} bytes, but the largest that is read has {LARGEST}"


def damaged(path: str, complete: int, reason: str) -> DataError:
    """The error for a file that can be read up to the end of this many records."""
    place = f"after record {complete}" if complete else "in its first record"
    return DataError(f"{path} is truncated or damaged {place}: {reason}")


def is_header(data: bytes | memoryview) -> bool:
    """Whether some bytes begin with a length and its CRC."""
    return len(data) >= HEADER and masked_crc(data[:8]) == struct.unpack_from("<I", data, 8)[0]


def masked_crc(data: bytes | memoryview) -> int:
    """CRC-32C of some bytes, masked as TFRecord files have it; slow."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
