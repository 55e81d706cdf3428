"""SSH hosts on this computer: real sshd processes on loopback addresses, for demo and tests.

`python -m bootstrap.clouds.local start|stop|read|remove|check` is the command line, with JSON on
stdout: stacks/local.py makes one resource of each host. It can stop only these sshd and
their children.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from railhead.documents.codec import encode
from railhead.documents.lazy import dataclass

from ...errors import RailheadError, UsageError
from ...inventory import local_state
from ...inventory.files import atomic_write
from ...inventory.hosts import Host, Inventory
from ...inventory.owner import account
from . import host as local_host
from . import processes
from .host import LocalHost
from .processes import Ended


def start(cluster: str, count: int) -> Inventory:
    """Start those of `count` hosts that are not running, and record the cluster. UsageError: this
    is not Linux, or sshd is missing."""
    return start_hosts(cluster, [f"h{i}" for i in range(1, count + 1)])


def start_again(cluster: str) -> None:
    """Start the recorded hosts of a cluster that do not run, at the addresses that they have.
    UsageError: no such cluster is recorded; or as in `start`."""

    def hosts_in(folder: Path) -> list[LocalHost]:
        return [local_host.make(folder, h.name, h.address) for h in existing(cluster)]

    _start(cluster, hosts_in, [host.name for host in existing(cluster)])


def start_hosts(cluster: str, names: Sequence[str]) -> Inventory:
    """Start hosts (h1 to h254) in addition to the cluster's other hosts, and record them.
    UsageError: a name is not that of a local host; or as in `start`."""

    def hosts_in(folder: Path) -> list[LocalHost]:
        others = [host for host in _recorded(cluster) if host.name not in names]
        made = [_make_host(folder, name) for name in names]
        return sorted([*others, *made], key=lambda host: _index(host.name))

    for name in names:
        _index(name)
    _recorded(cluster)
    return _start(cluster, hosts_in, names)


def _start(
    cluster: str, hosts_in: Callable[[Path], list[LocalHost]], names: Sequence[str]
) -> Inventory:
    """Record the hosts of a cluster's folder, and start those with these names."""
    local_host.program()
    account()
    _refuse_spaces(local_state.cluster_folder(cluster))
    with local_state.alone_in(cluster) as folder:
        hosts = hosts_in(folder)
        inventory = _record(cluster, folder, hosts)
        starting = [host for host in hosts if host.name in names]
        for host in starting:
            if host.pid is None:
                local_host.run(host)
    for host in starting:
        local_host.wait_for(host)
    return inventory


def _refuse_spaces(folder: Path) -> None:
    """UsageError for a folder in which no local host could train."""
    if re.search(r"\s", str(folder)):
        raise UsageError(
            f"local hosts cannot be in {folder}: Open MPI splits a path at its spaces",
            hint="set HOME to a folder without spaces, for this command and those that follow",
        )


def _index(name: str) -> int:
    if not re.fullmatch(r"h[1-9]\d{0,2}", name) or int(name[1:]) > 254:
        raise UsageError(f"{name!r} is not the name of a local host: h1 to h254")
    return int(name[1:])


def _make_host(folder: Path, name: str) -> LocalHost:
    local_host.make_key(folder / "key", f"railhead-local:{folder.name}")
    return local_host.make(folder, name, local_host.address(folder.name, _index(name)))


def _record(cluster: str, folder: Path, hosts: list[LocalHost]) -> Inventory:
    """Record the cluster, and pin its host keys."""
    inventory = Inventory(
        name=cluster,
        cloud="local",
        key_file=str(folder / "key"),
        hosts=tuple(_entry(cluster, host) for host in hosts),
    )
    local_state.save_cluster(inventory)
    lines = [f"[{h.address}]:{h.port} {h.public_key}\n" for h in hosts]
    atomic_write(folder / "known_hosts", "".join(lines))
    return inventory


def _entry(cluster: str, host: LocalHost) -> Host:
    return Host(
        name=host.name,
        address=host.address,
        peer_address=host.address,
        user=getpass.getuser(),
        port=host.port,
        slots=1,
        id=f"{cluster}/{host.name}",
        host_key=host.public_key,
        stop=processes.argv(host.folder),
    )


