"""`fab data push`, `fab data list`, `fab data shard` and `fab data index`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from railhead.documents.codec import decode
from railhead.documents.options.runs import IndexOptions, ProgramOptions, ShardOptions
from railhead.documents.outputs import DataOutput, StoredObject
from railhead.documents.uri import BucketUri, bucket_uri, scheme_of

from ..clouds import bucket
from ..clouds.storage import NoBucket, Store
from ..console import log
from ..console.output import note_output, print_lines
from ..console.text import clean, count, size
from ..data.folders import listed, summary
from ..data.inputs import DataInput
from ..data.place import hashed_input
from ..data.spec import DataSpec
from ..data.upload import DATA, StoredData, upload, upload_to_stack
from ..errors import Command, RailheadError, UsageError
from ..inventory.files import existing_path, folder_option
from ..inventory.hosts import Inventory
from ..plan.runtimes import REPO
from ..provision.local_environment import runtime_here, variables_here
from ..untrusted.decode import json_object
from ..untrusted.unpack import Hostile

SHOWN = 20  # objects in a list
ENTRY = 4096  # bytes of an entry of the stack's bucket


def push(folder: Path, uri: str, stack: Inventory | None) -> None:
    """Upload a folder to a URI, or into the bucket of a stack."""
    if existing_path(folder) is None:
        raise UsageError(f"there is no file or folder {folder} here")
    location = None if stack else _location(uri)
    files = listed(folder, str(Command("data push")))
    spec = DataSpec(folder.name, str(folder), "local")
    data = hashed_input(DataInput(spec, files))
    if stack:
        uri, uploaded = upload_to_stack(data, bucket.bucket_of(stack).store)
    else:
        assert location
        with _bucket_of_user(location) as store:
            uploaded = upload(data, store, location.folder)
    target = stack.target if stack else {}
    print_lines(
        f"{uri}: {summary(data)}; {uploaded.sent} uploaded, {uploaded.present} were there already",
        f"next: {Command('train', **target, data=f'train={uri}')} ...",
    )


def list_objects(uri: str) -> None:
    """Print the objects at a URI: the first ones, their number and bytes."""
    location = _location(uri)
    number = total = 0
    shown: list[StoredObject] = []
    with _bucket_of_user(location) as store:
        for item in (item for page in store.objects(location.folder) for item in page):
            if number < SHOWN:
                name = item.key.removeprefix(location.folder)
                print_lines(f"{size(item.size):>8}  {clean(name)}")
                shown.append(StoredObject(uri=f"{location.url}/{item.key}", bytes=item.size))
            number, total = number + 1, total + item.size
    if number > SHOWN:
        print_lines(f"... and {number - SHOWN} more")
    print_lines(f"{uri}: {count(number, 'object')}, {size(total)}")
    note_output(DataOutput(uri=uri, count=number, bytes=total, objects=tuple(shown)))


def list_stack(stack: Inventory) -> None:
    """Print the data in the bucket of a stack: one line for each uploaded folder."""
    stored = bucket.bucket_of(stack)
    keys = [item.key for page in stored.store.objects(DATA) for item in page]
    entries = [key for key in keys if key.endswith(".json") and key.count("/") == 1]
    found: list[StoredObject] = []
    for key in entries:
        uri = f"{stored.store.url}/{clean(key.removesuffix('.json'))}/"
        data = _entry(stored, key)
        print_lines(f"{uri}  {_described(key, data)}")
        found.append(
            StoredObject(
                uri=uri,
                bytes=data.bytes if data else None,
                files=data.files if data else None,
                source=clean(data.from_) if data else None,
            )
        )
    total = sum(one.bytes or 0 for one in found)
    url = f"{stored.store.url}/{DATA}"
    note_output(DataOutput(uri=url, count=len(found), bytes=total, objects=tuple(found)))
    if not entries:
        print_lines(
            f"no data in {url}",
            f"next: {Command('data push', 'FOLDER', 'bucket', **stack.target)}",
        )


def _entry(stack_bucket: bucket.Bucket, key: str) -> StoredData | None:
    """The data that an entry of the stack's bucket describes; None if it is damaged."""
    try:
        entry = json_object(stack_bucket.read(key, ENTRY) or b"", key)
        return decode(StoredData, entry, error=Hostile)
    except Hostile:
        return None


def _described(key: str, stored: StoredData | None) -> str:
    """The data as a line."""
    if stored is None:
        return f"damaged: {clean(key)} does not describe data"
    files, total = count(stored.files, "file"), size(stored.bytes)
    return f"{files}, {total}, from {clean(stored.from_)}"


def shard(sharding: ShardOptions, program: ProgramOptions) -> None:
    """Write shards with a runtime on this computer, which has TensorFlow.

    Raises:
        UsageError: there is no source, or a setting is wrong.
        RailheadError: the data is wrong, or the shards cannot be written.
    """
    argv = ["shard", _absolute(sharding.source), _absolute(sharding.destination)]
    argv += ["--split", sharding.split, "--shards", str(sharding.shards)]
    _with_tensorflow(sharding.source, argv, program, "no shards were written")
    train = Command("train", data=f"{sharding.split}={sharding.destination}")
    print_lines(f"next: {train} ...")


def index(indexing: IndexOptions, program: ProgramOptions) -> None:
    """Write an index of TFRecord files, with a runtime on this computer. Raises as `shard`."""
    argv = ["index", _absolute(indexing.source), "--split", indexing.split]
    argv += ["--to", _absolute(indexing.to)] if indexing.to else []
    _with_tensorflow(indexing.source, argv, program, "no index was written")
    train = Command("train", data=f"{indexing.split}={indexing.to or indexing.source}")
    print_lines(f"next: {train} ...")


def _with_tensorflow(
    source: str, argv: Sequence[str], program: ProgramOptions, failed: str
) -> None:
    """Run `python -m training.data` on some data, independent of the current folder."""
    if not scheme_of(source) and existing_path(source) is None:
        raise UsageError(f"there is no file or folder {source} here")
    python = runtime_here("the same command on a machine with Linux on x86_64")
    environment = variables_here("RAILHEAD_RUN")  # RAILHEAD_DATA_CACHE stays the user's
    environment |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    preset = ["--preset", program.preset] if program.preset else []
    settings = [("--set", f"{name}={value}") for name, value in program.settings.items()]
    more = [*preset, *(item for pair in settings for item in pair)]
    argv = [str(python), "-m", "training.data", *argv, *more]
    process = log.run(argv, cwd=REPO, env=environment, capture_output=True)
    if process.returncode:
        reason = clean((process.stderr.strip().splitlines() or ["without a message"])[-1])
        failure = UsageError if process.returncode == 2 else RailheadError
        raise failure(f"{failed}: {reason}")
    print_lines(*map(clean, process.stdout.splitlines()))


def _absolute(place: str) -> str:
    """A URI unchanged, a path made absolute."""
    return place if scheme_of(place) else str(folder_option(place, "the data"))


@contextmanager
def _bucket_of_user(location: BucketUri) -> Iterator[Store]:
    """The bucket of an address; UsageError if it does not exist."""
    try:
        yield bucket.open_store(location.url)
    except NoBucket:
        hint = "create it, or check its name and your account"
        raise UsageError(f"there is no bucket {location.url}", hint=hint) from None


def _location(uri: str) -> BucketUri:
    return bucket_uri(uri, error=lambda why: UsageError(f"URI: {why}"))
