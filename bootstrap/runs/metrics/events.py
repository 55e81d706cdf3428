"""TensorBoard's event files from metrics.jsonl: scalars only, without TensorBoard itself.

The format: records of length, checksum of the length, data, checksum of the data; the data is the
protocol buffer `Event` with its wall time, its step and one scalar.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from railhead.documents.runs.records import Record

from ...untrusted.records import records

FOLDER = "tensorboard"
OURS = "metrics"  # folder below FOLDER with the files of this module
EVENT_FILE = f"{FOLDER}/{OURS}/events.out.tfevents.0000000000.railhead"
VERSION = b"brain.Event:2"
Point = tuple[str, int]  # the name of a curve, and a step
LARGEST = 3.4e38  # 32-bit float


def event_file(results: Path) -> bytes | None:
    """The event file for a run's metrics.jsonl; None if it would be empty.

    It always has the numbers of --metric. It has progress and epochs only if the program did not
    write an event file itself.
    """
    own = any(p != results / EVENT_FILE for p in (results / FOLDER).rglob("*tfevents*"))
    shown = [r for r in records(results / "metrics.jsonl") if not own or r.kind == "metric"]
    points: dict[Point, bytes] = {}
    for record in shown:
        for point, event in _events(record):
            points.pop(point, None)  # a later attempt has repeated it
            points[point] = event
    first = _framed(_fixed64(1, 0.0) + _bytes(3, VERSION))
    return b"".join([first, *map(_framed, points.values())]) if points else None


def _events(record: Record) -> Iterator[tuple[Point, bytes]]:
    """The events of one record: one for each number of an epoch, of progress, or of --metric."""
    scalars = {f"{record.kind}/{name}": value for name, value in record.figures.items()}
    step = record.epoch if record.kind == "epoch" else record.step
    if record.kind == "metric":
        scalars, step = {record.name: record.figures.get("value", math.nan)}, record.number
    elif record.kind not in ("epoch", "progress") or (record.kind == "progress" and record.rank):
        return
    if step is None or not 0 <= step < 1 << 62:
        return
    for tag, value in scalars.items():
        if abs(value) < LARGEST:
            yield (tag[:200], int(step)), _event(record.time or 0.0, int(step), tag[:200], value)


def _event(time: float, step: int, tag: str, value: float) -> bytes:
    scalar = _bytes(1, tag.encode(errors="replace")) + b"\x15" + struct.pack("<f", value)
    return _fixed64(1, time) + b"\x10" + _varint(step) + _bytes(5, _bytes(1, scalar))


def _fixed64(field: int, value: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", value)


def _bytes(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _framed(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


def _checksum(data: bytes) -> bytes:
    """The masked CRC-32C of TFRecord files."""
    crc, table = 0xFFFFFFFF, _table()
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


@cache
def _table() -> tuple[int, ...]:
    return tuple(_table_entry(byte) for byte in range(256))


def _table_entry(value: int) -> int:
    for _ in range(8):
        value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
    return value
