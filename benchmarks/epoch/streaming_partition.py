"""MosaicML Streaming's partition of so many samples, by its own python. JSON on the last line.

Its module alone, by its path: the package imports torch, which this function does not use.
"""

from __future__ import annotations

import importlib.util
import json
import resource
import sys
import time
from pathlib import Path

FILE = "streaming/base/partition/orig.py"

if __name__ == "__main__":
    path = next(Path(folder, FILE) for folder in sys.path if Path(folder, FILE).exists())
    spec = importlib.util.spec_from_file_location("orig", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded = time.process_time()
    ids = module.get_partitions_orig(int(sys.argv[1]), 8, 8, 1, 4, batch_size=64, drop_first=0)
    assert ids.size >= int(sys.argv[1])
    alone = time.process_time() - loaded
    usage = resource.getrusage(resource.RUSAGE_SELF)
    cpu = usage.ru_utime + usage.ru_stime
    print(json.dumps({"alone": alone, "cpu": cpu, "mb": usage.ru_maxrss / 1024}))
