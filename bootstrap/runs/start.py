"""Starts a run: the hosts are asked once more, the program is shipped, the supervisor begins.

From then on the supervisor on the chief holds the run; this side may vanish and come back.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bootstrap.console import log
from bootstrap.errors import HostsNotReady, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.plan import hostfile
from bootstrap.plan.cluster import Cluster
from bootstrap.runs import launch
from bootstrap.runs.request import RunRequest
from bootstrap.ssh.connect import everywhere
from bootstrap.ssh.session import Session

REMOTE = Path(__file__).parents[1] / "remote"
SUPERVISOR = (
    *("supervisor.py", "mpirun_output.py", "rank_output.py", "controller.py", "manifest.py"),
    *("closing.py", "bounded.py"),
)
KEEPER = ("stop_machines.py", "stop_policy.py", "upload.py")
OPEN_PORTS = "open all TCP ports between the hosts, or tell addresses: --peer-address a,b"
HEALTH = "health"  # the run id of every health check
FINAL = ("succeeded", "failed", "cancelled")


@dataclass(frozen=True)
class Run:
    """One run: its id, and the folder here where its results belong."""

    run_id: str
    results: Path

    @property
    def folder(self) -> str:
        """Its folder on every host."""
        return f"~/.railhead/runs/{self.run_id}"


def refuse_second(cluster: Cluster) -> None:
    """UsageError when a run, or somebody's health check, is going on on any of the hosts."""
    for name, facts in cluster.facts.items():
        for trace in facts.run_processes:
            known = f"fab attach --run {trace.run_id}   # or: fab cancel --run {trace.run_id}"
            check = "wait until it has ended; fab teardown ends what a broken one has left"
            raise UsageError(
                f"{name} is busy with run {trace.run_id}: one run at a time",
                hint=check if trace.run_id == HEALTH else known,
            )


def refuse_closed_pairs(cluster: Cluster, opened: Mapping[str, Session]) -> None:
    """Let every host call every other one, both ways; HostsNotReady names the pairs that fail."""
    told = closed_pairs(cluster, opened)
    if any(told.values()):
        raise HostsNotReady(
            "the hosts do not reach each other",
            {name: text or "ok" for name, text in told.items()},
            hint=OPEN_PORTS,
        )


def closed_pairs(cluster: Cluster, opened: Mapping[str, Session]) -> dict[str, str]:
    """Let every host call every other one, both ways; for each host a line per peer that it does
    not reach."""
    if len(cluster.peers) < 2:
        return {}
    address = {p.name: p.address for p in cluster.peers}
    ports = everywhere(
        opened,
        lambda s: s.call("listen", address=address[s.host.name])["port"],
        what="listening on the address for peers",
        error=HostsNotReady,
    )

    def call(session: Session) -> str:
        others = [name for name in opened if name != session.host.name]
        peers = [[address[name], ports[name]] for name in others]
        wrong = session.call("dial", peers=peers, timeout=5)["wrong"]
        return "\n".join(
            f"cannot reach {name} at {address[name]}: {why}"
            for name, why in zip(others, wrong, strict=True)
            if why
        )

    return everywhere(opened, call, what="calling the peers", error=HostsNotReady)


def start(
    cluster: Cluster,
    opened: Mapping[str, Session],
    asked: RunRequest,
    results: Path,
    ending: launch.StopPolicy,
) -> Run:
    """Ship the bundle to every host and start the supervisor on the chief."""
    document = document_of(launch.new_run_id(), cluster, opened, asked, ending)
    run = Run(document["run_id"], results / document["run_id"])
    log.event(f"run {run.run_id}: {asked.ask.launcher} on {', '.join(opened)}")
    local_state.save_run(document, run.results)
    try:
        lay_out(cluster, opened, asked, document, run)
    except BaseException:
        local_state.forget_run(document)
        raise
    chief = opened[cluster.chief]
    python = cluster.facts[cluster.chief].pythons[cluster.environment.python]
    chief.call(
        "start",
        argv=[python, "-I", "-S", f"{run.folder}/supervisor.py"],
        cwd=run.folder,
        env=environment_of(run),
        log=f"{run.folder}/logs/supervisor.log",
    )
    log.event(f"run {run.run_id}: started on {cluster.chief}")
    return run


def lay_out(
    cluster: Cluster,
    opened: Mapping[str, Session],
    asked: RunRequest,
    document: Mapping[str, Any],
    run: Run,
) -> None:
    """Ship all that a run is made of, and see that the chief can start ranks; or take it back."""
    chief = opened[cluster.chief]
    try:
        everywhere(
            opened, lambda s: _prepare(s, cluster, asked, document, run), what="shipping the run"
        )
        chief.call("write", files=_chief_files(cluster, document, run))
        _refuse_closed_doors(cluster, chief, run)
    except BaseException:
        take_back(opened, run)
        raise


# All at once, by the very words with which mpirun will start a rank there; the last line that
# ssh says of a host that it cannot log in to.
KNOCK = """for name in "$@"; do
  { said=$(ssh -n -F ssh_config "$name" true 2>&1) ||
    echo "$name $(echo "$said" | tail -n 1)"; } &
done >knock.txt; wait"""


def _refuse_closed_doors(cluster: Cluster, chief: Session, run: Run) -> None:
    """Let the chief log in to every other host; HostsNotReady tells where it cannot."""
    others = {hostfile.alias(i): peer for i, peer in enumerate(cluster.peers) if i}
    if not others:
        return
    path = f"{run.folder}/knock.txt"
    chief.run(["sh", "-c", KNOCK, "knock", *others], cwd=run.folder)
    lines = chief.call("read", paths=[path])[path].splitlines()
    failed = dict(line.partition(" ")[::2] for line in lines)
    if failed:
        told = {peer.name: failed.get(alias, "ok") for alias, peer in others.items()}
        raise HostsNotReady(
            f"the chief, {cluster.chief}, cannot log in to every host",
            {cluster.chief: "ok", **told},
            hint="let it reach their sshd, or tell addresses: --peer-address a,b",
        )


