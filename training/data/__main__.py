"""`python -m training.data shard SOURCE DEST --shards N`, `verify FOLDER`, `show FOLDER`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from training import configs
from training.config import ConfigError, parse_assignments, resolve
from training.data import DATASETS, DataError, manifest


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
    changes = {"data": options.data} if options.data else {}
    changes = {**configs.changes(options.preset or configs.DEFAULT), **changes}
    config = resolve({**changes, **parse_assignments(options.set)})
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from importlib import import_module

    from training.data import shard_writer, splits
    from training.tasks import task_of

    found = splits.read(import_module(DATASETS[config.data]), options.source, config)
    if options.split not in found:
        raise DataError(f"{options.source} has no {options.split}: it has {', '.join(found)}")
    samples = found[options.split]
    samples.check(task_of(config.task))
    written = shard_writer.write(samples, options.destination, options.shards, seed=config.seed)
    print(summary(options.destination, written))


def verify(options: argparse.Namespace) -> None:
    """Read every byte of a folder of shards."""
    print(f"{summary(options.folder, manifest.verify(options.folder))}: whole")


def show(options: argparse.Namespace) -> None:
    """Print the manifest's schema and sizes."""
    found = manifest.load(options.folder)
    print(summary(options.folder, found))
    document = found.document()
    for name, value in document["schema"].items():
        print(f"  {name}: {json.dumps(value)}")
    for item in found.shards:
        print(f"  {item.name}  {item.records} records  {item.bytes} bytes  {item.sha256}")


def summary(folder: Path, found: manifest.Manifest) -> str:
    """One line."""
    size = sum(item.bytes for item in found.shards)
    return f"{folder}: {found.records} records in {len(found.shards)} shards, {size} bytes"


def parser() -> argparse.ArgumentParser:
    """Three commands."""
    options = argparse.ArgumentParser(prog="python -m training.data", allow_abbrev=False)
    commands = options.add_subparsers(required=True)
    one = commands.add_parser("shard", help="write shards of a folder of data")
    one.add_argument("source", type=Path)
    one.add_argument("destination", type=Path)
    one.add_argument("--shards", type=int, default=16, help="a multiple of 8 reads fastest")
    one.add_argument("--data", help=f"format of the source: {', '.join(DATASETS)}")
    one.add_argument("--preset", help="take format and settings from a preset")
    one.add_argument("--split", default="train", help="train, validation or test")
    one.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    one.set_defaults(run=shard)
    for name, run in (("verify", verify), ("show", show)):
        other = commands.add_parser(name, help=(run.__doc__ or "").lower())
        other.add_argument("folder", type=Path)
        other.set_defaults(run=run)
    return options


if __name__ == "__main__":
    sys.exit(main())
