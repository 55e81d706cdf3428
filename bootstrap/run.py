"""A run on a cluster: start it, watch it, bring its results home, end it.

The supervisor on the chief holds the run; this side may vanish at any time and come back.
"""

from __future__ import annotations

import glob
import json
import tarfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bootstrap import hostfile, launch, record
from bootstrap.asked import Asked
from bootstrap.board import Board
from bootstrap.connect import everywhere, reach
from bootstrap.errors import (
    BelowThreshold,
    HostsFailed,
    HostsNotReady,
    RailheadError,
    RunFailed,
    UsageError,
)
from bootstrap.inventory import Inventory
from bootstrap.picture import curves
from bootstrap.ready import Cluster
from bootstrap.session import ConnectionLost, Session
from bootstrap.show import clean, duration, progress_line, size

REMOTE = Path(__file__).parent / "remote"
OUTPUT_LIMIT = 1_000_000_000  # bytes fetched at once; what is more stays on the host, listed
FINAL = ("succeeded", "failed", "cancelled")

# What a script under the wrong Keras says, and what mends it (docs/troubleshooting.md).
WRONG_KERAS = {
    "3": (
        "'Variable' object has no attribute 'ref'",
        "'list' object is not callable",
        "unexpected keyword argument 'experimental_run_tf_function'",
        "Attempt to convert a value (PerReplica:",
        "optimizers.legacy is not supported in Keras 3",
        "has no attribute 'reset_states'",
    ),
    "2": (
        "No module named 'tf_keras.",
        "No module named 'keras.ops'",
        "tf_keras' has no attribute",
    ),
}


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
    """UsageError when a run is going on on any of the hosts."""
    for name, facts in cluster.facts.items():
        for trace in facts.traces:
            raise UsageError(
                f"{name} is busy with run {trace.run_id}: one run at a time",
                hint=f"fab attach --run {trace.run_id}   # or: fab cancel --run {trace.run_id}",
            )


def refuse_closed_pairs(cluster: Cluster, opened: Mapping[str, Session]) -> None:
    """Let every host call every other one, both ways; HostsNotReady names the pairs that fail."""
    if len(cluster.peers) < 2:
        return
    address = {p.name: p.address for p in cluster.peers}
    ports = everywhere(
        opened,
        lambda s: s.ask("listen", address=address[s.host.name])["port"],
        what="listening on the address for peers",
        error=HostsNotReady,
    )

    def call(session: Session) -> str:
        others = [name for name in opened if name != session.host.name]
        peers = [[address[name], ports[name]] for name in others]
        wrong = session.ask("dial", peers=peers, timeout=5)["wrong"]
        return "\n".join(
            f"cannot reach {name} at {address[name]}: {why}"
            for name, why in zip(others, wrong, strict=True)
            if why
        )

    told = everywhere(opened, call, what="calling the peers", error=HostsNotReady)
    if any(told.values()):
        raise HostsNotReady(
            "the hosts do not reach each other",
            {name: text or "ok" for name, text in told.items()},
            hint="open all TCP ports between the hosts, or tell addresses: --peer-address a,b",
        )


def start(cluster: Cluster, opened: Mapping[str, Session], asked: Asked, results: Path) -> Run:
    """Ship the bundle to every host and start the supervisor on the chief."""
    document = _document(cluster, opened, asked)
    run = Run(document["run_id"], results / document["run_id"])
    record.save_run(document, run.results)
    everywhere(
        opened, lambda s: _prepare(s, cluster, asked, document, run), what="shipping the run"
    )
    chief = opened[cluster.chief]
    chief.ask("write", files=_chief_files(cluster, document, run))
    python = cluster.facts[cluster.chief].pythons[cluster.environment.python]
    chief.ask(
        "start",
        argv=[python, "-I", "-S", f"{run.folder}/supervisor.py"],
        cwd=run.folder,
        env=_supervisor_environment(run),
        log=f"{run.folder}/logs/supervisor.log",
    )
    return run


