"""Uploads local data to a bucket: in parallel, verified by the cloud, only missing files."""

from __future__ import annotations

import json
from collections.abc import Sequence

from railhead.documents.codec import encode, key
from railhead.documents.lazy import dataclass

from ..clouds.storage import Store
from ..console.live import board_of
from ..console.progress import Transfer
from ..console.threads import in_threads
from ..errors import RailheadError
from ..host.buckets.objects import ChangedFile
from .folders import DataFile, LocalData

UPLOADS = 8  # at the same time
DATA = "data/"  # of a stack's bucket: <digest>/ and <digest>.json, which is written last


@dataclass(frozen=True)
class StoredData:
    """<digest>.json: all of the data is there, from a folder of this name."""

    files: int = key(at_least=0)
    bytes: int = key(at_least=0)
    from_: str = "?"
    schema: int = 1


@dataclass(frozen=True)
class Uploaded:
    """The number of files that were uploaded, and of those that the bucket had already."""

    sent: int
    present: int


def upload(data: LocalData, store: Store, prefix: str) -> Uploaded:
    """Make the objects below `prefix` (empty, or ends with `/`) have the files of `data`. Other
    objects there are left alone.

    Raises:
        RailheadError: a file changed or an upload failed; the next attempt sends only the rest.
    """
    with board_of(("upload",)) as board:
        board.line("upload", f"listing {store.url}/{prefix}")
        sizes = {item.key: item.size for page in store.objects(prefix) for item in page}
        missing = _missing(data.files, store, prefix, sizes)
        progress = Transfer(sum(file.size for file in missing))

        def send(file: DataFile) -> None:
            path = data.root / file.path
            try:
                store.upload(prefix + file.path, path, file.sha256)
            except ChangedFile as error:
                raise RailheadError(str(error)) from None
            except OSError as error:
                raise RailheadError(f"cannot read {path}: {error.strerror}") from error
            board.line("upload", *progress.add(file.size))

        in_threads(send, missing, UPLOADS)
    return Uploaded(len(missing), len(data.files) - len(missing))


def _missing(
    files: Sequence[DataFile], store: Store, prefix: str, sizes: dict[str, int]
) -> list[DataFile]:
    """The files that the bucket does not have, or has with another size or hash."""

    def present(file: DataFile) -> bool:
        key = prefix + file.path
        return sizes.get(key) == file.size and store.sha256(key) == file.sha256

    presences = in_threads(present, files, UPLOADS)
    return [file for file, is_there in zip(files, presences, strict=True) if not is_there]


def upload_to_stack(data: LocalData, store: Store) -> tuple[str, Uploaded]:
    """Upload into `data/<digest>/` of a stack's bucket; returns its URI. The entry that marks
    it as complete is written last."""
    prefix = f"{DATA}{data.digest}/"
    uploaded = upload(data, store, prefix)
    entry = StoredData(len(data.files), data.total_bytes, data.root.name)
    store.write(f"{DATA}{data.digest}.json", json.dumps(encode(entry)).encode())
    return f"{store.url}/{prefix}", uploaded
