"""What hosts run, as an archive from which Python imports: `host`, `railhead.documents` and
`railhead.money`.

It has the source of each module, and the bytecode of this computer's Python: a host whose Python
has another version compiles the source.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
import zipfile
import zlib
from functools import cache
from importlib.util import MAGIC_NUMBER
from marshal import dumps
from pathlib import Path

import railhead.documents
import railhead.keras_patches
import railhead.money

from ..console.threads import in_one_thread
from ..host.base.programs import NAME
from .caches import cache as cache_folder
from .files import atomic_write

HOST_PROGRAMS = Path(__file__).parents[1] / "host"
DOCUMENTS = Path(railhead.documents.__file__).parent
PATCHES = Path(railhead.keras_patches.__file__).parent
MONEY = Path(railhead.money.__file__).parent
# The header of a .pyc: its Python, and the flag that it is not compared with its source.
HEADER = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
# A format of marshal: later ones depend on what else in the process refers to a constant.
PLAIN = 2
KEPT = 4  # archives on this computer, of other versions and Pythons


@in_one_thread
@cache
def archive() -> bytes:
    """The archive; equal sources and Pythons give equal bytes. It is made once and kept in
    ~/.cache/railhead/programs."""
    modules = sources()
    packed = b""
    with contextlib.suppress(OSError):  # no space or no right to write: it only saves time
        path = _kept(modules)
        if path.exists():
            return path.read_bytes()
        packed = packed_from(modules)
        atomic_write(path, packed)
        _remove_older(path.parent)
    return packed or packed_from(modules)


@cache
def name_of(packed: bytes) -> str:
    """The name of an archive, by its digest."""
    return hashlib.sha256(packed).hexdigest()[:32]


@in_one_thread
@cache  # each host gets the same
def head(packed: bytes) -> str:
    """What the agent's start needs first: the archive's name, checksum and size in bytes."""
    return f"{name_of(packed)} {zlib.crc32(packed)} {len(packed)}"


def sources() -> dict[str, bytes]:
    """The modules by their path in the archive."""
    modules = {"railhead/__init__.py": b""}  # ours loads the Python interface
    folders = {"host": HOST_PROGRAMS, "railhead/documents": DOCUMENTS, "railhead/money": MONEY}
    folders["railhead/keras_patches"] = PATCHES
    for top, folder in folders.items():
        for path in folder.rglob("*.py"):
            if path.parent != DOCUMENTS / "options":  # of commands, which hosts do not need
                modules[f"{top}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    modules["__main__.py"] = modules.pop("host/__main__.py")
    return modules


def packed_from(modules: dict[str, bytes]) -> bytes:
    """An archive of modules and their bytecode."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as target:
        for name, text in sorted(modules.items()):
            code = compile(text, f"{NAME}/{name}", "exec", dont_inherit=True)
            for path, content in ((name, text), (f"{name}c", HEADER + dumps(code, PLAIN))):
                entry = zipfile.ZipInfo(path)  # its time is fixed
                entry.compress_type = zipfile.ZIP_DEFLATED
                target.writestr(entry, content)
    return packed.getvalue()


def _kept(modules: dict[str, bytes]) -> Path:
    """Where the archive of these modules and this Python is kept."""
    digest = hashlib.sha256(sys.version.encode())
    for name, text in sorted(modules.items()):
        digest.update(b"%d %s %d " % (len(name), name.encode(), len(text)) + text)
    return cache_folder("programs") / f"{digest.hexdigest()[:32]}.pyz"


def _remove_older(folder: Path) -> None:
    """Remove all archives but the newest."""
    by_age = sorted(folder.glob("*.pyz"), key=lambda archive: archive.stat().st_mtime)
    for old in by_age[:-KEPT]:
        old.unlink(missing_ok=True)
