"""How much longer it takes to make several hosts ready than one, when Horovod has to be built.

    python -m benchmarks.readying [--hosts 8]

Local hosts on this machine, fresh ones for each run; downloads come from the person's own cache,
the Horovod wheel does not. One host, then several in one go. Exit 1 over 1.3 x one host's time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bootstrap import local, record

REPO = Path(__file__).resolve().parents[1]
FAB = Path(sys.executable).with_name("fab")
LIMIT = 1.3


def seconds(count: int, caches: Path) -> float:
    """The time of `fab bootstrap` for so many fresh hosts, in a home of its own."""
    with tempfile.TemporaryDirectory(prefix="readying-") as name:
        for kind in ("uv", "uv-for-hosts"):
            (Path(name) / "caches/railhead").mkdir(parents=True, exist_ok=True)
            (Path(name) / "caches/railhead" / kind).symlink_to(caches / kind)
        os.environ |= {"HOME": name, "XDG_CACHE_HOME": f"{name}/caches"}
        local.start("fresh", count)
        record.save_cluster(record.load_cluster("fresh"))
        try:
            begin = time.monotonic()
            subprocess.run([str(FAB), "-r", str(REPO), "bootstrap"], cwd=name, check=True)
            return time.monotonic() - begin
        finally:
            local.stop("fresh")


def main() -> int:
    """Measure and print the ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=8)
    several = parser.parse_args().hosts
    caches = record.cache("uv").parent
    one, many = seconds(1, caches), seconds(several, caches)
    print(f"load {os.getloadavg()[0]:.1f}; 1 host {one:.0f} s; {several} hosts {many:.0f} s")
    print(f"ratio {many / one:.2f}, limit {LIMIT}")
    return int(many > LIMIT * one)


if __name__ == "__main__":
    sys.exit(main())
