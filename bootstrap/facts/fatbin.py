"""Finds the GPU architectures that a library contains code for, from its CUDA fat binaries.

Replaces `cuobjdump --list-elf` on machines without a CUDA toolkit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER = struct.Struct("<IHHQ")  # magic, version, header size, size of the content after the header
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, header size, code size, GPU architecture
KINDS = {1: "compute", 2: "sm"}  # PTX, which the driver compiles; machine code


def codes(library: bytes) -> frozenset[str]:
    """Architecture names: sm_70 is machine code, compute_80 is PTX, for later GPUs."""
    architectures: set[str] = set()
    offset = library.find(MAGIC)
    while offset >= 0:
        architectures.update(_entries(library, offset))
        offset = library.find(MAGIC, offset + 1)
    return frozenset(architectures)


def _entries(library: bytes, offset: int) -> Iterator[str]:
    if offset + HEADER.size > len(library):
        return
    _, _, header, size = HEADER.unpack_from(library, offset)
    end = min(offset + header + size, len(library))
    offset += header
    while offset + ENTRY.size <= end:
        kind, _, header, size, gpu = ENTRY.unpack_from(library, offset)
        if kind not in KINDS:
            return
        yield f"{KINDS[kind]}_{gpu}"
        offset += header + size
