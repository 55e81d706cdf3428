"""Makes TensorFlow's servers in this process listen on the address of its rank only.

TensorFlow 2.18 and 2.21 bind all addresses of the host, whatever the cluster says. Its libraries
call `bind` through a table of the dynamic linker: we replace the entry by our own function. If that
fails, they bind all addresses.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import socket
import struct
import sys
from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from railhead.documents.runs.run import RunDocument
from railhead.keras_patches import patch

LIBRARIES = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")
BIND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, use_errno=True)
STRINGS, SYMBOLS, SIZE, CALLS = 5, 6, 2, 23  # DT_STRTAB, DT_SYMTAB, DT_PLTRELSZ, DT_JMPREL
HASHES = 0x6FFFFEF5  # DT_GNU_HASH
SYMBOL = CALL = 24  # bytes of an entry
JUMP_SLOT = 7  # R_X86_64_JUMP_SLOT
WILDCARDS = (bytes(16), bytes(10) + b"\xff\xff" + bytes(4))
KEPT: list[Any] = []  # functions that the libraries call: never freed


class Loaded(ctypes.Structure):
    """The first fields of the linker's record of a library, to which a handle of dlopen points."""

    _fields_ = [("base", ctypes.c_size_t), ("name", ctypes.c_char_p), ("dynamic", ctypes.c_size_t)]


def install(run: RunDocument, rank: int) -> None:
    """Patch TensorFlow after its import, if the address of this rank is one of this host; behind a
    NAT it is not."""
    if run.tf_cluster is None or run.roles is None:
        return
    role = run.roles[rank]
    name, _, port = run.tf_cluster[role.type][role.index].rpartition(":")
    with contextlib.suppress(OSError, ValueError):  # of another host; not an address
        address = ip_address(name.strip("[]"))
        with socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6) as tried:
            tried.bind((str(address), 0))
        if "tensorflow" in sys.modules:  # this process is a fork of the spare
            listen_on(address.packed, int(port))
        else:
            patch.after_import({"tensorflow": lambda _: listen_on(address.packed, int(port))})


def listen_on(address: bytes, port: int) -> None:
    """Make the loaded libraries bind this port on this address only."""
    libc = ctypes.CDLL(None, use_errno=True)
    real = BIND(("bind", libc))

    def bind(descriptor: int, place: int, length: int) -> int:
        sockaddr = changed(ctypes.string_at(place, length), address, port) if place else None
        return int(real(descriptor, sockaddr, length))

    ours = BIND(bind)
    KEPT.append(ours)
    pointer = ctypes.cast(ours, ctypes.c_void_p).value
    for path in loaded():
        with contextlib.suppress(OSError, KeyError, struct.error):
            for entry in entries(path, b"bind"):
                page = ctypes.c_void_p(entry - entry % mmap.PAGESIZE)
                if libc.mprotect(page, mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_WRITE) == 0:
                    ctypes.c_size_t.from_address(entry).value = pointer or 0


def changed(place: bytes, address: bytes, port: int) -> bytes:
    """A sockaddr; if it has all addresses and this port, `address` replaces them. Pure."""
    if len(place) < 8 or struct.unpack_from("!H", place, 2)[0] != port:
        return place
    (family,) = struct.unpack_from("H", place)
    if family == socket.AF_INET and place[4:8] == bytes(4) and len(address) == 4:
        return place[:4] + address + place[8:]
    if family == socket.AF_INET6 and place[8:24] in WILDCARDS:
        as_6 = address if len(address) == 16 else WILDCARDS[1][:12] + address
        return place[:8] + as_6 + place[24:]
    return place


def loaded() -> set[str]:
    """The paths of TensorFlow's libraries in this process."""
    with open("/proc/self/maps") as file:
        paths = {line.rstrip("\n")[73:] for line in file}
    return {path for path in paths if os.path.basename(path) in LIBRARIES}


def entries(path: str, name: bytes) -> Iterator[int]:
    """The addresses of the entries for a function in the linker's table of a loaded library.
    OSError, KeyError, struct.error: it has no such table."""
    record = Loaded.from_address(ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)._handle)
    tags = dict(pairs(record.dynamic))
    calls = ctypes.string_at(tags[CALLS], tags[SIZE])
    relocation = struct.pack("Q", number_of(name, tags) << 32 | JUMP_SLOT)
    for offset in range(0, len(calls), CALL):
        if calls.startswith(relocation, offset + 8):
            yield record.base + struct.unpack_from("Q", calls, offset)[0]


def number_of(name: bytes, tags: Mapping[int, int]) -> int:
    """The number of a symbol that a library imports; its hash table does not have these. KeyError:
    there is none."""
    (others,) = struct.unpack("I", ctypes.string_at(tags[HASHES] + 4, 4))
    symbols = ctypes.string_at(tags[SYMBOLS], SYMBOL * others)
    for number in range(others):
        (name_offset,) = struct.unpack_from("I", symbols, SYMBOL * number)
        if ctypes.string_at(tags[STRINGS] + name_offset, len(name) + 1) == name + b"\0":
            return number
    raise KeyError(name)


def pairs(address: int) -> Iterator[tuple[int, int]]:
    """The tags of a dynamic section and their values."""
    while (pair := struct.unpack("QQ", ctypes.string_at(address, 16)))[0]:
        yield pair
        address += 16