def _supervisor_environment(run: Run) -> dict[str, str]:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {"RAILHEAD_RUN": run.run_id, "RAILHEAD_HOME": "~", **root}


def _document(cluster: Cluster, opened: Mapping[str, Session], asked: Asked) -> dict[str, Any]:
    now = datetime.now(timezone.utc)
    environment = cluster.environment
    return launch.run_document(
        run_id=launch.new_run_id(now),
        cluster=cluster.inventory.name,
        created=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        ask=asked.ask,
        program=asked.program,
        runtime={"name": environment.runtime.name, "digest": environment.digest},
        bundle=asked.bundle.digest,
        peers=cluster.peers,
        ports=_ports(cluster, opened),
    )


def _ports(cluster: Cluster, opened: Mapping[str, Session]) -> list[int]:
    """A free port on each host, no number twice: hosts may share a machine."""
    found: list[int] = []
    for peer in cluster.peers:
        offered = opened[peer.name].ask("ports", count=len(cluster.peers) + 1)["ports"]
        found.append(next(port for port in offered if port not in found))
    return found


def _prepare(
    session: Session, cluster: Cluster, asked: Asked, document: Mapping[str, Any], run: Run
) -> None:
    """The run's folder on one host: a fresh copy of the program, and what makes a rank of it."""
    session.send_tree(asked.bundle, f"{run.folder}/work")
    python = f'"$HOME/.railhead/envs/{cluster.environment.digest}/bin/python"'
    here = f'"$HOME/.railhead/runs/{run.run_id}"'
    starter = f"cd {here}/work && export PYTHONUNBUFFERED=1 && exec {python} {here}/rank.py\n"
    files: list[list[Any]] = [
        [f"{run.folder}/run.json", 0o644, json.dumps(document, indent=1) + "\n"],
        [f"{run.folder}/rank.sh", 0o755, starter],
        [f"{run.folder}/rank.py", 0o644, (REMOTE / "rank.py").read_text()],
        [f"{run.folder}/sweep.py", 0o644, (REMOTE / "sweep.py").read_text()],
        [f"{run.folder}/results/.keep", 0o644, ""],
        [f"{run.folder}/logs/.keep", 0o644, ""],
    ]
    if asked.secrets:
        files.append([f"{run.folder}/secrets.json", 0o600, json.dumps(dict(asked.secrets))])
    session.ask("write", files=files)


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
        [f"{run.folder}/supervisor.py", 0o644, (REMOTE / "supervisor.py").read_text()],
        [f"{run.folder}/mpirun.json", 0o644, json.dumps(argv)],
        [f"{run.folder}/hostfile", 0o644, hostfile.hostfile(slots)],
        [f"{run.folder}/ssh_config", 0o644, config],
        [f"{run.folder}/known_hosts", 0o644, hostfile.known_hosts(cluster.peers)],
    ]


@dataclass
class Watch:
    """What `follow` has seen so far; kept across a connection that breaks."""

    offset: int = 0
    lost: bool = False
    done: bool = False


def follow(session: Session, run: Run, board: Board, watch: Watch) -> None:
    """Show the run until it ends. A broken connection raises ConnectionLost; the run goes on."""
    hosts = _first_ranks(session, run)
    shown: set[str] = set()  # hosts whose records show progress; the others show their last line

    def told(event: Mapping[str, Any]) -> None:
        if "metrics" in event:
            watch.offset = event["offset"]
            _show_record(json.loads(event["metrics"]), board, shown)
        for rank, host in hosts.items():
            line = (event.get("last") or {}).get(rank)
            if line and host not in shown:
                board.line(host, clean(line))

    answer = session.ask("follow", told=told, folder=run.folder, offset=watch.offset)
    watch.lost, watch.done = answer["lost"], True