def existing(cluster: str) -> list[LocalHost]:
    """The local hosts of a cluster, running or not, from its record. UsageError: no cluster of this
    name is recorded, or its hosts are not local."""
    folder = local_state.cluster_folder(cluster) / "hosts"
    recorded = local_state.load_cluster(cluster)
    if not recorded.kind.this_machine:
        where = "ad-hoc hosts" if recorded.is_ad_hoc else f"one of {recorded.cloud}"
        raise UsageError(f"cluster {cluster!r} is {where}, not of this computer")
    return [LocalHost(h.name, folder / h.name, h.address, h.port or 0) for h in recorded.hosts]


def _recorded(cluster: str) -> list[LocalHost]:
    return existing(cluster) if cluster in local_state.clusters() else []


def _select(cluster: str, names: list[str] | None) -> list[LocalHost]:
    hosts = {host.name: host for host in existing(cluster)}
    if unknown := set(names or ()) - hosts.keys():
        raise UsageError(f"{cluster} has no host {min(unknown)!r}; it has {', '.join(hosts)}")
    return [hosts[name] for name in names or hosts]


def stop(cluster: str, names: list[str] | None = None) -> dict[str, Ended]:
    """End every process of the hosts; returns the outcome by host name."""
    return {host.name: processes.end(host.folder) for host in _select(cluster, names)}


@dataclass(frozen=True)
class HostState:
    """Whether a host runs, and where it listens."""

    running: bool
    address: str
    port: int


def read(cluster: str) -> dict[str, HostState]:
    """The state of each host by its name."""
    return {h.name: HostState(h.pid is not None, h.address, h.port) for h in existing(cluster)}


def remove(cluster: str, names: list[str]) -> dict[str, Ended]:
    """Stop hosts and delete their folders; with the last one also the cluster's keys and record. A
    host that does not exist counts as removed. The records of runs stay. RailheadError: some of a
    host's processes still run; the host stays."""
    results = {}
    with local_state.alone_in(cluster) as folder:
        remaining = {host.name: host for host in _recorded(cluster)}
        for name in [name for name in names if name in remaining]:
            results[name] = processes.end(remaining[name].folder)
            if pids := results[name].left:
                raise RailheadError(f"{name}: processes {[*pids]} still run")
            if (home := remaining.pop(name).folder).exists():
                shutil.rmtree(home)
        if results and remaining:
            _record(cluster, folder, list(remaining.values()))
    if not remaining:
        _forget(cluster, folder)
    return results


def _forget(cluster: str, folder: Path) -> None:
    local_state.forget_cluster(cluster)
    for name in ("key", "key.pub", "known_hosts", "lock"):
        (folder / name).unlink(missing_ok=True)
    for empty in (folder / "hosts", folder):
        with contextlib.suppress(OSError):
            empty.rmdir()


def destroy(cluster: str) -> None:
    """Stop the hosts and delete their folders and the record."""
    stop(cluster)
    shutil.rmtree(local_state.cluster_folder(cluster))


USAGE = "python -m bootstrap.clouds.local start|stop|read|remove|check CLUSTER [HOST...]"


def main(argv: list[str]) -> int:
    """Print JSON and return 0; or print an error on stderr and return its exit code."""
    try:
        print(json.dumps(encode(_answer(*argv))))
    except RailheadError as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


def _answer(verb: str = "", cluster: str = "", *names: str) -> Any:
    if verb == "start":
        from ...inventory.document import to_document

        return to_document(start_hosts(cluster, names))
    if verb == "stop":
        return stop(cluster, list(names))
    if verb == "read":  # None for a host that does not exist
        states = read(cluster) if _recorded(cluster) else {}
        return {name: states.get(name) for name in names}
    if verb == "remove":
        return remove(cluster, list(names))
    if verb == "check":
        return {"sshd": local_host.program(), "hosts": [host.name for host in _recorded(cluster)]}
    raise UsageError(f"{verb!r} is not one of: start, stop, read, remove, check", hint=USAGE)
