"""Starts a run: checks the hosts, sends the program, starts the supervisor on the chief.

From then on the supervisor controls the run; this computer may disconnect.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from railhead.documents.agent.commands import CommandResult, Release, Start, Started
from railhead.documents.agent.commands import Run as RunCommand
from railhead.documents.agent.files import TextFile, Write
from railhead.documents.agent.network import SMALL_ONLY, Dialed
from railhead.documents.agent.request import Request
from railhead.documents.agent.runs import DropTemporary, MakeTemporary, PlacePrograms
from railhead.documents.codec import decode, encode
from railhead.documents.lazy import dataclass
from railhead.documents.runs.run import RunBucket, RunData, RunDocument, Runtime, Script
from railhead.documents.runs.run_record import RunRecord

from ..console import log
from ..errors import Command, Hint, HostsBusy, HostsNotReady, UsageError
from ..host.base.programs import BUNDLE, HELD, NAME, RANK, SHARES, SUPERVISOR, WHOLE
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..plan import hostfile, network, open_mpi
from ..plan.cluster import SurveyedCluster
from ..plan.grid import grid_of
from ..plan.runtimes import REPO
from ..ssh import connect
from ..ssh.bundle import pack_training
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import everywhere, start_agent
from ..ssh.session import Session
from . import launch, takeover
from .request import RunRequest
from .run import REMOVAL_SECONDS, Run

OPEN_PORTS = "open all TCP ports between the hosts, or give addresses: --peer-address a,b"
SMALLER_MTU = "on both hosts: ip link set INTERFACE mtu 1500; and in their network settings"
LISTENING = "listening on the address for peers"
HEALTH = "health"  # the run id of all health checks
Restore = Callable[[ConnectedCluster, Run], None]
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Lead:
    """A cluster whose first host leads a run, and the run document for this order."""

    cluster: ConnectedCluster
    document: RunDocument


def refuse_second(cluster: SurveyedCluster) -> None:
    """HostsBusy when a run or a health check is in progress on any of the hosts."""
    for name, facts in cluster.facts.items():
        for process in facts.run_processes:
            run_id = process.run_id
            of_run = Hint(Command("attach", run=run_id), "   # or: ", Command("cancel", run=run_id))
            of_check = Hint(
                "wait until it has ended; ",
                Command("teardown"),
                " terminates one that hangs",
            )
            raise HostsBusy(
                f"{name} is busy with run {process.run_id}: one run at a time",
                hint=of_check if process.run_id == HEALTH else of_run,
            )


def refuse_closed_pairs(cluster: ConnectedCluster) -> None:
    """Connect every host to every other one; HostsNotReady names the pairs that fail."""
    refuse_closed(closed_pairs(cluster))


def closed_pairs(cluster: ConnectedCluster) -> dict[str, str]:
    """Connect every host to every other one. Returns {host: a line for each unreachable peer}."""
    if len(cluster.peers) < 2:
        return {}
    listening = _replies(cluster, network.listen_requests(cluster), LISTENING)
    listeners = {name: reply.port for name, reply in listening.items()}
    dials = network.dial_requests(cluster, listeners)
    replies = _replies(cluster, dials, "connecting to the peers")
    return network.unreachable_peers(cluster, replies)


def _replies(
    cluster: ConnectedCluster, requests: Mapping[str, Request[Reply, Any]], what: str
) -> dict[str, Reply]:
    """The reply of each host to its request; HostsNotReady if one fails."""

    def call(session: Session) -> Reply:
        return session.call(requests[session.host.name])

    return everywhere(cluster.sessions, call, what=what, error=HostsNotReady)


def refuse_closed(closed: Mapping[str, str]) -> None:
    """HostsNotReady if a host does not reach a peer; `closed`: from `closed_pairs`."""
    if any(closed.values()):
        raise HostsNotReady(
            "the hosts cannot reach each other",
            {name: text or "ok" for name, text in closed.items()},
            hint=reach_hint("".join(closed.values())),
        )


def reach_hint(text: str) -> str:
    """What to do about hosts that cannot reach each other, for these reasons."""
    return SMALLER_MTU if SMALL_ONLY in text else OPEN_PORTS


@contextlib.contextmanager
def _removed_on_error(cluster: ConnectedCluster, run: Run) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _remove_interrupted(cluster, run)
        raise
    except BaseException:
        remove_run(cluster.sessions, run)
        raise


def start(
    cluster: ConnectedCluster,
    request: RunRequest,
    data: Sequence[RunData],
    results: Path,
    stop_policy: launch.StopPolicy,
    restore: Restore | None = None,
) -> Run:
    """Check that the hosts reach each other, send the bundle to every host and start the supervisor
    on the chief.

    Args:
        data: `data` of run.json.
        results: the folder for the results of all runs.
        restore: places the checkpoints of an earlier run, after all other files are in place.
    """
    run_id = launch.new_run_id()
    run = Run(run_id, results / run_id)
    processes = processes_of(request, cluster)
    with _removed_on_error(cluster, run):
        offers = _begin(cluster, run, processes)
        free = {name: offer.free for name, offer in offers.items()}
        ports = network.chosen_ports(cluster, processes, free)
        document = document_of(run.run_id, cluster, request, data, stop_policy, ports)
        _require_readable(document)
        log.event(f"run {run.run_id}: {request.options.launcher} on {', '.join(cluster.sessions)}")
        standby = _standby_of(cluster, request, data, stop_policy, document)
        takeover.end_earlier_standbys(cluster)
    record = RunRecord(
        run.run_id, document.cluster, str(run.results), encode(document), encode(request.record)
    )
    local_state.save_run(record)
    listeners = {name: offer.listener for name, offer in offers.items() if offer.listener}
    begins: dict[str, list[Request[Any, Any]]] = {
        name: [dial] for name, dial in network.dial_requests(cluster, listeners).items()
    }
    begins.setdefault(cluster.chief, []).append(_supervisor(cluster, run))
    try:
        held = lay_out(cluster, request, document, run, restore, standby, begins)
    except BaseException:
        local_state.forget_run(run.run_id)
        raise
    with takeover.ended_on_error(standby.cluster if standby else None, run):
        assert held is not None
        cluster.sessions.chief.call(Release(held))
    log.event(f"run {run.run_id}: started on {cluster.chief}")
    return run


def _begin(
    cluster: ConnectedCluster, run: Run, processes: Sequence[int]
) -> dict[str, network.Offer]:
    """What each host offers for the run (ports). Meanwhile the chief begins to log in to the
    hosts."""
    ports = network.port_requests(cluster, processes)
    listens = network.listen_requests(cluster) if len(cluster.peers) > 1 else {}

    def offered(session: Session) -> network.Offer:
        name = session.host.name
        requests: list[Request[Any, Any]] = [ports[name]]
        if listens:
            requests.append(listens[name])
        if listens and name == cluster.chief:
            requests.append(Write(tuple(login_files(cluster, run))))
            requests.append(_begin_logins(cluster, run))
        offered_ports, *others = session.call_all(*requests)
        return network.Offer(others[0].port if others else None, offered_ports.ports)

    return everywhere(cluster.sessions, offered, what=LISTENING, error=HostsNotReady)


def _standby_of(
    cluster: ConnectedCluster,
    request: RunRequest,
    data: Sequence[RunData],
    stop_policy: launch.StopPolicy,
    document: RunDocument,
) -> Lead | None:
    """The second host as the chief of this run; None for a run without takeover."""
    if not document.takeover:
        return None
    second = takeover.as_standby(cluster)
    ports = free_ports(second, processes_of(request, second))
    of_second = document_of(
        document.run_id, second, request, takeover.data_as_standby(data), stop_policy, ports
    )
    return Lead(second, replace(of_second, created=document.created))


def _supervisor(cluster: ConnectedCluster, run: Run) -> Start:
    """The request that starts the supervisor on the chief. It loads its modules while logins are
    checked, and then waits for its release; without one it ends."""
    return Start(
        argv=(
            *(cluster.python_of(cluster.chief), "-I", "-S"),
            *(f"{run.folder}/{NAME}", SUPERVISOR, HELD),
        ),
        cwd=run.folder,
        env={**run.environment, "TMPDIR": f"{run.folder}/tmp"},
        log=run.supervisor_log,
        held=True,
    )


def _require_readable(document: RunDocument) -> None:
    """UsageError for a document that the hosts would refuse, before anything is sent."""
    text = json.dumps(encode(document))
    decode(RunDocument, json.loads(text), what="the options of the run", error=UsageError)


def lay_out(
    cluster: ConnectedCluster,
    request: RunRequest,
    document: RunDocument,
    run: Run,
    restore: Restore | None = None,
    standby: Lead | None = None,
    begins: Mapping[str, Sequence[Request[Any, Any]]] = MappingProxyType({}),
) -> int | None:
    """Send the files of a run, check that the chief and its standby can log in to every host, and
    start the standby, which lists the files of the program before the ranks start. An error removes
    the files. `begins`: operations on each host before the program is sent: connections to the
    peers, and the start of the supervisor, whose pid is returned."""
    sessions = cluster.sessions
    leads = [lead for lead in (standby, Lead(cluster, document)) if lead]
    log_in = [lead.cluster for lead in leads] if len(sessions) > 1 else []

    def files(name: str) -> list[TextFile]:
        led = [lead for lead in leads if lead.cluster.chief == name]
        whole = [document_file(run, WHOLE, x.document) for x in led if x is standby]
        return whole + [file for x in led for file in chief_files(x.cluster, x.document, run)]

    def begin(s: Session) -> list[Any]:
        name = s.host.name
        return write_program(s, request, document, run, files(name), begins.get(name, ()))

    def prepare(s: Session) -> list[Any]:
        logins = [_end_logins(led, run) for led in log_in if led.chief == s.host.name]
        return s.call_all(*logins, *_temporary(s, request.secrets, document, run))

    with _removed_on_error(cluster, run):
        replies = everywhere(sessions, begin, what="sending the run")
        dialed = {n: x for n, found in replies.items() for x in found if isinstance(x, Dialed)}
        refuse_closed(network.unreachable_peers(cluster, dialed))
        everywhere(
            sessions, lambda s: send_program(s, request, document, run), what="sending the program"
        )
        if restore:
            restore(cluster, run)
        prepared = everywhere(sessions, prepare, what="preparing the run")
        for led in log_in:
            refuse_failed_logins(led, run, prepared[led.chief][0])
        with takeover.ended_on_error(standby.cluster if standby else None, run):
            if standby:
                takeover.start_standby(standby.cluster, run)
        pids = [x.pid for x in replies.get(cluster.chief, ()) if isinstance(x, Started)]
        return next(iter(pids), None)


def _remove_interrupted(cluster: ConnectedCluster, run: Run) -> None:
    """Remove a run over new sessions. Threads may still use the old ones, and would send secrets
    after the removal; they end when the old sessions close."""
    for session in cluster.sessions.values():
        session.close()
    inventory = cluster.sessions.inventory
    with connect.open_sessions(inventory) as sessions, sessions.within(REMOVAL_SECONDS):
        connect.attempts(sessions, lambda s: start_agent(s, cluster.facts[s.host.name]))
        remove_run(sessions, run)


def _temporary(
    session: Session, secrets: Mapping[str, str], document: RunDocument, run: Run
) -> list[Request[Any, Any]]:
    """Requests that create the run's temporary folders, with a file of the secrets for each rank of
    this host and, on the chief, for the supervisor. Each reader removes its file. This is the last
    step before the start, because folders of runs without a process are soon removed."""
    folders = MakeTemporary(run.folder)
    if not secrets:
        return [folders]
    text = json.dumps(dict(secrets))
    at = [host.name for host in document.hosts].index(session.host.name)
    names = {*document.secret_files(at)}
    if document.takeover and at == 1:  # the standby reads the supervisor's file
        names.add("secrets.json")
    return [folders, Write(tuple(TextFile(f"{run.folder}/memory/{n}", text, 0o600) for n in names))]


# Logs in to all hosts at once, as mpirun does, which then uses these connections. For each host
# that fails, the file gets the last line of ssh's output; the exit code says whether one failed.
# ssh's default key exchange resists quantum computers and takes 0.15 s of CPU. Neither the check
# nor mpirun sends secrets, so a faster one is used if possible. An ssh that stays in the background
# keeps its stderr open. Another run that starts may take the key from its file meanwhile: then the
# message must be about that run, not about the key.
LOGIN_CHECK = f"""held() {{
  read -r _ RAILHEAD_KEY_AGENT <~/.railhead/cluster/held 2>/dev/null && export RAILHEAD_KEY_AGENT
}}
held  # by a run in progress
login() {{ ssh -n -F ssh_config "$@" true >"login_check.$name" 2>&1; }}
check() {{
  login {" ".join(SHARES)} -o KexAlgorithms=curve25519-sha256 "$name" && return
  case $(cat "login_check.$name") in
    *[Kk]ex*|*"key exchange"*|*unix_listener*|*ControlPath*) login "$name" && return;;
    *"Permission denied"*) [ -z "$RAILHEAD_KEY_AGENT" ] && held && login "$name" && return;;
  esac
  echo "$name $(tail -n 1 "login_check.$name")"
}}
for name in "$@"; do check & done >login_check.txt; wait"""
# Runs in the background: `END_LOGINS` waits for it, or starts it if it has not started.
BEGIN_LOGINS = f"""exec 9>login_check.lock && flock 9 || exit
{{ ( {LOGIN_CHECK} ) 9>&-; : >login_check.done; }} </dev/null >/dev/null 2>&1 &"""
END_LOGINS = f"""if flock login_check.lock test -e login_check.done; then rm login_check.done; else
{LOGIN_CHECK}
fi; [ ! -s login_check.txt ]"""


def _begin_logins(cluster: SurveyedCluster, run: Run) -> Start:
    """Its connections outlive the login of this computer, because mpirun uses them."""
    return Start(_check_argv(BEGIN_LOGINS, cluster), run.folder, {}, log="/dev/null")


def _end_logins(cluster: SurveyedCluster, run: Run) -> RunCommand:
    return RunCommand(_check_argv(END_LOGINS, cluster), cwd=run.folder)


def _check_argv(script: str, cluster: SurveyedCluster) -> tuple[str, ...]:
    return ("sh", "-c", script, "login_check", *map(hostfile.alias, range(len(cluster.peers))))


def check_logins(cluster: ConnectedCluster, run: Run) -> None:
    """Log in from the chief to every host, including itself, as mpirun does; HostsNotReady names
    the hosts that fail."""
    if len(cluster.peers) < 2:
        return
    ended = cluster.sessions[cluster.chief].call(_end_logins(cluster, run))
    refuse_failed_logins(cluster, run, ended)


def refuse_failed_logins(cluster: ConnectedCluster, run: Run, ended: CommandResult) -> None:
    """HostsNotReady with the hosts to which the chief could not log in, by the outcome of
    END_LOGINS."""
    if ended.rc == 0:
        return
    text = cluster.sessions[cluster.chief].read(f"{run.folder}/login_check.txt") or ""
    failed = dict(line.partition(" ")[::2] for line in text.splitlines())
    if failed:
        aliases = {hostfile.alias(i): peer for i, peer in enumerate(cluster.peers)}
        outcomes = {peer.name: failed.get(alias, "ok") for alias, peer in aliases.items()}
        raise HostsNotReady(
            f"{cluster.chief} cannot log in to every host",
            outcomes,
            hint=login_hint(failed.values()),
        )


def login_hint(reasons: Iterable[str]) -> Hint:
    """What to do, according to ssh's output: a refused key is not a problem of the network."""
    text = " ".join(reasons)
    if "Permission denied" in text:
        return Hint(
            Command("bootstrap"),
            " installs the ed25519 key; if it is refused, check AllowUsers, AuthorizedKeysFile and"
            " PubkeyAcceptedAlgorithms in sshd_config",
        )
    if "Host key verification failed" in text or "IDENTIFICATION HAS CHANGED" in text:
        return Hint(
            Command("trust"),
            "   # a host's key differs between the chief and this computer",
        )
    return Hint("let it reach their sshd, or give addresses: --peer-address a,b")


