"""Makes the data of a run available on all hosts, and describes it for run.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from railhead.documents.agent.data import PathsState
from railhead.documents.runs.run import RunData

from ..console.live import board_of
from ..console.output import print_lines
from ..console.progress import Transfer
from ..errors import HostsNotReady
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import Sessions, everywhere
from . import folders
from .folders import LocalData
from .inputs import DataInput
from .send import find_missing, host_folder_of, send_missing
from .through_bucket import upload_missing

STATES = {
    "missing": "there is no {path}",
    "unreadable": "{path} cannot be read",
    "empty": "{path} is an empty folder",
}


def place_data(inputs: Sequence[DataInput], cluster: ConnectedCluster) -> list[RunData]:
    """Check data that is on the hosts, send local data that they lack; returns `data` of run.json.

    Raises:
        HostsNotReady: a path does not exist on a host, or a host has too little space.
        HostsFailed: sending failed on a host.
    """
    sessions = cluster.sessions
    check_host_paths(inputs, sessions)
    inputs = [replace(item, files=hashed_input(item)) if item.files else item for item in inputs]
    local = [item for item in inputs if item.files]
    shares = {
        name: {item.spec.name: item.share(index, len(sessions)) for item in local}
        for index, name in enumerate(sessions)
    }
    if local:
        lacks = find_missing(shares, sessions)
        downloads = upload_missing(shares, lacks, cluster)
        with board_of(tuple(sessions)) as board:
            send_missing(shares, sessions, lacks, board, downloads.fetch)
        _report_present(shares, {name: lack.names for name, lack in lacks.items()})
    return [item.in_run(_paths(item, shares, len(sessions))) for item in inputs]


def hashed_input(item: DataInput) -> LocalData:
    """The local files of an input with their hashes; shows the progress."""
    assert item.files is not None
    name = f"data {item.spec.name}"
    progress = Transfer(item.files.total_bytes)
    with board_of((name,)) as board:
        board.line(name, f"{folders.summary(item.files)} in {item.files.root}")

        def read(count: int) -> None:
            text, done = progress.reach(count)
            board.line(name, f"read {text}", done)

        return folders.hashed(item.files, read)


def _report_present(
    shares: Mapping[str, Mapping[str, LocalData]], lacks: Mapping[str, Sequence[str]]
) -> None:
    """One line for each name that no host lacked."""
    for item, data in next(iter(shares.values())).items():
        if all(item not in names for names in lacks.values()):
            print_lines(f"data {item}: {folders.summary(data)}, already on all hosts")


def _paths(item: DataInput, shares: Mapping[str, Mapping[str, LocalData]], hosts: int) -> list[str]:
    """The path of the data on each host; none for data that the hosts read from a bucket."""
    if item.spec.kind == "host":
        return [item.spec.path] * hosts
    if item.files is None:
        return []
    return [host_folder_of(share[item.spec.name]) for share in shares.values()]


def check_host_paths(inputs: Sequence[DataInput], sessions: Sessions) -> None:
    """HostsNotReady names each host on which the path of a `host:` input cannot be used."""
    paths = tuple(item.spec.path for item in inputs if item.spec.kind == "host")
    if not paths:
        return
    kinds = everywhere(
        sessions,
        lambda session: session.call(PathsState(paths)).paths,
        what="looking for the data",
        error=HostsNotReady,
    )
    outcomes = {
        name: "\n".join(
            STATES[state].format(path=path) for path, state in states.items() if state in STATES
        )
        for name, states in kinds.items()
    }
    if any(outcomes.values()):
        raise HostsNotReady(
            f"--data host:{paths[0]} must be on all hosts"
            if len(paths) == 1
            else "data of --data host: must be on all hosts",
            {name: text or "ok" for name, text in outcomes.items()},
            hint="copy it there, or name a folder on this computer: it is sent once",
        )
