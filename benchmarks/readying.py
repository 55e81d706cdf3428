"""How much longer it takes to make several hosts ready than one, when Horovod has to be built.

    python -m benchmarks.readying [--hosts 4,8,16]

Local hosts on this machine, fresh ones for each run; downloads come from the person's own cache,
the Horovod wheel does not. One host, then each number of hosts in one go. Exit 1 where up to 8 take
over 1.3 x one host's time; of more, which all share this machine's cores, the ratio is printed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bootstrap.clouds.local import cluster
from bootstrap.inventory import caches, local_state

REPO = Path(__file__).resolve().parents[1]
FAB = Path(sys.executable).with_name("fab")
LIMIT, AT = 1.3, 8


def seconds(count: int, caches: Path) -> float:
    """The time of `fab bootstrap` for so many fresh hosts, in a separate home."""
    with tempfile.TemporaryDirectory(prefix="readying-") as name:
        for kind in ("uv", "uv-for-hosts"):
            (Path(name) / "caches/railhead").mkdir(parents=True, exist_ok=True)
            (Path(name) / "caches/railhead" / kind).symlink_to(caches / kind)
        os.environ |= {"HOME": name, "XDG_CACHE_HOME": f"{name}/caches"}
        cluster.start("fresh", count)
        local_state.save_cluster(local_state.load_cluster("fresh"))
        try:
            begin = time.monotonic()
            subprocess.run([str(FAB), "-r", str(REPO), "bootstrap"], cwd=name, check=True)
            return time.monotonic() - begin
        finally:
            cluster.stop("fresh")


def main() -> int:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", default="4,8,16")
    counts = [int(word) for word in parser.parse_args().hosts.split(",")]
    folder = caches.cache("uv").parent
    load = os.getloadavg()[0]
    took = {count: seconds(count, folder) for count in (1, *counts)}
    print(f"load {load:.1f} at the start; 1 host {took[1]:.0f} s")
    for count in counts:
        limit = f", limit {LIMIT}" if count <= AT else ""
        print(f"{count} hosts {took[count]:.0f} s: ratio {took[count] / took[1]:.2f}{limit}")
    return int(any(took[count] > LIMIT * took[1] for count in counts if count <= AT))


if __name__ == "__main__":
    sys.exit(main())
