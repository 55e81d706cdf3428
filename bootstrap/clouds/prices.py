"""Current prices from the clouds, kept for a day; the tables are used if a cloud has none.

    python -m bootstrap.clouds.prices aws us-east-1 g4dn.xlarge

prints them as JSON for `stacks`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.money.table import Rates, Row, shipped

from ..errors import RailheadError
from ..host.buckets.repeats import outlasting
from ..inventory.caches import cache
from ..inventory.clouds import CLOUDS
from ..inventory.files import atomic_write
from . import base

KEPT = 24 * 3600.0  # seconds
PATIENCE = 10.0  # seconds of an outage: the tables are there

Read = Callable[[str, Collection[str]], list[Row]]


@dataclass(frozen=True)
class Kept:
    """The answer of a cloud: about which machine types, when (seconds since 1970), and the rows."""

    types: tuple[str, ...]
    read: float
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Found:
    """The prices of a region. `why`: the reason if the cloud's own are missing, otherwise empty."""

    rates: Rates
    why: str = ""


def find(cloud: str, region: str, types: Collection[str], now: float | None = None) -> Found:
    """The prices of machine types in a region: the cloud's own, otherwise those of the table."""
    table = shipped(cloud)
    try:
        rows = ask(cloud, region, types, time.time() if now is None else now)
    except RailheadError as error:
        return Found(table, error.message)
    return Found(Rates(rows, table))


def ask(cloud: str, region: str, types: Collection[str], now: float) -> tuple[Row, ...]:
    """The cloud's own prices, kept or read. RailheadError: the cloud does not answer, or refuses;
    or it has no prices."""
    kept = _read(cloud, region)
    if kept and {*types} <= {*kept.types} and 0 <= now - kept.read < KEPT:
        return kept.rows
    name = CLOUDS[cloud].prices
    if name is None:
        raise RailheadError(f"the hosts of {cloud} have no prices", hint=base.SET_PRICE)
    read: Read = base.load(name)
    requested = tuple(sorted({*types, *(kept.types if kept else ())}))
    with outlasting(PATIENCE):
        rows = tuple(read(region, requested))
    with suppress(OSError):  # a full or read-only disk: the next command asks again
        atomic_write(_path(cloud, region), json.dumps(encode(Kept(requested, now, rows))))
    return rows


def _path(cloud: str, region: str) -> Path:
    return cache("prices") / f"{cloud}-{region}.json"


def _read(cloud: str, region: str) -> Kept | None:
    try:
        return decode(Kept, json.loads(_path(cloud, region).read_text()))
    except (OSError, ValueError):
        return None


def main() -> int:
    """Print the rows; if the cloud gives none, print why and return 1."""
    cloud, region, *types = sys.argv[1:]
    try:
        rows = ask(cloud, region, types, time.time())
    except RailheadError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps(encode(rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
