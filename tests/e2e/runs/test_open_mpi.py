"""Runs under Open MPI 5, which loses hosts without a word and leaves ranks: with the real packages.

The supervisor and the ranks run on two full hosts, as `fab train` starts them, on the system's
Python. Open MPI 4.1 is that of all other tests.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draws import drawn
from hosts import open_mpi
from hosts.full_host import FullHost
from hosts.network import Network
from standins.runs.run_documents import RUN
from standins.waiting import wait_until

from bootstrap.host.base.programs import NAME, SUPERVISOR
from bootstrap.inventory.host_programs import archive
from bootstrap.plan import hostfile
from bootstrap.plan.hostfile import Peer
from bootstrap.runs import launch, start
from railhead.documents.codec import encode
from railhead.documents.runs.run import RunDocument, RunHost, Script

pytestmark = [pytest.mark.root, pytest.mark.slow]

SCRIPT = """
import ctypes, os, sys, time
rank, what = int(os.environ["RAILHEAD_RANK"]), sys.argv[1]
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL) if "mpi" in what else None
if mpi:
    mpi.MPI_Init(None, None)
for n in range(400):
    print(rank, n, chr(97 + rank) * (n * n % 3001))
if what == "mpi-sum":
    mine, total = ctypes.c_int(rank + 3), ctypes.c_int(0)
    names = ("ompi_mpi_int", "ompi_mpi_op_sum", "ompi_mpi_comm_world")
    kind, add, world = (ctypes.byref(ctypes.c_char.in_dll(mpi, name)) for name in names)
    mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(total), 1, kind, add, world)
    print("sum", total.value, flush=True)
    mpi.MPI_Finalize()
elif what == "fails" and rank:
    sys.exit(3)
else:
    print("waits", flush=True)
    time.sleep(600)
"""


class Cluster:
    """Two hosts with one version of Open MPI, and runs on them; the chief is `a`."""

    def __init__(self, version: str, network: Network) -> None:
        self.version = version
        self.a, self.b = self.hosts = open_mpi.start_with(version, network, "a", "b")

    def start(self, what: str) -> str:
        """Place a run and start its supervisor; returns its folder on each host."""
        home, run_id = "/root", what
        for process in [*self.a.busy(), *self.b.busy()]:  # of a test that failed
            os.kill(process.pid, signal.SIGKILL)
        folder = f"{home}/.railhead/runs/{run_id}"
        peers = [Peer(h.name, h.address, 22, "root", 1, h.host_key) for h in self.hosts]
        document = replace(
            RUN,
            run_id=run_id,
            launcher="tensorflow",
            program=Script("script", "train.py", (what,)),
            hosts=tuple(RunHost(p.name, p.address, None, 1) for p in peers),
            size=2,
        )
        for host in self.hosts:
            self._place(host, document, folder)
        config = hostfile.ssh_config(peers, key=f"{folder}/key", pins=f"{folder}/known_hosts")
        command = launch.mpirun_argv(
            run_id,
            size=2,
            run_folder=folder,
            networks=".".join([*self.a.address.split(".")[:3], "0/24"]),
            series="5.0",
        )
        self.a.write(f"{folder}/ssh_config", config)
        self.a.write(f"{folder}/known_hosts", hostfile.known_hosts(peers))
        self.a.write(f"{folder}/hostfile", hostfile.hostfile([1, 1]))
        self.a.write(f"{folder}/{launch.SSH}", launch.SSH_FOR_ANY_SHELL)
        self.a.write(f"{folder}/mpirun.json", json.dumps(command))
        self.a.write(f"{folder}/key", self.a.key.read_text())
        (self.a.disk.root / f"{folder}/key".lstrip("/")).chmod(0o600)
        marks = f"RAILHEAD_RUN={run_id} RAILHEAD_HOME={home} TMPDIR={folder}/tmp"
        marks += f" PATH={open_mpi.PATH} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
        command_line = f"cd {folder} && {marks} setsid python3 -I -S {NAME} {SUPERVISOR}"
        self.a.exec("sh", "-c", f"{command_line} >logs/supervisor.log 2>&1 &")
        return folder

    def _place(self, host: FullHost, document: RunDocument, folder: str) -> None:
        files = {
            "run.json": json.dumps(encode(document)),
            "rank.sh": start.rank_starter(document),
            "work/train.py": SCRIPT,
            "results/.keep": "",
            "logs/.keep": "",
        }
        for name, text in files.items():
            host.write(f"{folder}/{name}", text)
        (host.disk.root / f"{folder}/{NAME}".lstrip("/")).write_bytes(archive())
        python = f"/root/.railhead/envs/{document.runtime.digest}/bin/python"
        temporary = f"mkdir -p /var/tmp/{document.run_id} && ln -sfn /var/tmp/{document.run_id}"
        host.exec("sh", "-c", f"mkdir -p {Path(python).parent}; ln -sf /usr/bin/python3 {python}")
        host.exec("sh", "-c", f"{temporary} {folder}/tmp && {temporary} {folder}/memory")

    def log(self, folder: str, rank: int) -> list[str]:
        path = self.a.disk.root / folder.lstrip("/") / f"logs/rank-{rank}.log"
        return path.read_text().splitlines() if path.exists() else []

    def both_wait(self, folder: str) -> None:
        """Wait until both ranks have printed all, and wait."""
        wait_until(lambda: all(self.log(folder, r)[-1:] == ["waits"] for r in (0, 1)), 60)

    def result(self, folder: str) -> dict[str, Any]:
        """result.json, and no process of the run is left on any host."""
        path = self.a.disk.root / folder.lstrip("/") / "results/result.json"
        wait_until(path.exists, 60)
        wait_until(lambda: self.a.busy(30) == self.b.busy(30) == [], 60)
        read: dict[str, Any] = json.loads(path.read_text())
        for log in sorted(path.parents[1].glob("logs/*.log")):
            print(f"{log.name}:\n{log.read_text()[-3000:]}")
        return read


@pytest.fixture(scope="module")
def cluster(network: Network) -> Iterator[Cluster]:
    made = Cluster(drawn(open_mpi.VERSIONS), network)
    yield made
    for host in made.hosts:
        host.remove()


def rank_on(host: FullHost) -> int:
    """The machine's pid of the rank on a host; its helper has a later one."""
    return min(p.pid for p in host.processes() if "rank.rank" in p.argv)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()[1])


