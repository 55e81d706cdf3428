"""For which GPUs a library holds code, read from its bytes as NVIDIA's compiler leaves them.

What `cuobjdump --list-elf` tells, where there is no CUDA toolkit.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

MAGIC = struct.pack("<I", 0xBA55ED50)
HEADER = struct.Struct("<IHHQ")  # magic, version, size of this header, size of what follows
ENTRY = struct.Struct("<HHIQ12xI")  # kind, version, size of this header, of the code; the GPU
KINDS = {1: "compute", 2: "sm"}  # what a driver translates, and what runs as it is


def codes(library: bytes) -> frozenset[str]:
    """Names like sm_70 (its machine code) and compute_80 (PTX, for GPUs that come later)."""
    found: set[str] = set()
    at = library.find(MAGIC)
    while at >= 0:
        found.update(_entries(library, at))
        at = library.find(MAGIC, at + 1)
    return frozenset(found)


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