def take_back(opened: Mapping[str, Session], run: Run) -> None:
    """Remove all of a run from the hosts, secrets too, where that can be done."""
    for session in opened.values():
        with contextlib.suppress(Exception):
            session.call("remove", paths=[run.folder])


def environment_of(run: Run) -> dict[str, str]:
    """What marks the processes of a run, and lets root start them."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {"RAILHEAD_RUN": run.run_id, "RAILHEAD_HOME": "~", **root}


def document_of(
    run_id: str,
    cluster: Cluster,
    opened: Mapping[str, Session],
    asked: RunRequest,
    ending: launch.StopPolicy,
) -> dict[str, Any]:
    """run.json for these hosts, with ports that are free on them."""
    now = datetime.now(timezone.utc)
    environment = cluster.environment
    return launch.run_document(
        run_id=run_id,
        cluster=cluster.inventory.name,
        created=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        ask=asked.ask,
        program=asked.program,
        runtime={"name": environment.runtime.name, "digest": environment.digest},
        bundle=asked.bundle.digest,
        peers=cluster.peers,
        links=hostfile.links(cluster.peers, cluster.facts),
        ports=_ports(cluster, opened),
        ending=ending,
        stops=_stops(cluster.inventory),
        bucket=_bucket(cluster),
    )


def _bucket(cluster: Cluster) -> launch.Bucket | None:
    """Where results go by themselves, if the stack has a bucket."""
    url, client = cluster.inventory.bucket, cluster.bucket_client
    return launch.Bucket(url, client.digest) if url and client else None


def _stops(inventory: Inventory) -> list[tuple[str, ...] | None]:
    """What stops each host, where the machines are ours to stop."""
    return [host.stop for host in inventory.hosts] if inventory.is_managed else []


def _ports(cluster: Cluster, opened: Mapping[str, Session]) -> list[int]:
    """A free port on each host, no number twice: hosts may share a machine."""
    found: list[int] = []
    for peer in cluster.peers:
        offered = opened[peer.name].call("ports", count=len(cluster.peers) + 1)["ports"]
        found.append(next(port for port in offered if port not in found))
    return found


def _prepare(
    session: Session, cluster: Cluster, asked: RunRequest, document: Mapping[str, Any], run: Run
) -> None:
    """The run's folder on one host: a fresh copy of the program, and what makes a rank of it."""
    session.send_tree(asked.bundle, f"{run.folder}/work")
    python = f'"$HOME/.railhead/envs/{cluster.environment.digest}/bin/python"'
    here = f'"$HOME/.railhead/runs/{run.run_id}"'
    starter = f"cd {here}/work && export PYTHONUNBUFFERED=1 && exec {python} {here}/rank.py\n"
    files: list[list[Any]] = [
        [f"{run.folder}/run.json", 0o644, json.dumps(document, indent=1) + "\n"],
        [f"{run.folder}/rank.sh", 0o755, starter],
        [f"{run.folder}/rank.py", 0o644, (REMOTE / "run/rank.py").read_text()],
        [f"{run.folder}/end_processes.py", 0o644, (REMOTE / "run/end_processes.py").read_text()],
        [f"{run.folder}/results/.keep", 0o644, ""],
        [f"{run.folder}/logs/.keep", 0o644, ""],
    ]
    if asked.secrets:
        files.append([f"{run.folder}/secrets.json", 0o600, json.dumps(dict(asked.secrets))])
    session.call("write", files=files)


def _chief_files(cluster: Cluster, document: Mapping[str, Any], run: Run) -> list[list[Any]]:
    home = cluster.facts[cluster.chief].home
    folder = f"{home}/.railhead/runs/{run.run_id}"
    argv = launch.mpirun_argv(
        run.run_id,
        size=document["size"],
        run_folder=folder,
        networks=hostfile.networks(cluster.peers, cluster.facts),
    )
    key = f"{home}/.railhead/cluster/key"
    config = hostfile.ssh_config(cluster.peers, key=key, pins=f"{folder}/known_hosts")
    slots = [h["slots"] for h in document["hosts"]]
    return [
        *(
            [f"{run.folder}/{n}", 0o644, (REMOTE / "run" / n).read_text()]
            for n in (*SUPERVISOR, *KEEPER)
        ),
        [f"{run.folder}/mpirun.json", 0o644, json.dumps(argv)],
        [f"{run.folder}/hostfile", 0o644, hostfile.hostfile(slots)],
        [f"{run.folder}/ssh_config", 0o644, config],
        [f"{run.folder}/known_hosts", 0o644, hostfile.known_hosts(cluster.peers)],
    ]


def read_json(session: Session, path: str) -> Any:
    """A small JSON file of a host; None when it is not there."""
    text = session.call("read", paths=[path])[path]
    return json.loads(text) if text else None


def state(chief: Session, run: Run) -> str:
    """How a run stands, from its supervisor's heartbeat."""
    found = read_json(chief, f"{run.folder}/state.json")
    if not found:
        return "not on its chief any more"
    if found["state"] in FINAL:
        return str(found["state"])
    age = time.time() - found["heartbeat"]
    alive = chief.run(["sh", "-c", f"kill -0 {int(found['pid'])}"]).rc == 0
    return f"{found['state']} (heartbeat {age:.0f} s ago)" if alive else "LOST: its supervisor died"