def lines(rank: int) -> list[str]:
    """What each rank prints first."""
    return [f"{rank} {n} {chr(97 + rank) * (n * n % 3001)}" for n in range(400)]


def test_ranks_sum_and_each_line_is_in_the_log_of_its_rank(cluster: Cluster) -> None:
    folder = cluster.start("mpi-sum")
    result = cluster.result(folder)
    assert (result["state"], result["exit_code"]) == ("succeeded", 0), result
    for rank in (0, 1):
        assert cluster.log(folder, rank) == [*lines(rank), "sum 7"]


def test_a_rank_that_fails_or_is_killed_is_named(cluster: Cluster) -> None:
    folder = cluster.start("fails")
    culprit = cluster.result(folder)["culprit"]
    assert (culprit["rank"], culprit["host"], culprit["exit"]) == (1, "b", 3)
    folder = cluster.start("mpi-killed")
    cluster.both_wait(folder)
    os.kill(rank_on(cluster.b), signal.SIGKILL)
    culprit = cluster.result(folder)["culprit"]
    assert (culprit["rank"], culprit["host"], culprit["signal"]) == (1, "b", 9)


def test_the_loss_of_a_daemon_fails_the_run_and_leaves_no_rank(cluster: Cluster) -> None:
    """mpirun ends with 0 and leaves the ranks of both hosts."""
    folder = cluster.start("daemon-killed")
    cluster.both_wait(folder)
    os.kill(parent_of(rank_on(cluster.b)), signal.SIGKILL)
    result = cluster.result(folder)
    assert result["state"] == "failed" and result["exit_code"], result
    assert (result["culprit"]["host"], result["cause"]["class"]) == ("b", "host")


def test_after_a_kill_of_mpirun_no_rank_is_left(cluster: Cluster) -> None:
    folder = cluster.start("mpirun-killed")
    cluster.both_wait(folder)
    (mpirun,) = [p.pid for p in cluster.a.processes() if "--hostfile" in p.argv]
    os.kill(mpirun, signal.SIGKILL)
    assert cluster.result(folder)["state"] == "failed"


def test_a_kill_of_all_that_runs_on_the_chief_leaves_no_rank(cluster: Cluster) -> None:
    folder = cluster.start("chief-killed")
    cluster.both_wait(folder)
    for process in cluster.a.busy():
        with contextlib.suppress(ProcessLookupError):  # one of them may end with another
            os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not cluster.b.busy(), 60)


def test_a_cancel_ends_all_ranks(cluster: Cluster) -> None:
    folder = cluster.start("cancelled")
    cluster.both_wait(folder)
    (supervisor,) = [p.pid for p in cluster.a.processes() if SUPERVISOR in p.argv]
    os.kill(supervisor, signal.SIGTERM)
    result = cluster.result(folder)
    assert result["state"] == "cancelled" and result["culprit"] is None
