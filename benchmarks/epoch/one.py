"""One measurement in a process of its own, started by `__main__.py`. JSON on the last line.

Each imports what it needs: the process is measured.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

OLD = "old.json"
DIGEST = "ab" * 32


def plan(records: str, shards: str) -> dict[str, float]:
    """The lane in the middle of an epoch, and where it continues: the CPU seconds of each."""
    import numpy as np

    from training.data.assignment import lane_begin, lane_length
    from training.data.shards.lanes import Keyed, Lane, Spans

    loaded = time.process_time()
    total, count = int(records), int(shards)
    spans = Spans.of_shards(np.full(count, total // count))
    begin, length = lane_begin(total, 8, 3), lane_length(total, 8, 3)

    def first(start: int) -> int:
        cut = spans.take(begin, length)
        return next(Lane(cut, Keyed(7, 1, 3), tracks=4, window=10_000, start=start).numbers())

    assert begin <= first(0) < begin + length
    before = time.process_time()
    assert begin <= first(length // 2 + 77) < begin + length
    return {"alone": before - loaded, "resume": time.process_time() - before}


def write(folder: str, shards: str) -> dict[str, float]:
    """The same manifest as columns and as version 1."""
    from training.data.shards import manifest
    from training.data.shards.columns import Shard
    from training.data.store import Folder

    made = [Shard(f"p-{k:07d}", 1000 + k % 7, 10**8 + k, DIGEST) for k in range(int(shards))]
    written = manifest.Manifest(manifest.Schema("float32", (1,), "int64"), made)
    manifest.write(Folder(Path(folder)), written)
    with Path(folder, OLD).open("w") as out:
        json.dump({"shards": [asdict(shard) for shard in made]}, out)
    return {}


def columns(folder: str) -> dict[str, float]:
    """Read it, up to the sums that a plan and a check of sizes need."""
    from training.data.shards import manifest
    from training.data.store import Folder

    loaded = manifest.load(Folder(Path(folder)))
    return {"records": loaded.records, "bytes": sum(loaded.sizes)}


def old(folder: str) -> dict[str, float]:
    """The same from JSON alone, without a check of what is in it."""
    shards = json.loads(Path(folder, OLD).read_bytes())["shards"]
    return {"records": sum(x["records"] for x in shards), "bytes": sum(x["bytes"] for x in shards)}


if __name__ == "__main__":
    kinds: dict[str, Any] = {"plan": plan, "write": write, "manifest": columns, "json": old}
    figures = kinds[sys.argv[1]](*sys.argv[2:])
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(
        json.dumps(
            {**figures, "cpu": usage.ru_utime + usage.ru_stime, "mb": usage.ru_maxrss / 1024}
        )
    )