def _first_ranks(session: Session, run: Run) -> dict[str, str]:
    """{rank: host} for the first rank of each host."""
    document = json.loads(
        session.ask("read", paths=[f"{run.folder}/run.json"])[f"{run.folder}/run.json"]
    )
    first, found = 0, {}
    for host in document["hosts"]:
        found[str(first)] = host["name"]
        first += host["slots"]
    return found


def _show_record(entry: Mapping[str, Any], board: Board, shown: set[str]) -> None:
    text = progress_line(entry)
    if entry["kind"] == "progress":
        shown.add(entry["host"])
    if entry["kind"] in ("progress", "message"):
        board.line(entry["host"], text or clean(str(entry.get("text", ""))))
    elif text:
        board.say(text)


def attend(inventory: Inventory, session: Session, run: Run, board: Board) -> None:
    """Follow a run to its end, through broken connections: five tries, then the word to attach."""
    watch = Watch()
    for pause in (1, 2, 4, 8, 16, None):
        try:
            follow(session, run, board, watch)
            return
        except ConnectionLost as lost:
            if pause is None:
                raise
            board.say(f"{lost}; the run goes on, trying again in {pause} s")
            time.sleep(pause)
            session = reconnect(inventory) or session
    raise AssertionError("unreachable")


def reconnect(inventory: Inventory) -> Session | None:
    """A new session with the chief, its agent started; None when it cannot be reached now."""
    alone = Inventory(
        inventory.name, inventory.hosts[:1], inventory.cloud, key_file=inventory.key_file
    )
    opened, _ = reach(alone)
    for session in opened.values():
        facts = session.facts()
        session.start_agent(next(iter(facts.pythons.values())))
        return session
    return None


def fetch(session: Session, run: Run) -> dict[str, Any]:
    """Bring a run's results into its folder here; returns result.json ({} while it still runs)."""
    outputs = _json(session, f"{run.folder}/results/outputs.json") or {"files": []}
    run.results.mkdir(parents=True, exist_ok=True)
    packed = run.results / ".fetch.tar.gz"
    chosen = [
        "run.json",
        "results/*",
        "logs/*",
        *(f"work/{_literal(p)}" for p, _ in outputs["files"]),
    ]
    told = session.get(run.folder, chosen, packed, limit=OUTPUT_LIMIT)
    _unpack(packed, run.results)
    packed.unlink()
    if told["left"]:
        left = "".join(f"{size(count):>9}  {path}\n" for path, count in told["left"])
        (run.results / "left-on-host.txt").write_text(left)
    metrics = run.results / "metrics.jsonl"
    if metrics.exists():
        curves(metrics, run.results / "curves.png", run.run_id)
    result = run.results / "result.json"
    return json.loads(result.read_text()) if result.exists() else {}


def _literal(path: str) -> str:
    return glob.escape(path)


def _unpack(packed: Path, into: Path) -> None:
    """results/ comes to the top, work/ becomes outputs/; nothing leaves the folder."""
    with tarfile.open(packed) as tar:
        for member in tar:
            if member.name.endswith((".keep", "outputs.json")):
                continue
            member.name = member.name.removeprefix("results/")
            if member.name.startswith("work/"):
                member.name = "outputs/" + member.name.removeprefix("work/")
            tar.extract(member, into, filter="data")


def _json(session: Session, path: str) -> Any:
    text = session.ask("read", paths=[path])[path]
    return json.loads(text) if text else None


def judge(run: Run, result: Mapping[str, Any]) -> str:
    """One line on a run that did what it should.

    Raises:
        RunFailed: it failed or was cancelled. BelowThreshold: its evaluation is too low.
    """
    if not result:
        raise RunFailed(
            f"run {run.run_id} ended without a result: its supervisor died",
            hint=f"fab logs --run {run.run_id}",
        )
    if result["state"] == "cancelled":
        raise RunFailed(f"run {run.run_id} was cancelled after {duration(result['seconds'])}")
    if result["state"] == "failed":
        raise RunFailed(_failure(run, result), hint=_mend(result) or f"fab logs --run {run.run_id}")
    evaluation = result["evaluation"] or {}
    if evaluation.get("passed") is False:
        raise BelowThreshold(
            f"accuracy {evaluation['accuracy']:.4f} is below min_accuracy {evaluation['threshold']}"
        )
    return f"run {run.run_id} succeeded in {duration(result['seconds'])} on {result['size']} ranks"


