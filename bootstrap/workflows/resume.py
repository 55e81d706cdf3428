"""`fab train --resume RUN`: finds the request and the checkpoints of the earlier run, before
anything is started."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from railhead.documents.options.runs import ProgramOptions, StartOptions
from railhead.documents.runs.run import Script

from ..clouds.bucket import bucket_of
from ..console.output import print_lines
from ..errors import Command, Hint, RailheadError, UsageError
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..runs import checkpoints, restore
from ..runs.earlier_run import EarlierRun, changed_program, resumed_request, unsure_keras
from ..runs.failures.retries import elastic_hosts, retries_of, without_checkpoints
from ..runs.launch import Retries
from ..runs.request import RunRequest, read_request
from ..runs.restore import CheckpointSource
from ..runs.run import Run
from ..runs.start import Restore
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import everywhere, open_sessions, start_agent


def request_for(
    typed: ProgramOptions, earlier: EarlierRun | None
) -> tuple[RunRequest, ProgramOptions]:
    """The request for a run with these options; with an earlier run, the request that continues it,
    and its options. Prints whether the program of that run has changed.

    Raises:
        UsageError: an option is not valid, or contradicts the earlier run.
    """
    if earlier is None:
        return read_request(typed), typed
    request, args = resumed_request(earlier, typed)
    print_lines(*changed_program(earlier, request), *unsure_keras(earlier, typed))
    return request, args


def with_retries(
    request: RunRequest, earlier: EarlierRun | None, begin: StartOptions
) -> tuple[RunRequest, list[str]]:
    """The request with the retries of its run, and what the user should know about them.

    Raises:
        UsageError: the program of the run has changed, or the run cannot use these hosts.
    """
    wanted = begin.retries
    lines, changed = [], bool(earlier and changed_program(earlier, request))
    if changed and wanted:
        assert earlier
        raise UsageError(
            f"--retries {wanted}: the program has changed since run {earlier.run.run_id}, whose"
            " checkpoints it did not write",
            hint=Hint(Command("train", resume=earlier.run.run_id, retries=0), "   # or a new run"),
        )
    chosen = Retries() if changed else retries_of(request.program, wanted)
    if wanted and (why := without_checkpoints(request.program)):
        lines.append(f"--retries {wanted}: {why}, a retry starts at step 0")
    if begin.elastic is not None:
        chosen = replace(chosen, hosts=elastic_hosts(begin.elastic, chosen, request.data))
    chosen = replace(chosen, takeover=begin.takeover, spare=begin.spare)
    return replace(request, options=replace(request.options, retries=chosen)), lines


def find_checkpoints(cluster: ConnectedCluster, earlier: EarlierRun) -> Restore:
    """Find the newest checkpoints on the hosts and in the bucket (if several are equal, the
    chief's), or those on this computer; returns the function that places them.

    Raises:
        UsageError: there are none.
    """
    inventory = cluster.inventory
    source = restore.newest(_on_hosts_and_in_bucket(cluster, earlier.run))
    if source is None:
        _bring_from_other_cluster(inventory, earlier)
        local = checkpoints.here(earlier.run)
        if not local.files:
            places = [f"on {', '.join(inventory.names)}", local.place]
            bucket = [f"in {inventory.bucket}"] if inventory.bucket else []
            raise checkpoints.refuse_none(earlier.run, [places[0], *bucket, places[1]])
        source = CheckpointSource(earlier.run, local, "here")
    is_script = isinstance(earlier.document.program, Script)
    return partial(restore.place, source=source, everywhere_needed=is_script)


def _on_hosts_and_in_bucket(cluster: ConnectedCluster, run: Run) -> list[CheckpointSource]:
    """The places with checkpoints, the chief first. If the bucket cannot be reached, this is an
    error only if no host has checkpoints."""
    on_hosts = _on_hosts(cluster, run)
    try:
        return [*on_hosts, *_in_bucket(cluster.inventory, run)]
    except RailheadError as error:
        if not on_hosts:
            raise
        _report_out_of_reach(cluster.inventory.bucket, error)
        return on_hosts


def _report_out_of_reach(place: str | None, error: RailheadError) -> None:
    print_lines(f"checkpoints of {place} cannot be reached: {error.message}")


def _on_hosts(cluster: ConnectedCluster, run: Run) -> list[CheckpointSource]:
    look = partial(checkpoints.on_host_without_agent, run=run)
    by_host = everywhere(cluster.sessions, look, what="looking for checkpoints")
    return [
        CheckpointSource(run, by_host[name], "host", name)
        for name in by_host
        if by_host[name].files
    ]


def _in_bucket(inventory: Inventory, run: Run) -> list[CheckpointSource]:
    if not inventory.bucket:
        return []
    uploaded = checkpoints.in_bucket(bucket_of(inventory), run)
    return [CheckpointSource(run, uploaded, "bucket")] if uploaded.files else []


def _bring_from_other_cluster(inventory: Inventory, earlier: EarlierRun) -> None:
    """Fetch the newest checkpoint from the cluster where the run was, if that is another one: from
    its chief or from its bucket."""
    if earlier.cluster == inventory.name or earlier.cluster not in local_state.clusters():
        return
    other, run = local_state.load_cluster(earlier.cluster), earlier.run
    uploaded: list[CheckpointSource] = []
    with _out_of_reach_is_reported(other.bucket):
        uploaded = _in_bucket(other, run)
    with _out_of_reach_is_reported(other.name):
        if _brought_from_chief(other, run, uploaded):
            return
    if uploaded:
        with _out_of_reach_is_reported(other.bucket):
            checkpoints.fetch_from_bucket(bucket_of(other), run, print_lines)


@contextmanager
def _out_of_reach_is_reported(place: str | None) -> Iterator[None]:
    """Print an error as a line: there are other places."""
    try:
        yield
    except RailheadError as error:
        _report_out_of_reach(place, error)


def _brought_from_chief(other: Inventory, run: Run, uploaded: Sequence[CheckpointSource]) -> bool:
    """Fetch the checkpoints of the chief if they are the newest; returns whether they are."""
    with open_sessions(other.only([run.part_of(other).chief.name])) as sessions:
        if not sessions:
            raise RailheadError("; ".join(sessions.reasons.values()))
        chief = sessions.chief
        start_agent(chief)
        newest = checkpoints.on_host(chief, run)
        on_chief = [CheckpointSource(run, newest, "host", chief.host.name)] if newest.files else []
        counts = restore.newest([*on_chief, *uploaded]) in on_chief
        if counts:
            checkpoints.fetch_from_host(chief, run, print_lines)
        return counts
