"""`python -m training.data`: shard, index, verify, show, download and stream data."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .. import presets
from ..config import ConfigError, parse_assignments, resolve
from ..registry import DATASETS
from ..results import Records
from . import DataError, cache
from .part import Part
from .shards import manifest
from .store import open_store
from .uri import parse_source

PART_HELP = "of the sorted files, those with number % N == I; the first number is 0"


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code is 0 done, 1 failed, 2 a wrong name or value."""
    options = parser().parse_args(argv)
    try:
        options.run(options)
    except (ConfigError, DataError) as error:
        print(error, file=sys.stderr)
        return 2 if isinstance(error, ConfigError) else 1
    return 0


def shard(options: argparse.Namespace) -> None:
    """Read a folder in any format and write shards; needs TensorFlow."""
    if options.shards < 1:
        raise ConfigError(f"shards must be at least 1, not {options.shards}")
    config = config_of(options, {"data": options.data} if options.data else {})
    need_tensorflow(f"fab data shard {options.source.uri} {options.destination} --set data=...")
    from importlib import import_module

    from ..tasks import task_of
    from . import splits
    from .shards import shard_writer

    module = import_module(DATASETS[config.data])
    samples_of = splits.read(module, options.source, config, report)
    if options.split not in samples_of:
        raise DataError(
            f"{options.source.uri} has no {options.split}: it has {', '.join(samples_of)}"
        )
    samples = samples_of[options.split]
    samples.check(task_of(config.task))
    written = shard_writer.write(samples, options.destination, options.shards, seed=config.seed)
    print(summary(options.destination, written))


def index(options: argparse.Namespace) -> None:
    """Write an index of TFRecord files of others, so that they are read as shards."""
    config = config_of(options, {"data": "tfrecord"})
    need_tensorflow(f"fab data index {options.source.uri}")
    from .shards import index as indexed

    place = options.to or options.source.uri
    written = indexed.index(options.source.uri, options.to, options.split, config, report)
    print(summary(place, written))


def config_of(options: argparse.Namespace, changes: Mapping[str, Any]) -> Any:
    """The settings of a command; ConfigError if one is wrong."""
    changes = {**presets.changes(options.preset or presets.DEFAULT), **changes}
    return resolve({**changes, **parse_assignments(options.set)})


def need_tensorflow(command: str) -> None:
    """ConfigError without TensorFlow; `command` is the one that has it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if find_spec("tensorflow") is None:
        raise ConfigError(
            f"{command.split()[2]} needs TensorFlow, which this Python does not have\n"
            f"  next: {command}"
        )


def verify(options: argparse.Namespace) -> None:
    """Read every byte of shards, and check them against their manifest."""
    print(f"{summary(options.uri, manifest.verify(open_store(options.uri)))}: whole")


def show(options: argparse.Namespace) -> None:
    """Print the manifest's schema and sizes."""
    shards = manifest.load(open_store(options.uri))
    print(summary(options.uri, shards))
    for name, value in asdict(shards.schema).items():
        print(f"  {name}: {json.dumps(value)}")
    for item in shards.shards:
        print(f"  {item.name}  {item.records} records  {item.bytes} bytes  {item.sha256}")


def download(options: argparse.Namespace) -> None:
    """Download a part of the files of a URI; the last line printed is their folder."""
    store = open_store(options.uri)
    listed = store.items()
    manifest.beside(store, listed)  # refuses an index, whose files are elsewhere
    items = Part.parse(options.part).of(listed)
    if options.folder:
        cache.download(store, cache.remote_files(store, items), options.folder, report)
        print(options.folder)
    else:
        print(cache.download_all(store, items, report))


def stream(options: argparse.Namespace) -> None:
    """Write the records of a part of the files as small files, as fast as they are removed."""
    from .feeder import Feeder

    part = Part.parse(options.part)
    feeder = Feeder(open_store(options.uri), options.folder, part, shuffle=options.shuffle)
    feeder.run(options.epochs)


def report(text: str) -> None:
    """Progress: a record if a run collects it, otherwise a line."""
    in_run = "RAILHEAD_RUN_FILE" in os.environ
    Records(local_rank=0, file=None).emit("message", text=text) if in_run else print(text)


def summary(uri: str, shards: manifest.Manifest) -> str:
    """One line."""
    size = sum(shards.sizes)
    return f"{uri}: {shards.records} records in {len(shards.shards)} shards, {size} bytes"


def parser() -> argparse.ArgumentParser:
    """Six commands. A URI is a local path, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX."""
    options = argparse.ArgumentParser(prog="python -m training.data", allow_abbrev=False)
    commands = options.add_subparsers(required=True)
    shards = commands.add_parser("shard", help="write shards of some data")
    shards.add_argument("source", type=parse_source)
    shards.add_argument("destination", help="a new folder, or a new prefix of a bucket")
    shards.add_argument("--shards", type=int, default=16, help="a multiple of 8 reads fastest")
    shards.add_argument("--data", help=f"format of the source: {', '.join(DATASETS)}")
    shards.set_defaults(run=shard)
    two = commands.add_parser("index", help="write an index of TFRecord files, without a copy")
    two.add_argument("source", type=parse_source)
    two.add_argument("--to", help="another folder or prefix for the index")
    two.set_defaults(run=index)
    for each in (shards, two):
        each.add_argument("--preset", help="take format and settings from a preset")
        each.add_argument("--split", default="train", help="train, validation or test")
        each.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    for name, run in (("verify", verify), ("show", show)):
        other = commands.add_parser(name, help=(run.__doc__ or "").lower())
        other.add_argument("uri")
        other.set_defaults(run=run)
    add_transfers(commands)
    return options


def add_transfers(commands: Any) -> None:
    """The commands that bring data to a host."""
    downloads = commands.add_parser(
        "download", help="download files into a folder; continues an interrupted download"
    )
    downloads.add_argument("uri")
    downloads.add_argument("folder", type=Path, nargs="?", help="without it: a folder of the cache")
    downloads.set_defaults(run=download)
    other = commands.add_parser("stream", help="write records as files that a reader removes")
    other.add_argument("uri")
    other.add_argument("folder", type=Path)
    other.add_argument("--epochs", type=int, default=0, help="0: as many as are read")
    other.add_argument("--shuffle", type=int, metavar="SEED", help="order the files anew per epoch")
    other.set_defaults(run=stream)
    for each in (downloads, other):
        each.add_argument("--part", default="0/1", metavar="I/N", help=PART_HELP)


if __name__ == "__main__":
    sys.exit(main())
