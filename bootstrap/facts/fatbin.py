"""Finds the GPU architectures that a library contains code for, from its CUDA fat binaries.

Replaces `cuobjdump --list-elf` on machines without a CUDA toolkit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER = struct.Struct("<IHHQ")  # magic, version, header size, size of the content after it
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, header size, code size, GPU architecture
KINDS = {1: "compute", 2: "sm"}  # PTX, which the driver compiles; machine code


def codes(library: bytes) -> frozenset[str]:
    """Architecture names: sm_70 is machine code, compute_80 is PTX, for later GPUs."""
    architectures: set[str] = set()
    at = library.find(MAGIC)
    while at >= 0:
        architectures.update(_entries(library, at))
        at = library.find(MAGIC, at + 1)
    return frozenset(architectures)


def _entries(library: bytes, at: int) -> Iterator[str]:
    if at + HEADER.size > len(library):
        return
    _, _, header, size = HEADER.unpack_from(library, at)
    end = min(at + header + size, len(library))
    at += header
    while at + ENTRY.size <= end:
        kind, _, header, size, gpu = ENTRY.unpack_from(library, at)
        if kind not in KINDS:
            return
        yield f"{KINDS[kind]}_{gpu}"
        at += header + size
