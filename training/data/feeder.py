"""A stream of records for a script: a folder of small TFRecord files that the script removes.

    00000000.tfrecord, 00000001.tfrecord, ...    whole records, some megabytes
    00000042.end                                 an epoch ends here; the next one follows
    00000085.failed                              nothing follows; the file says why

The reader takes the first name, reads the file and removes it; docs/data.md has a reader of 17
lines. A file appears when it is whole. At most FILES wait for the reader, and two small ones at the
end.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from railhead.documents.names import is_manifest

from . import DataError
from .part import Part
from .records import segments
from .shards import manifest
from .shards.stream import Ahead, write_whole
from .store import Item, Store

FILES = 8
SEGMENT = 4 << 20
POLL = 0.005


class Feeder:
    """Writes the files of one part of a store into a folder, numbered and a few at a time; the
    reader uses them as a stream."""

    def __init__(
        self, store: Store, folder: Path, part: Part, *, shuffle: int | None = None
    ) -> None:
        self.store, self.folder, self.part, self.shuffle = store, folder, part, shuffle
        self.number = 0
        self.parent = os.getppid()

    def run(self, epochs: int = 0) -> None:
        """Stream this number of epochs; 0: until the process that started this one has exited.

        Raises:
            DataError: a file cannot be read or written, or is not what the manifest says. The
                reader finds the message in the last file.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        if any(self.folder.iterdir()):
            raise DataError(f"{self.folder} is not empty: name a new folder")
        try:
            for epoch in range(epochs) if epochs else itertools.count():
                if not self.epoch(epoch):
                    return
            self.put(
                "failed", f"the stream of {self.store.uri} has ended: {epochs} epochs".encode()
            )
        except DataError as error:
            self.put("failed", str(error).encode())
            raise

    def epoch(self, epoch: int) -> bool:
        """Stream all files once; False if the reader is gone.

        Raises:
            DataError: there is no record in them; the next epochs would have none either.
        """
        before, ahead = self.number, Ahead(self.contents(epoch))
        try:
            for content in ahead:
                if not self.wait_for_room():
                    return False
                self.put("tfrecord", content)
        finally:
            ahead.close()
        if self.number == before:
            raise DataError(f"{self.store.uri} has no records to stream")
        self.put("end", b"")
        return True

    def contents(self, epoch: int) -> Iterator[memoryview]:
        """The records of an epoch, some megabytes at a time."""
        for item, records in self.files(epoch):
            read = segments(self.store, item.name, item.bytes, count=records, segment=SEGMENT)
            for content, _ in read:
                yield content

    def files(self, epoch: int) -> Sequence[tuple[Item, int | None]]:
        """The files of an epoch in order, with the number of records if a manifest has it."""
        listed = self.store.items()
        items = [item for item in listed if not is_manifest(item.name)]
        records: dict[str, int] = {}
        if shards := manifest.beside(self.store, listed):
            manifest.check_sizes(self.store, shards)
            records = dict(zip(shards.names, shards.counts, strict=True))
            items = [item for item in items if item.name in records]
        chosen = [(item, records.get(item.name)) for item in self.part.of(items)]
        if self.shuffle is not None:
            random.Random(f"{self.shuffle}/{epoch}").shuffle(chosen)
        return chosen

    def put(self, kind: str, content: bytes | memoryview) -> None:
        """Make the next file appear, whole."""
        name = f"{self.number:08d}.{kind}"
        partial = self.folder / f".{name}"
        write_whole(partial, content)
        partial.replace(self.folder / name)
        self.number += 1

    def wait_for_room(self) -> bool:
        """Wait until the reader has removed enough files; False if the reader is gone."""
        while self.waiting() >= FILES:
            if os.getppid() != self.parent or not self.folder.exists():
                return False
            time.sleep(POLL)
        return True

    def waiting(self) -> int:
        """How many files wait for the reader."""
        try:
            return sum(1 for path in self.folder.iterdir() if path.name[0] != ".")
        except FileNotFoundError:  # removed, with all that was in it
            return FILES
