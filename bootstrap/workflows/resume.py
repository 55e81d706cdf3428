"""`fab train --resume RUN`: the request of the run again, and its checkpoints, before anything is
started."""

from __future__ import annotations

from functools import partial

from bootstrap.clouds.bucket import bucket_of
from bootstrap.console.output import print_lines
from bootstrap.errors import RailheadError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.runs import checkpoints, restore
from bootstrap.runs.earlier_run import EarlierRun, changed_program, resumed_request
from bootstrap.runs.request import RunRequest, TrainArgs, read_request
from bootstrap.runs.restore import Source
from bootstrap.runs.run import Run
from bootstrap.runs.start import Restore
from bootstrap.ssh.cluster import ConnectedCluster
from bootstrap.ssh.connect import everywhere, open_sessions, start_agent


def request_for(given: TrainArgs, earlier: EarlierRun | None) -> tuple[RunRequest, TrainArgs]:
    """The request for a run with these options; with an earlier run, the request that goes on from
    it, with its options. Prints whether the program of that run has changed.

    Raises:
        UsageError: an option is not valid, or contradicts the earlier run.
    """
    if earlier is None:
        return read_request(given), given
    request, args = resumed_request(earlier, given)
    print_lines(*changed_program(earlier, request))
    return request, args


def find_checkpoints(cluster: ConnectedCluster, earlier: EarlierRun) -> Restore:
    """Find them on the hosts (the chief first), else in the bucket, else on this machine; returns
    what places them.

    Raises:
        UsageError: there are none.
    """
    inventory = cluster.inventory
    source = _on_hosts(cluster, earlier.run) or _in_bucket(inventory, earlier.run)
    if source is None:
        _bring_from_other_cluster(inventory, earlier)
        found = checkpoints.here(earlier.run)
        if not found.files:
            places = [f"on {', '.join(inventory.names)}", found.place]
            bucket = [f"in {inventory.bucket}"] if inventory.bucket else []
            raise checkpoints.refuse_none(earlier.run, [places[0], *bucket, places[1]])
        source = Source(earlier.run, found, "here")
    is_script = earlier.document["program"]["kind"] == "script"
    return partial(restore.place, source=source, everywhere_needed=is_script)


def _on_hosts(cluster: ConnectedCluster, run: Run) -> Source | None:
    """The checkpoints on the first host that has any."""
    look = partial(checkpoints.on_host_without_agent, run=run)
    found = everywhere(cluster.sessions, look, what="looking for checkpoints")
    hosts = [name for name in found if found[name].files]
    return Source(run, found[hosts[0]], "host", hosts[0]) if hosts else None


def _in_bucket(inventory: Inventory, run: Run) -> Source | None:
    if not inventory.bucket:
        return None
    found = checkpoints.in_bucket(bucket_of(inventory), run)
    return Source(run, found, "bucket") if found.files else None


def _bring_from_other_cluster(inventory: Inventory, earlier: EarlierRun) -> None:
    """Bring the checkpoints here from the cluster where the run was, if that is another one."""
    if earlier.cluster == inventory.name or earlier.cluster not in local_state.clusters():
        return
    other = local_state.load_cluster(earlier.cluster)
    try:
        source = bucket_of(other) if other.bucket else None
        if source and checkpoints.in_bucket(source, earlier.run).files:
            checkpoints.fetch_from_bucket(source, earlier.run, print_lines)
        else:
            _bring_from_chief(other, earlier.run)
    except RailheadError as error:
        print_lines(f"checkpoints of {other.name} are out of reach: {error.message}")


def _bring_from_chief(other: Inventory, run: Run) -> None:
    with open_sessions(other.only([run.part_of(other).chief.name])) as sessions:
        if not sessions:
            raise RailheadError("; ".join(sessions.reasons.values()))
        start_agent(sessions.chief)
        if checkpoints.on_host(sessions.chief, run).files:
            checkpoints.fetch_from_host(sessions.chief, run, print_lines)