def remove_run(sessions: Mapping[str, Session], run: Run) -> None:
    """Remove the files of a run, including secrets, from the hosts that can be reached."""
    for session in sessions.values():
        with contextlib.suppress(Exception):
            session.call(DropTemporary(run.run_id))
            session.remove(run.folder)


def free_ports(cluster: ConnectedCluster, processes: Sequence[int]) -> list[int]:
    """A free port for each process of each host; `processes`: their number on each host."""
    requests = network.port_requests(cluster, processes)
    replies = _replies(cluster, requests, "finding free ports")
    free = {name: reply.ports for name, reply in replies.items()}
    return network.chosen_ports(cluster, processes, free)


def processes_of(request: RunRequest, cluster: SurveyedCluster) -> list[int]:
    """The number of the run's processes on each host."""
    return [len(roles) for roles in launch.placement_of(request.options, cluster.peers)]


def document_of(
    run_id: str,
    cluster: ConnectedCluster,
    request: RunRequest,
    data: Sequence[RunData],
    stop_policy: launch.StopPolicy,
    ports: Sequence[int],
) -> RunDocument:
    """run.json for these hosts; `ports`: one for each process."""
    now = datetime.now(timezone.utc)
    environment = cluster.environment
    return launch.run_document(
        run_id=run_id,
        cluster=cluster.inventory.name,
        created=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        options=request.options,
        program=request.program,
        data=data,
        runtime=Runtime(environment.runtime.name, environment.digest, environment.python),
        bundle=request.bundle.digest,
        peers=cluster.peers,
        links=hostfile.links(cluster.peers, cluster.facts),
        ports=ports,
        stop_policy=stop_policy,
        stops=_stops(cluster.inventory),
        bucket=_bucket(cluster),
        gpus={name: facts.gpus for name, facts in cluster.facts.items()},
        commit=request.commit,
        grid=grid_of(cluster.inventory.cloud, cluster.inventory.region),
        prices=cluster.inventory.price.parts if cluster.inventory.price else (),
    )


