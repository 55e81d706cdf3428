"""Makes the data of a run available on all hosts, and describes it for run.json."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bootstrap.console.live import Board
from bootstrap.console.output import print_lines
from bootstrap.data import folders
from bootstrap.data.folders import LocalData
from bootstrap.data.send import Progress, find_missing, folder_of, send_missing
from bootstrap.data.spec import DataSpec
from bootstrap.errors import HostsNotReady, UsageError
from bootstrap.inventory.hosts import Inventory
from bootstrap.ssh.connect import everywhere
from bootstrap.ssh.session import Session

STATES = {
    "missing": "there is no {path}",
    "unreadable": "{path} cannot be read",
    "empty": "{path} is an empty folder",
}


@dataclass(frozen=True)
class DataInput:
    """One `--data` option, with its files if it is local."""

    spec: DataSpec
    files: LocalData | None = None

    def share(self, index: int, hosts: int) -> LocalData:
        """The local files for one host: all, or its share."""
        assert self.files is not None
        return self.files.share(index, hosts) if self.spec.distribution == "shard" else self.files

    def document(self, paths: Sequence[str] | None) -> dict[str, Any]:
        """An entry of `data` in run.json."""
        return {
            "name": self.spec.name,
            "uri": self.spec.uri,
            "distribution": self.spec.distribution,
            "mode": self.spec.mode,
            "paths": list(paths) if paths else None,
        }


def read_inputs(specs: Sequence[DataSpec]) -> tuple[DataInput, ...]:
    """The inputs with the names and sizes of local files, before a host is contacted."""
    return tuple(
        DataInput(spec, folders.listed(Path(spec.path), f"--data {spec.name}"))
        if spec.kind == "local"
        else DataInput(spec)
        for spec in specs
    )


def check_shares(inputs: Sequence[DataInput], hosts: int) -> None:
    """UsageError if local data to shard has fewer files than there are hosts."""
    for item in inputs:
        if item.files and item.spec.distribution == "shard" and len(item.files.files) < hosts:
            raise UsageError(
                f"--data {item.spec.name}: shard gives file i to host i modulo {hosts}, and there"
                f" are only {len(item.files.files)} files for {hosts} hosts",
                hint=f"--data {item.spec.name}={item.spec.uri}   # every host gets all files",
            )


def place_data(
    inputs: Sequence[DataInput], inventory: Inventory, opened: Mapping[str, Session]
) -> list[dict[str, Any]]:
    """Check data that is on the hosts, send local data that they lack; returns `data` of run.json.

    Raises:
        HostsNotReady: a path does not exist on a host, or a host has too little space.
        HostsFailed: sending failed on a host.
    """
    check_host_paths(inputs, opened)
    inputs = [replace(item, files=_hashed(item)) for item in inputs]
    local = [item for item in inputs if item.files]
    shares = {
        name: {item.spec.name: item.share(index, len(opened)) for item in local}
        for index, name in enumerate(opened)
    }
    if local:
        lacks = find_missing(shares, opened)
        with Board(sys.stdout, tuple(opened)) as board:
            send_missing(shares, opened, lacks, board)
        _report_present(shares, {name: lack.names for name, lack in lacks.items()})
    return [item.document(_paths(item, shares, len(opened))) for item in inputs]


def _hashed(item: DataInput) -> LocalData | None:
    """The local files of an input with their hashes."""
    if item.files is None:
        return None
    name = f"data {item.spec.name}"
    progress = Progress(item.files.total_bytes)
    with Board(sys.stdout, (name,)) as board:
        board.line(name, f"{folders.summary(item.files)} in {item.files.root}")
        return folders.hashed(
            item.files, lambda done: board.line(name, f"read {progress.add(done - progress.done)}")
        )


def _report_present(
    shares: Mapping[str, Mapping[str, LocalData]], lacks: Mapping[str, Sequence[str]]
) -> None:
    """One line for each name that no host lacked."""
    for item, data in next(iter(shares.values())).items():
        if all(item not in names for names in lacks.values()):
            print_lines(f"data {item}: {folders.summary(data)}, already on all hosts")


def _paths(
    item: DataInput, shares: Mapping[str, Mapping[str, LocalData]], hosts: int
) -> list[str] | None:
    """The path of the data on each host; None for data that the hosts read from a bucket."""
    if item.spec.kind == "host":
        return [item.spec.path] * hosts
    if item.files is None:
        return None
    return [folder_of(share[item.spec.name]) for share in shares.values()]


def check_host_paths(inputs: Sequence[DataInput], opened: Mapping[str, Session]) -> None:
    """HostsNotReady names each host on which the path of a `host:` input cannot be used."""
    paths = [item.spec.path for item in inputs if item.spec.kind == "host"]
    if not paths:
        return
    found = everywhere(
        opened,
        lambda session: session.call("paths_state", paths=paths),
        what="looking for the data",
        error=HostsNotReady,
    )
    outcomes = {
        name: "\n".join(
            STATES[state].format(path=path) for path, state in states.items() if state in STATES
        )
        for name, states in found.items()
    }
    if any(outcomes.values()):
        raise HostsNotReady(
            f"--data host:{paths[0]} must be on all hosts"
            if len(paths) == 1
            else "data of --data host: must be on all hosts",
            {name: text or "ok" for name, text in outcomes.items()},
            hint="put it there, or name a folder of this machine: it is sent once",
        )
