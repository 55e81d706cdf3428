"""Archives that a compromised host may send in place of a run's results."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bootstrap.inventory import hosts as inventory
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.agent.files import TextFile
from railhead.documents.agent.packing import Collected, Sent
from railhead.documents.codec import decode

Member = tuple[tarfile.TarInfo, bytes]
RESULT = b'{"state": "succeeded"}'


def member(name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    """One entry of an archive, of any type."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, len(data)
    return entry, data


def symlink(name: str, target: str) -> Member:
    """A symbolic link."""
    return member(name, kind=tarfile.SYMTYPE, link=target)


def chain(outside: str) -> list[Member]:
    """A chain of links whose resolved path is longer than PATH_MAX (CVE-2025-4517): the `data`
    filter of Python 3.11.7 believes that `escape` stays inside, and the last entry is written
    through it to `outside`, relative to the folder above the results."""
    entries, path = [], ""
    long, steps = "d" * 247, "abcdefghijklmnop"
    for step in steps:
        entries += [member(path + long, kind=tarfile.DIRTYPE), symlink(path + step, long)]
        path += long + "/"
    deep = "/".join(steps) + "/" + "l" * 254
    entries += [symlink(deep, "../" * len(steps)), symlink("escape", f"{deep}/../{outside}")]
    entries += [member("hard", kind=tarfile.LNKTYPE, link="escape"), member("hard", b"evil")]
    return entries


def packed(members: Sequence[Member]) -> bytes:
    """The members as a tar.gz; folders may be entered by everybody."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        for entry, data in members:
            entry.mode = 0o755 if entry.isdir() else 0o644
            tar.addfile(entry, io.BytesIO(data))
    return out.getvalue()


class Host:
    """A chief that answers each question as it likes."""

    def __init__(
        self, archive: bytes, texts: Mapping[str, str] = {}, answer: Mapping[str, Any] = {}
    ) -> None:
        self.host = inventory.Host("h1", "h1")
        self.archive, self.texts = archive, texts
        self.answer: dict[str, Any] = {"files": [], "left": [], "skipped": [], "changed": []}
        self.answer |= answer
        self.written: list[TextFile] = []

    def read(self, path: str) -> str | None:
        """The text by the end of the path."""
        return self.texts.get(path.rpartition("/")[2])

    def write(self, *files: TextFile) -> None:
        """Remembered."""
        self.written += files

    def get(self, root: str, patterns: Sequence[str], out: Path, *, limit: int) -> Sent:
        """The archive, whatever is requested."""
        return self.collect(root, out, limit=limit)

    def collect(self, folder: str, out: Path, *, limit: int) -> Collected:
        """The archive, whatever is requested."""
        out.write_bytes(self.archive)
        return decode(Collected, self.answer, error=Hostile)


def manifest(*files: Mapping[str, Any]) -> str:
    """A manifest that names these files."""
    return json.dumps({"schema": 1, "files": files, "skipped": []})