def _bucket(cluster: SurveyedCluster) -> RunBucket | None:
    """The bucket for the results, if the stack has one."""
    url, client = cluster.inventory.bucket, cluster.bucket_client
    return RunBucket(url, client.digest) if url and client else None


def _stops(inventory: Inventory) -> list[tuple[str, ...] | None]:
    """The stop command of each host; empty for hosts without a stack."""
    return [host.stop for host in inventory.hosts] if inventory.is_managed else []


def document_file(run: Run, name: str, document: RunDocument) -> TextFile:
    """A file in the run's folder with its document."""
    return TextFile(f"{run.folder}/{name}", json.dumps(encode(document), indent=1) + "\n")


def write_program(
    session: Session,
    request: RunRequest,
    document: RunDocument,
    run: Run,
    more: Sequence[TextFile] = (),
    begins: Sequence[Request[Any, Any]] = (),
) -> list[Any]:
    """Write the run's folder on one host: the files that start a rank, and `more`. Returns the
    replies to `begins`: operations that need these files, but not the program."""
    if document.keras_auto:
        files = json.dumps(encode(request.bundle.files))
        more = (*more, TextFile(f"{run.folder}/{BUNDLE}", files))
    starting = (
        document_file(run, "run.json", document),
        TextFile(f"{run.folder}/rank.sh", rank_starter(document), 0o755),
        *(TextFile(f"{run.folder}/{n}/.keep", "") for n in ("results", "logs", "checkpoints")),
        *more,
    )
    _, _, *replies = session.call_all(Write(starting), PlacePrograms(run.folder), *begins)
    return replies