def _failure(run: Run, result: Mapping[str, Any]) -> str:
    culprit = result["culprit"] or {"rank": None, "host": None, "lines": []}
    where = f" on {culprit['host']}" if culprit["host"] else ""
    if culprit["rank"] is None:
        what = f"lost{where}" if where else "mpirun failed"
    elif "signal" in culprit:
        what = f"rank {culprit['rank']}{where} was killed by signal {culprit['signal']}"
    else:
        what = f"rank {culprit['rank']}{where} exited with {culprit.get('exit', 1)}"
    lines = "\n".join(f"  | {clean(line)}" for line in culprit["lines"][-12:])
    return (
        f"run {run.run_id} failed: {what}\n{lines}\n  result.json: exit code {result['exit_code']}"
    )


def _mend(result: Mapping[str, Any]) -> str:
    text = "\n".join((result["culprit"] or {"lines": []})["lines"])
    for keras, signs in WRONG_KERAS.items():
        if any(sign in text for sign in signs):
            other = "2" if keras == "3" else "3"
            return f"this is the error of a script written for Keras {other}: add --keras {other}"
    return ""


def state(chief: Session, run: Run) -> str:
    """How a run stands, from its supervisor's heartbeat."""
    found = _json(chief, f"{run.folder}/state.json")
    if not found:
        return "not on its chief any more"
    if found["state"] in FINAL:
        return str(found["state"])
    age = time.time() - found["heartbeat"]
    alive = chief.run(["sh", "-c", f"kill -0 {int(found['pid'])}"]).rc == 0
    return f"{found['state']} (heartbeat {age:.0f} s ago)" if alive else "LOST: its supervisor died"


def sweep(session: Session, run_id: str, python: str) -> dict[str, Any]:
    """End every process of a run ("all": of any run) on one host; what ended and what is left."""
    source = (REMOTE / "sweep.py").read_text()
    reply = session.run([python, "-I", "-S", "-", run_id], text=source)
    if reply.rc:
        raise RailheadError("\n".join(reply.tail[-3:]))
    said: dict[str, Any] = json.loads(reply.tail[-1])
    return said


def cancel(
    opened: Mapping[str, Session], run: Run, pythons: Mapping[str, str], chief: str
) -> dict[str, str]:
    """End a run: the supervisor is asked, then every host is searched, and searched again.

    Returns one line per host.

    Raises:
        HostsFailed: something of the run is left on some host.
    """
    _ask_supervisor(opened[chief], run)
    said = everywhere(
        opened, lambda s: sweep(s, run.run_id, pythons[s.host.name]), what="ending the run"
    )
    told = {n: _told(x) for n, x in said.items()}
    if any(x["left"] for x in said.values()):
        raise HostsFailed("processes are left", told, hint=f"fab cancel --run {run.run_id}")
    return told


def _told(said: Mapping[str, Any]) -> str:
    if said["left"]:
        return f"LEFT: pids {', '.join(map(str, said['left']))}"
    return f"nothing of the run is left (looked through /proc; {said['ended']} had to be ended)"


def _ask_supervisor(chief: Session, run: Run, seconds: float = 8) -> None:
    """SIGTERM, then wait for its last word: it writes result.json before it goes."""
    state = _json(chief, f"{run.folder}/state.json")
    if not state or state["state"] in FINAL:
        return
    chief.run(["sh", "-c", f"kill -TERM {int(state['pid'])}"])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state = _json(chief, f"{run.folder}/state.json")
        if state["state"] in FINAL:
            return
        time.sleep(0.2)
