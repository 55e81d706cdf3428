"""For which GPUs a library holds code: the bytes are laid out as nvcc 12.4 left them."""

from __future__ import annotations

import struct

import pytest

from bootstrap.facts.fatbin import codes


def entry(kind: int, gpu: int, code: bytes = b"code" * 8) -> bytes:
    head = struct.pack("<HHIQIIHHI", kind, 0x101, 64, len(code), 0, 0, 0, 1, gpu)
    return head.ljust(64, b"\0") + code


def fatbin(*entries: bytes) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


ELF = b"\x7fELF" + bytes(100)


@pytest.mark.parametrize(
    ("library", "holds"),
    [
        (ELF, set()),
        (b"", set()),
        (ELF + fatbin(entry(2, 70), entry(2, 75)) + ELF, {"sm_70", "sm_75"}),
        (fatbin(entry(2, 70)) + ELF + fatbin(entry(1, 80)), {"sm_70", "compute_80"}),
        (fatbin(entry(2, 80), entry(9, 75)), {"sm_80"}),  # a kind that nobody knows ends it
        (fatbin(entry(2, 80))[:-40], {"sm_80"}),
        (fatbin(entry(2, 80))[:10], set()),
        (fatbin(), set()),
    ],
)
def test_the_gpus_that_a_library_has_code_for(library: bytes, holds: set[str]) -> None:
    assert codes(library) == holds