def send_program(session: Session, request: RunRequest, document: RunDocument, run: Run) -> None:
    """Send the program to the run's folder on one host."""
    if needs_reader(document):
        session.send_tree(pack_training(REPO), f"{run.folder}/reader")
    session.send_tree(request.bundle, f"{run.folder}/work")


def needs_reader(document: RunDocument) -> bool:
    """Whether the ranks of a script read a bucket or a stream, with `training.data`."""
    reads = any(not item.paths or item.mode == "stream" for item in document.data)
    return reads and isinstance(document.program, Script)


# TMPDIR is the real path, which is short. OpenMPI's shared memory is removed with `memory`.
OWN_FOLDERS = """tmp=$(readlink {folder}/tmp) && export TMPDIR="$tmp"
memory=$(readlink {folder}/memory)
case $memory in /dev/shm/*) export OMPI_MCA_btl_vader_backing_directory="$memory";; esac"""


def rank_starter(document: RunDocument) -> str:
    """rank.sh: starts the runtime's Python with rank/rank.py, in the program's folder.

    It sets the variables of --env: PYTHONPATH, LD_PRELOAD and others have an effect only at the
    start of a process. PYTHONHOME of the host's user is for another Python.
    """
    exports = [f"export {name}={shlex.quote(value)}" for name, value in document.env.items()]
    python = f'"$HOME/.railhead/envs/{document.runtime.digest}/bin/python"'
    folder = f'"$HOME/.railhead/runs/{document.run_id}"'
    lines = [OWN_FOLDERS.format(folder=folder), f"cd {folder}/work || exit 1"]
    lines += ["unset PYTHONHOME", "export PYTHONUNBUFFERED=1", *exports]
    return "\n".join([*lines, f"exec {python} {folder}/{NAME} {RANK} {folder}\n"])


