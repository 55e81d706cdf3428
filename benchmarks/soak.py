"""`fab train` of the smoke preset over two local hosts, many times in a row: does anything grow?

    python -m benchmarks.soak [--runs 100]

The hosts live in a temporary HOME; runtime and wheel come from the person's own caches. What
is there after the first run is compared with what is there after the last: processes with our
marks and their open files, what lies in the homes beside the runs themselves, and every place
for temporary files. Exit 1 if a run failed or anything grew.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.clouds.local import processes
from bootstrap.inventory import caches

REPO = Path(__file__).resolve().parents[1]
FAB = Path(sys.executable).with_name("fab")
MARKS = (b"RAILHEAD_RUN=", b"RAILHEAD_HOME=", processes.MARK.encode() + b"=")
# In places that everybody shares: what Open MPI, TensorFlow or we may leave there.
OURS = re.compile(r"ompi|openmpi|pmix|prte|orte|vader|railhead|horovod|tensorflow|keras|tf_")
SHARED = ("/tmp", "/var/tmp", "/dev/shm")


@dataclass(frozen=True)
class Operator:
    """Whose commands these are: a temporary home with the cluster, and a folder for results."""

    home: Path
    cluster: str = "soak"

    @property
    def folder(self) -> Path:
        """Where the commands are typed."""
        return self.home / "work"

    def train(self) -> tuple[float, str]:
        """One run; its seconds, and what went wrong, empty when nothing did."""
        before = self.results()
        begin = time.monotonic()
        done = subprocess.run(
            [str(FAB), "-r", str(REPO), "train", "--preset", "smoke"],
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        seconds = time.monotonic() - begin
        if done.returncode:
            return seconds, f"exit {done.returncode}\n{done.stdout}"
        states = [json.loads(r.read_text())["state"] for r in self.results() - before]
        return seconds, "" if states == ["succeeded"] else f"results say {states}"

    def results(self) -> set[Path]:
        """The result.json of every run so far."""
        return set(self.folder.glob("results/*/result.json"))


def counts(operator: Operator) -> dict[str, int]:
    """All that must not grow from run to run."""
    hosts = local_cluster.existing(operator.cluster)
    pids = {pid for pid in marked(operator.home)} | {
        p for h in hosts for p in processes.of(h.folder)
    }
    shared = [x for place in SHARED for x in listed(Path(place)) if OURS.search(x.name)]
    return {
        "processes of ours": len(pids),
        "their open files": sum(map(open_files, pids)),
        "entries in the hosts' homes, without runs": sum(entries(h.home) for h in hosts),
        "entries in the hosts' TMPDIR": sum(len(listed(h.folder / "tmp")) for h in hosts),
        "entries in ~/.railhead here, without runs": entries(operator.home / ".railhead", "hosts"),
        "entries in TMPDIR here": len(listed(operator.home / "tmp")),
        f"names like ours in {', '.join(SHARED)}": len(shared),
    }


def marked(home: Path) -> Iterator[int]:
    """Processes that carry a mark of ours and belong to this home, wherever they run."""
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            text = (process / "environ").read_bytes() if process.name.isdigit() else b""
            if str(home).encode() in text and any(mark in text for mark in MARKS):
                yield int(process.name)


def open_files(pid: int) -> int:
    """How many files a process has open; 0 when it is gone."""
    return len(listed(Path(f"/proc/{pid}/fd")))


def listed(folder: Path) -> list[Path]:
    """A folder's entries; none where it is not there."""
    with contextlib.suppress(OSError):
        return list(folder.iterdir())
    return []


def entries(folder: Path, *without: str) -> int:
    """Files and folders below, those of runs left out: they are kept until they are fetched."""
    total = 0
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in ("runs", *without)]
        total += len(folders) + len(files)
    return total


def kept(operator: Operator) -> int:
    """Bytes on the disk that the runs of the cluster hold on all hosts."""
    folders = [h.home / ".railhead" / "runs" for h in local_cluster.existing(operator.cluster)]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return sum(path.stat().st_blocks * 512 for path in files)


def settled(operator: Operator, seconds: float = 5) -> dict[str, int]:
    """The counts, once what is about to end has ended."""
    end, before = time.monotonic() + seconds, counts(operator)
    while time.monotonic() < end:
        time.sleep(0.5)
        now = counts(operator)
        if now == before:
            break
        before = now
    return before


def soak(operator: Operator, runs: int) -> tuple[list[str], dict[str, int], dict[str, int]]:
    """What failed, and the counts after the first run and after the last."""
    wrong, taken, first = [], [], {}
    for number in range(1, runs + 1):
        seconds, why = operator.train()
        taken.append(seconds)
        wrong += [f"run {number}: {why}"] if why else []
        print(f"run {number} of {runs}: {seconds:.1f} s {'FAILED' if why else 'ok'}", flush=True)
        if number == 1:
            first = settled(operator)
    later = taken[1:] or taken
    print(f"seconds, the first left out: {min(later):.1f} {median(later):.1f} {max(later):.1f}")
    print("(min median max)")
    print(f"kept on the hosts for fetching: {kept(operator) / runs / 1e6:.2f} MB per run")
    return wrong, first, settled(operator)


def show(first: Mapping[str, int], last: Mapping[str, int]) -> list[str]:
    """Print the table; the names of what grew."""
    width = max(map(len, first))
    print(f"{'':{width}}  first  last")
    for name, count in first.items():
        grew = "  GREW" if last[name] > count else ""
        print(f"{name:{width}}  {count:5}  {last[name]:4}{grew}")
    return [name for name, count in first.items() if last[name] > count]


def main() -> int:
    """See the top."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the hosts are stopped then, too
    parser = argparse.ArgumentParser(prog="benchmarks.soak")
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    os.environ["XDG_CACHE_HOME"] = str(caches.cache("uv").parents[1])
    with tempfile.TemporaryDirectory(prefix="railhead-soak-") as name:
        operator = Operator(Path(name))
        for folder in (operator.folder, operator.home / "tmp"):
            folder.mkdir()
        os.environ.update(HOME=name, TMPDIR=str(operator.home / "tmp"), TERM="dumb")
        local_cluster.start(operator.cluster, 2)
        try:
            wrong, first, last = soak(operator, runs)
            grew = show(first, last)
        finally:
            local_cluster.stop(operator.cluster)
    print(*wrong, f"{runs - len(wrong)} of {runs} succeeded", sep="\n")
    return int(bool(wrong or grew))


if __name__ == "__main__":
    sys.exit(main())
