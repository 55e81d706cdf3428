"""Returns a host that was created again to a run in progress.

The new host gets the run's files first, and only then does the chief get its address and key: until
then no host answers the supervisor's checks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from railhead.documents.agent.files import TextFile
from railhead.documents.runs.run import RunDocument

from ..errors import Command, Hint, HostsNotReady, RailheadError, UsageError
from ..host.base.programs import REPLACING, SUPERVISOR, WHOLE
from ..plan import hostfile
from ..plan.hostfile import Link, Peer
from ..ssh.cluster import ConnectedCluster
from ..ssh.session import Session
from ..untrusted.run_files import read_run_document
from . import launch, start, strategies, takeover
from .request import RunRequest
from .run import Run, read_state

# A second command adds its pid to those that still run.
ANNOUNCE = (
    f"for p in $(cat {REPLACING} 2>/dev/null); do kill -0 $p 2>/dev/null && echo $p; done"
    f" >{REPLACING}.new; echo $PPID >>{REPLACING}.new; mv {REPLACING}.new {REPLACING}"
)


def is_in_progress(chief: Session, run: Run) -> bool:
    """Whether the supervisor of a run works on its chief."""
    state = read_state(chief, run)
    return bool(
        state and not state.has_ended and chief.is_running(state.pid, run.folder, SUPERVISOR)
    )


def ended(run: Run, name: str, target: Mapping[str, str]) -> RailheadError:
    """The error if the run has ended before it could take this host back."""
    return RailheadError(
        f"run {run.run_id} has ended; the new machine {name} runs", hint=Command("stop", **target)
    )


def announce(chief: Session, run: Run) -> None:
    """Make the supervisor wait for its host as long as the agent of this connection lives."""
    chief.run(["sh", "-c", ANNOUNCE], cwd=run.folder)


def document_of(chief: Session, run: Run) -> RunDocument:
    """The document of a run with all of its hosts, from its chief.

    Raises:
        UsageError: the chief has none.
    """
    for name in (WHOLE, "run.json"):
        if text := chief.read(f"{run.folder}/{name}"):
            return read_run_document(text)
    raise UsageError(f"run {run.run_id} is no longer on its chief", hint=Command("status"))


def require_same(document: RunDocument, request: RunRequest) -> None:
    """UsageError if the program here differs from the run's: the new host would have another
    one."""
    if request.bundle.digest != document.bundle:
        raise UsageError(
            f"the program has changed since run {document.run_id} was started: the other hosts have"
            " its earlier files",
            hint=Hint(
                "restore its files and type the command again; or: ",
                Command("train", resume=document.run_id),
                "   # after the run has ended",
            ),
        )


def hand_over(cluster: ConnectedCluster, request: RunRequest, run: Run, name: str) -> None:
    """Send the files of a run to the host of this name, and its new address and key to the chief.

    Raises:
        HostsNotReady: the host's runtime is not the run's, or the chief cannot log in there.
        RailheadError: the run has ended meanwhile.
    """
    chief, target = cluster.sessions[cluster.chief], cluster.inventory.target
    if not is_in_progress(chief, run):
        raise ended(run, name, target)
    document = document_of(chief, run)
    if cluster.environment.digest != document.runtime.digest:
        raise HostsNotReady(
            f"run {run.run_id} has a runtime other than the one that would be installed now",
            {name: f"{cluster.environment.runtime.name}, {cluster.environment.digest}"},
            hint=Hint(Command("train", resume=run.run_id), "   # after the run has ended"),
        )
    index = [peer.name for peer in cluster.peers].index(name)
    link = hostfile.links(cluster.peers, cluster.facts)[index]
    of_host = (cluster.peers[index], link, cluster.facts[name].gpus)
    renewed = with_host(document, *of_host)
    start.write_program(cluster.sessions[name], request, renewed, run)
    start.send_program(cluster.sessions[name], request, renewed, run)
    if takeover.standby_of(run) not in ("", name):
        second = takeover.as_standby(cluster)
        known = document_of(second.sessions[second.chief], run)
        _tell_lead(second, with_host(known, *of_host), run)
    _tell_lead(cluster, renewed, run)
    start.check_logins(cluster, run)
    if not is_in_progress(chief, run):
        raise ended(run, name, target)


def _tell_lead(cluster: ConnectedCluster, document: RunDocument, run: Run) -> None:
    """Write the files of the chief, or of its standby, that name the host; last the files that make
    the host reachable."""
    chief = cluster.sessions[cluster.chief]
    networks = hostfile.networks(cluster.peers, cluster.facts)
    chief.write(start.document_file(run, WHOLE, document))
    # Read as late as possible: the supervisor writes the number of ranks into it.
    argv: list[str] = json.loads(chief.read(f"{run.folder}/mpirun.json") or "[]")
    chief.write(TextFile(f"{run.folder}/mpirun.json", json.dumps(with_networks(argv, networks))))
    files = {
        file.path.rpartition("/")[2]: file for file in start.chief_files(cluster, document, run)
    }
    for file in ("known_hosts", "ssh_config"):
        chief.write(files[file])


def with_networks(argv: Sequence[str], networks: str) -> list[str]:
    """The mpirun command with other networks. Pure."""
    words = [*argv]
    for name in launch.NETWORKS:
        if name in words:
            at = words.index(name)
            del words[at - 1 : at + 2]
    if "--mca" not in words:  # there is no command yet
        return words
    at = words.index("--mca")
    series = "5.0" if "prte_launch_agent" in words else "4.1"
    return [*words[:at], *launch.network_options(networks, series), *words[at:]]


def with_host(run: RunDocument, peer: Peer, link: Link, gpus: tuple[str, ...] = ()) -> RunDocument:
    """The document with the new address of one host; ranks, ports and everything else stay.
    Pure."""
    index = [host.name for host in run.hosts].index(peer.name)
    host = replace(run.hosts[index], peer_address=peer.address, interface=link.device, gpus=gpus)
    hosts = tuple(host if n == index else other for n, other in enumerate(run.hosts))
    return replace(run, hosts=hosts, tf_cluster=_addresses(run, index, peer.address))


def _addresses(run: RunDocument, index: int, address: str) -> Mapping[str, tuple[str, ...]] | None:
    """`tf_cluster` with another address for the ranks of a host."""
    if run.roles is None or run.tf_cluster is None:
        return run.tf_cluster
    addresses = {name: [*of_type] for name, of_type in run.tf_cluster.items()}
    for rank in run.ranks_of(index):
        role = run.roles[rank]
        port = addresses[role.type][role.index].rpartition(":")[2]
        addresses[role.type][role.index] = strategies.endpoint(address, int(port))
    return {name: tuple(of_type) for name, of_type in addresses.items()}
