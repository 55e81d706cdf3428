"""A run with --takeover whose chief is lost: the second host continues it from the bucket.

Full hosts, one of which is cut off, and a real S3 server. Most of the time the run waits: for the
first upload of metrics, and until the lease has expired.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from e2e.adhoc_hosts import END_OF_TICKS, introduce, our_keys, ranks_on
from e2e.faults import METRIC, steps_of
from e2e.local_hosts import Operator, json_lines_so_far, wait_until, with_rights
from hosts.full_host import FullHost
from hosts.network import Network
from standins.stores import object_stores
from standins.stores.object_stores import S3

from bootstrap.host.run.lease import EXPIRED, HOLD
from bootstrap.host.upload.live_upload import LIVE_PAUSE
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from railhead.documents.runs.takeover import NO_LEASE

pytestmark = [pytest.mark.root, pytest.mark.slow]

BUCKET = "runs-of-tests"
EVERY = 16  # steps between two checkpoints, of half a second each
SCRIPT = f"""
import os, pathlib, time
folder = pathlib.Path(os.environ["RAILHEAD_CHECKPOINT_DIR"])
file, rank = folder / "step", int(os.environ["RAILHEAD_RANK"])
step = int(file.read_text()) if file.exists() else 0
pathlib.Path(f"of-rank-{{rank}}.txt").write_text(os.environ["SECRET"])
while not os.path.exists("{END_OF_TICKS}"):
    step += 1
    time.sleep(0.5)
    if rank == 0:
        print("loss", 1 / step, flush=True)
        if step % {EVERY} == 0:
            (folder / ".step").write_text(str(step))
            (folder / ".step").replace(file)
