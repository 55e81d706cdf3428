"""Results first, then stop: with real local hosts that came from a stack.

What tells them from other local hosts is the name of a stack beside their record; `bootstrap`
writes it when hosts come from `pulumi stack output`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.local_hosts import Operator, homes_of_hosts, is_followed, marked, wait_until, with_rights
from e2e.scripts import JOIN
from places import ROOT
from standins.stores.object_stores import S3

from bootstrap.clouds.local import processes
from bootstrap.host.run import controller
from bootstrap.host.run.stop_policy import COMES_BACK

WORKS = f"""{JOIN}
pathlib.Path(f"model-{{rank}}.txt").write_text("weights")
print("rank", rank, "works", flush=True)
"""


def start_hosts(operator: Operator) -> None:
    """Start the ready hosts that do not run."""
    argv = [sys.executable, "-m", "bootstrap.clouds.local", "start", "ready", "h1", "h2"]
    environment = operator.environment()
    subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, check=True)


def running(operator: Operator) -> list[str]:
    """The names of the hosts whose sshd runs."""
    hosts = (operator.home / ".railhead/clusters/ready/hosts").iterdir()
    return sorted(host.name for host in hosts if processes.sshd(host) is not None)


def stopped(operator: Operator, seconds: float = 30) -> float:
    """Wait until none runs; the seconds that it took."""
    took: float = wait_until(lambda: running(operator) == [], seconds, "the hosts are stopped")
    return took


def machines(operator: Operator, run_id: str) -> Any:
    """What state.json on the chief says of the machines."""
    state = json.loads((operator.run_folder(run_id) / "state.json").read_text())
    return state.get("machines", {})


def is_kept(operator: Operator) -> bool:
    """Whether the keeper of the last run keeps its machines, and knows that they were fetched."""
    now = machines(operator, operator.last.name)
    return (now.get("phase"), now.get("results")) == ("keeping", "fetched")


@pytest.fixture
def owner(operator: Operator) -> Iterator[Operator]:
    """Somebody whose ready hosts came from a stack; they run again afterwards."""
    folder = operator.home / ".railhead/clusters/ready"
    (folder / "stack").write_text("dev\n")
    yield operator
    (folder / "stack").unlink()
    start_hosts(operator)


def supervisors(operator: Operator) -> list[str]:
    """Command lines of what supervises a run, and stops machines after it."""
    names = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            names.append(os.fsdecode(path.read_bytes()))
    programs = ("supervisor.supervisor", "supervisor.stop_machines")
    ours = [name for name in names if str(operator.home) in name]
    return [name for name in ours if set(programs) & set(name.split("\0"))]


def last_run(operator: Operator) -> str:
    """The id of the last run that was recorded."""
    records = sorted((operator.home / ".railhead/clusters/ready/runs").glob("*.json"))
    return str(records[-1].stem)


def test_a_success_stops_them_at_once_and_the_results_are_here(owner: Operator) -> None:
    owner.write("train.py", WORKS)
    done = owner.fab("train", "--script", "train.py").ended(0, "succeeded", "[h1] stopped (/proc")
    assert running(owner) == []
    assert "[h2] stopped" in done.out
    assert (owner.last / "outputs/model-0.txt").read_text() == "weights"
    output = machines(owner, owner.last.name)
    assert output["results"] == "fetched" and output["stopped"]["h2"] == "ok"


def test_a_failure_is_reported_and_keeps_them_and_with_keep_0_they_stop(owner: Operator) -> None:
    script = "if rank == 1:\n    print('about to fail')\n    os._exit(3)\ntime.sleep(600)\n"
    owner.write("bad.py", WORKS + script)
    done = owner.fab("train", "--script", "bad.py")
    done.ended(1, "rank 1 on h2 exited with 3", "| about to fail", "(20 min), then", "kept until")
    assert owner.result()["culprit"]["exit"] == 3
    assert running(owner) == ["h1", "h2"]
    wait_until(lambda: is_kept(owner), 30, "they are kept")
    owner.fab("status").ended(0, "machines: keeping, kept until", "results fetched")
    owner.fab("train", "--script", "bad.py", "--keep", "0").ended(1, "the machines stop now")
    stopped(owner)


def test_a_killed_controller_leaves_no_machine_running(owner: Operator) -> None:
    go = owner.folder / "go"
    wait = f"while not os.path.exists({str(go)!r}):\n    time.sleep(0.1)\n"
    owner.write("short/train.py", WORKS + wait)
    process = owner.start("train", "--script", "short/train.py")
    wait_until(lambda: len(marked(owner.home)) > 3, 60, "the ranks run")
    wait_until(lambda: is_followed(owner.home), 60, "it is followed")
    process.kill()
    process.communicate()
    attached = owner.run_folder(last_run(owner)) / "attached"
    wait_until(lambda: not controller.is_connected(str(attached)), 60, "nobody is connected")
    long_ago = time.time() - COMES_BACK
    os.utime(attached, (long_ago, long_ago))  # nobody came back
    go.touch()
    stopped(owner, 150)
    assert machines(owner, last_run(owner))["results"] == "only on h1"
    owner.fab("status").ended(0, "results only on h1, which does not run")
    owner.fab("teardown").ended(0, "h1       ok  stopped", "only on h1, on its disk")


def test_a_teardown_stops_them_with_a_receipt(owner: Operator) -> None:
    done = owner.fab("teardown").ended(0, "Receipt for ready")
    assert running(owner) == []
    assert re.search(r"h2 +ok  stopped \(/proc, 20", done.out), done.out
    again = owner.fab("teardown").ended(0).out
    assert re.search(r"h1 +ok  stopped", again), again


def test_a_run_that_was_left_stops_its_machines(owner: Operator) -> None:
    owner.write("short.py", WORKS)
    owner.fab("train", "--script", "short.py", "--detach").ended(0, "fab attach")
    stopped(owner, 150)  # not the 20 minutes of a failure


def test_no_stop_leaves_them_running(owner: Operator) -> None:
    owner.write("train.py", WORKS)
    done = owner.fab("train", "--script", "train.py", "--no-stop").ended(0, "succeeded")
    assert "the machines keep running (--no-stop)" in done.out
    wait_until(lambda: not supervisors(owner), 30, "its supervisor has ended")
    assert running(owner) == ["h1", "h2"]


@pytest.fixture
def bucket(operator: Operator, s3_store: S3) -> Iterator[str]:
    """A bucket that the operator and the local hosts may write."""
    s3_store.make_bucket("results-first")
    with with_rights([operator.home, *homes_of_hosts(operator.home)], s3_store):
        yield "s3://results-first"


def test_nobody_is_there_and_the_results_are_in_the_bucket(
    owner: Operator, bucket: str, s3_store: S3
) -> None:
    record = owner.home / ".railhead/clusters/ready/cluster.json"
    document = json.loads(record.read_text())
    record.write_text(json.dumps({**document, "bucket": bucket}))
    owner.write("train.py", WORKS)
    started = owner.fab("train", "--script", "train.py", "--detach", env={"NO_PROXY": "127.0.0.1"})
    started.ended(0, f"bucket: install what writes to {bucket}")
    stopped(owner, 150)
    run_id = last_run(owner)
    assert machines(owner, run_id)["results"] == f"in {bucket}/runs/{run_id}"
    assert not (owner.folder / "results" / run_id / "result.json").exists()
    owner.fab("status").ended(0, f"in {bucket}/runs/{run_id}: fab fetch")
    owner.fab("fetch").ended(0, "state: succeeded", "outputs/model-0.txt")
    assert (owner.last / "outputs/model-0.txt").read_text() == "weights"
    there = s3_store.get("results-first", f"runs/{run_id}/state.json")
    assert json.loads(there)["machines"]["stopped"]["h2"] == "ok"
    record.write_text(json.dumps(document))


def test_max_hours_end_a_run_and_hosts_without_a_stack_are_not_stopped(operator: Operator) -> None:
    operator.write("slow.py", WORKS + "time.sleep(600)\n")
    done = operator.fab("train", "--script", "slow.py", "--max-hours", "0.01")
    done.ended(1, "0.01 hours (--max-hours) were over")
    result = operator.result()
    assert result["state"] == "cancelled" and 36 <= result["seconds"] < 300
    wait_until(lambda: not supervisors(operator), 30, "its supervisor has ended")
    assert marked(operator.home) == []
    assert running(operator) == ["h1", "h2"]
    assert machines(operator, operator.last.name) == {}


def test_no_path_leads_to_a_power_off() -> None:
    """What is sent to hosts contains no stop command: it runs only those of run.json."""
    source = "".join(p.read_text() for p in (ROOT / "bootstrap/host").rglob("*.py"))
    for part in ("class MachineStopper", "class Supervisor", "def forward_output"):
        assert part in source, "the files that were to be read"
    # Of Horovod, of a connection, and to read the kernel's log.
    for other in ("hvd.shutdown()", ".shutdown(socket.", '("sudo", "-n", "dmesg")'):
        source = source.replace(other, "")
    for word in ("poweroff", "shutdown", "halt", "systemctl", "reboot", "sudo"):
        assert word not in source, word