def chief_files(cluster: SurveyedCluster, document: RunDocument, run: Run) -> list[TextFile]:
    """The files for mpirun on the chief: its command, the hosts, and how to reach them."""
    home = cluster.facts[cluster.chief].home
    folder = f"{home}/.railhead/runs/{run.run_id}"
    argv = launch.mpirun_argv(
        run.run_id,
        size=document.size,
        run_folder=folder,
        networks=hostfile.networks(cluster.peers, cluster.facts),
        series=open_mpi.series(cluster.facts[cluster.chief]),
    )
    slots = [host.slots for host in document.hosts]
    return [
        TextFile(f"{run.folder}/mpirun.json", json.dumps(argv)),
        TextFile(f"{run.folder}/hostfile", hostfile.hostfile(slots)),
        TextFile(f"{run.folder}/{launch.SSH}", launch.SSH_FOR_ANY_SHELL),
        *login_files(cluster, run),
    ]


def login_files(cluster: SurveyedCluster, run: Run) -> list[TextFile]:
    """The files for ssh on the chief."""
    home = cluster.facts[cluster.chief].home
    pins = f"{home}/.railhead/runs/{run.run_id}/known_hosts"
    config = hostfile.ssh_config(cluster.peers, key=f"{home}/.railhead/cluster/key", pins=pins)
    return [
        TextFile(f"{run.folder}/ssh_config", config),
        TextFile(f"{run.folder}/known_hosts", hostfile.known_hosts(cluster.peers)),
    ]