"""


@dataclass(frozen=True)
class Lost:
    """A run on hosts with a bucket, whose objects are files in a folder; `run` is its id."""

    laptop: Operator
    store: S3
    bucket: Path
    hosts: tuple[FullHost, ...]
    process: Any
    run: str

    def folder(self, host: FullHost) -> Path:
        """Its folder on a host."""
        return host.disk.root / "root/.railhead/runs" / self.run

    def steps(self, host: FullHost) -> int:
        """How many steps the records on this host have."""
        path = self.folder(host) / "results/metrics.jsonl"
        lines = json_lines_so_far(path) if path.exists() else []
        return sum(line["kind"] == "metric" for line in lines)

    def is_stored(self, name: str) -> bool:
        """Whether the bucket has this object of the run."""
        return (self.bucket / "runs" / self.run / name).exists()

    @property
    def is_taken_over(self) -> bool:
        """Whether the second host leads the run."""
        return (self.folder(self.hosts[1]) / "takeover.json").exists()

    def wait_for_takeover(self, since: float) -> None:
        """Wait until the second host makes new steps."""
        second = self.hosts[1]
        wait_until(lambda: self.is_taken_over, EXPIRED + 120, "the run is taken over")
        seconds = time.monotonic() - since
        restored = self.steps(second)
        wait_until(lambda: self.steps(second) > restored, 120, "it continues")
        print(f"\nFIGURE takeover after {seconds:.1f} s, new step {time.monotonic() - since:.1f} s")

    def end(self) -> str:
        """Let the program end; what `fab train` has printed."""
        for host in self.hosts:
            host.write(END_OF_TICKS, "")
        out, _ = self.process.communicate(timeout=150)
        return str(out)


def record(laptop: Operator, names: str) -> None:
    """These are the last hosts of the person, and they have a bucket."""
    cluster = replace(parse_hosts(names), bucket=f"s3://{BUCKET}", region=object_stores.REGION)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(laptop.home))
        local_state.save_cluster(cluster)


def started(laptop: Operator, store: S3, folder: Path, hosts: tuple[FullHost, ...]) -> Lost:
    """Start a run, and wait until the bucket, in the store's folder, has a checkpoint and metrics
    of it."""
    laptop.write("steps.py", SCRIPT)
    words = ["train", "--script", "steps.py", "--launcher", "tensorflow", *METRIC]
    words += ["--independent", "--takeover", "--elastic", "2:3", "--secret", "SECRET"]
    process = laptop.start(*words, env={**store.environ, "SECRET": "of-the-test"})
    assert process.stdout
    printed = []
    for line in process.stdout:
        printed.append(line)
        if line.rstrip().endswith("breaks"):
            break
    else:
        raise AssertionError("".join(printed))
    lost = Lost(laptop, store, folder / "buckets" / BUCKET, hosts, process, line.split()[1])
    for name in ("checkpoints/manifest.json", "live.json"):
        wait_until(lambda name=name: lost.is_stored(name), LIVE_PAUSE + 60, f"{name} is stored")
    return lost


@pytest.fixture
def lost(
    network: Network, ready_disk: Path, shared_caches: Path, laptop: Operator, tmp_path: Path
) -> Iterator[Lost]:
    """A run on three hosts with a bucket."""
    packages = shared_caches / "railhead" / "uv"
    packages.mkdir(parents=True, exist_ok=True)
    binds = {packages: "/root/.railhead/cache/uv"}
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(object_stores.s3(shared_caches, tmp_path, network.gateway))
        store.make_bucket(BUCKET)
        hosts = []
        for name in ("h1", "h2", "h3"):
            host = FullHost(network, name, layers=[ready_disk], binds=binds)
            stack.callback(host.remove)
            host.start()
            hosts.append(host)
        homes = [host.disk.root / "root" for host in hosts]
        stack.enter_context(with_rights(homes, store))
        record(laptop, introduce(laptop, *hosts))
        lost = started(laptop, store, tmp_path, tuple(hosts))
        stack.callback(lost.process.kill)
        yield lost


@pytest.mark.timeout(900)
def test_another_host_continues_the_run_of_a_lost_chief_and_takes_the_chief_back(
    lost: Lost,
) -> None:
    """Nothing that the chief sends arrives: for the others, its power was cut."""
    h1, h2, h3 = lost.hosts
    since = time.monotonic()
    h1.partition()
    of_chief = lost.folder(h1) / "results/result.json"
    wait_until(of_chief.exists, HOLD + 60, "the chief ends the attempt")
    assert not ranks_on(h1) and not lost.is_taken_over
    lost.wait_for_takeover(since)
    status = lost.laptop.fab("status", env=lost.store.environ)
    status.ended(
        4,
        "running (heartbeat",
        "host: no sign of life of it in the bucket for",
        "(lap-h1)",
        "on lap-h2, lap-h3",
    )
    h1.heal()
    state = lost.folder(h2) / "state.json"
    wait_until(lambda: '"elastic"' in state.read_text(), 200, "the run takes the chief back")
    out = lost.end()
    assert lost.process.returncode == 0, out
    assert "lap-h2 leads the run now" in out and "succeeded" in out
    check_results(lost)
    retry, growth = lost.laptop.result()["attempts"]
    assert (retry["kind"], retry["cause"]["class"], retry["culprit"]["host"]) == (
        *("retry", "host", "lap-h1"),
    )
    assert (retry["hosts"], growth["kind"]) == (["lap-h2", "lap-h3"], "elastic")
    of_old = json.loads(of_chief.read_text())
    assert of_old["state"] == "failed" and of_old["cause"]["evidence"].startswith(NO_LEASE)
    written = {path.name: path.read_text() for path in (lost.laptop.last / "outputs").iterdir()}
    assert written == dict.fromkeys(("of-rank-0.txt", "of-rank-1.txt"), "of-the-test")
    # The end of a connection that was cut arrives when TCP tries again, after up to two minutes.
    assert [host.busy(seconds=150) for host in lost.hosts] == [[], [], []]
    lost.laptop.fab("fetch", "--to", "again", env=lost.store.environ).ended(0, "state: succeeded")
    lost.laptop.fab("teardown", env=lost.store.environ).ended(0, "keys removed")
    assert [our_keys(host) for host in lost.hosts] == [[], [], []]


def check_results(lost: Lost) -> None:
    """They are complete, here and in the bucket; each step counts once."""
    folder, result = lost.laptop.last, lost.laptop.result()
    assert (folder.name, result["state"], result["size"]) == (lost.run, "succeeded", 3)
    steps = steps_of(folder / "metrics.jsonl")
    assert steps == sorted({*steps})
    # The last values before a checkpoint may be read after it, or uploaded later than it: both
    # times that the run starts again, steps up to that of a checkpoint may be missing.
    missing = {*range(1, steps[-1])} - {*steps}
    last_ones = [step for step in missing if step + 1 not in missing]
    assert len(missing) <= EVERY and len(last_ones) <= 2
    assert all(step % EVERY == 0 for step in last_ones), sorted(missing)
    wait_until(lambda: lost.is_stored("manifest.json"), 60, "the results are in the bucket")
    manifest = lost.store.get(BUCKET, f"runs/{lost.run}/manifest.json")
    paths = {entry["path"] for entry in json.loads(manifest)["files"]}
    assert {"results/metrics.jsonl", "results/result.json", "logs/rank-0.log"} <= paths
    log = (folder / "logs/rank-0.log").read_text()
    assert "loss 1.0\n" in log and "started again from its checkpoint files" in log
