"""`fab status`: the current state of the machines, the hosts and the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..clouds.base import UNKNOWN
from ..console.output import print_lines
from ..console.text import count
from ..errors import Command, HostsFailed, HostsNotReached
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..lifecycle import deadlines, power, stop_policy, timer
from ..lifecycle.stack_machines import StackMachines
from ..runs import bucket_results, checkpoints, results
from ..runs.run import find_run, state_of
from ..serving import on_host, records
from ..serving.state import status_line
from ..ssh import connect
from ..ssh.connect import start_agent
from ..ssh.local_session import HERE, local_session
from ..ssh.session import Session
from ..untrusted.unpack import Hostile

HOST_SECONDS = 180.0  # on each host, after the logins


def show(
    status: power.ClusterStatus, run_id: str | None, machines: StackMachines | None = None
) -> None:
    """Print the state of the machines, of each host, and of a run (None: the last run).

    Args:
        status: all machines, also those that the stack's output does not have.
        run_id: the run.
        machines: of a stack: which machines are where, and those of other stacks.

    Raises:
        HostsNotReached: a host whose machine runs cannot be reached.
        RailheadError: machines run without a deadline at their cloud.
    """
    error = power.print_status(status, print_lines) if status.instance_states else None
    if machines:
        print_lines(*machines.describe(), *unread_timers(status, machines))
    documented = _documented(status, machines) if machines else status
    if documented:
        _show_documented(documented, run_id)
    _show_endpoints_here()
    if error:
        raise error


def unread_timers(status: power.ClusterStatus, machines: StackMachines) -> list[str]:
    """A line for each running machine that the stack's output does not have: nobody can log in to
    it with what is known, and its timer may be its only deadline."""
    without = [n for n in machines.undocumented if n not in status.not_running]
    return [
        f"[{name}] deadline {timer.KIND}: not read: the machine is in no output of the stack"
        for name in without
    ]


def _documented(status: power.ClusterStatus, machines: StackMachines) -> power.ClusterStatus | None:
    """The status of the machines that the stack's output has; None where it has none."""
    inventory = machines.in_document
    if inventory is None:
        return None
    hosts = tuple(h for h in status.inventory.hosts if h.name in inventory.names)
    states = {n: s for n, s in status.instance_states.items() if n in inventory.names}
    return replace(status, inventory=replace(inventory, hosts=hosts), instance_states=states)


def _show_documented(status: power.ClusterStatus, run_id: str | None) -> None:
    inventory, chief = power.running_part(status), _chief(status.inventory, run_id)
    if inventory:
        power.pin_host_keys(replace(status, inventory=inventory), print_lines)
        _show_hosts(inventory, run_id, chief)
    if chief in status.not_running:
        print_lines(bucket_results.run_line(status.inventory, run_id))


def _chief(inventory: Inventory, run_id: str | None) -> str:
    """The name of the chief of the run, otherwise of the cluster."""
    if run_id is None and not local_state.runs(inventory.name):
        return inventory.chief.name
    return find_run(inventory, run_id).part_of(inventory).chief.name


def _show_hosts(inventory: Inventory, run_id: str | None, chief: str) -> None:
    with connect.open_sessions(inventory) as sessions, sessions.within(HOST_SECONDS):
        hosts, failed = connect.attempts(sessions, _host)
        sessions.drop(failed)
        for name, outcome in sessions.outcomes.items():
            print_lines(f"[{name}] {hosts.get(name, f'UNREACHABLE {outcome}')}")
        if inventory.kind.in_cloud:
            _show_timers(sessions)
        there = _endpoints_on(sessions)
        if chief in sessions:
            _show_run(inventory, sessions[chief], run_id)
        else:
            _show_lost_chief(inventory, chief, run_id)
        _show_endpoints(inventory.name, sessions, there)
    if sessions.failed:
        kind = HostsNotReached if sessions.out_of_reach else HostsFailed
        raise kind("some hosts cannot be reached", sessions.outcomes)


def _endpoints_on(sessions: connect.Sessions) -> Mapping[str, Sequence[str]]:
    """The names of the endpoints by host. A failure is printed: the run is shown anyway."""
    try:
        return connect.everywhere(sessions, on_host.names_on, what="reading the endpoints")
    except HostsFailed as error:
        print_lines(*str(error).splitlines())
        return {}


def _show_timers(sessions: connect.Sessions) -> None:
    """The timer of each machine, read there; a warning where it does not power the machine off."""
    timers = connect.everywhere(sessions, timer.read, what="reading the timers")
    for name, deadline in timers.items():
        print_lines(f"[{name}] {deadlines.describe(deadline)}")
    deadlines.report_missing(timers, print_lines)
    for name in sessions.failed:
        print_lines(f"[{name}] deadline {timer.KIND}: {UNKNOWN}: the machine cannot be reached")


def _show_endpoints(
    cluster: str | None,
    sessions: Mapping[str, Session],
    there: Mapping[str, Sequence[str]],
) -> None:
    """The endpoints that this user has deployed on these hosts, and others that are `there`: their
    names by host."""
    known = {(endpoint.host, endpoint.name): endpoint for endpoint in records.of_cluster(cluster)}
    others = [(host, name) for host, names in there.items() for name in names]
    for host, name in dict.fromkeys([*known, *others]):
        session, endpoint = sessions.get(host), known.get((host, name))
        if session is None:
            print_lines(f"endpoint {name} on {host} of {cluster}: the host is not reached")
            continue
        if not session.has_agent:
            start_agent(session)
        try:
            endpoint = endpoint or on_host.read_endpoint(session, name, cluster)
            print_lines(status_line(session, endpoint))
        except Hostile as error:
            print_lines(f"endpoint {name} on {host} of {cluster}: {error.message}")


def _show_endpoints_here() -> None:
    if records.of_cluster(None):
        with local_session() as session:
            _show_endpoints(None, {HERE: session}, {})


def _host(session: Session) -> str:
    facts = session.facts()
    runs = sorted({process.run_id for process in facts.run_processes})
    processes = count(len(facts.run_processes), "process")
    busy = f"{processes} of run {', '.join(runs)}" if runs else "no process of a run"
    return f"reachable; {count(len(facts.envs), 'runtime')}; {busy}"


def _show_lost_chief(inventory: Inventory, chief: str, run_id: str | None) -> None:
    """What happens to a run whose chief does not answer: `rank_link` ends it elsewhere."""
    if run_id is None and not local_state.runs(inventory.name):
        return
    run = find_run(inventory, run_id)
    resume = Command("train", resume=run.run_id)
    print_lines(
        f"run {run.run_id}: its chief, {chief}, is not reached; if it is lost, the other hosts end"
        f" the run within 3 minutes\n  next: {resume}   # from its checkpoints"
    )


def _show_run(inventory: Inventory, chief: Session, run_id: str | None) -> None:
    if run_id is None and not local_state.runs(inventory.name):
        print_lines("no run yet")
        return
    run = find_run(inventory, run_id)
    start_agent(chief)
    state = state_of(chief, run)
    where = results.where(run, chief.host.name)
    print_lines(f"run {run.run_id}: {state}; results {where}", *stop_policy.phase(chief, run))
    print_lines(*checkpoints.status_lines(chief, run))
