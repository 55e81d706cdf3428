"""`fab status`: the current state of the machines, the hosts and the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from railhead.documents.outputs import (
    DeadlineStatus,
    EndpointStatus,
    HostStatus,
    RunStatus,
    StatusOutput,
)
from railhead.documents.runs.manifest import Uploads

from ..clouds.base import UNKNOWN, Deadline
from ..clouds.bucket import bucket_of
from ..console.output import note_output, print_lines
from ..console.text import clean, count
from ..errors import Command, HostsFailed, HostsNotReached
from ..facts.host import HostFacts
from ..host.base.programs import WHOLE
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..lifecycle import deadlines, power, stop_policy, timer
from ..lifecycle.stack_machines import StackMachines
from ..runs import checkpoints, elsewhere, results, takeover
from ..runs.bucket import results as bucket_results
from ..runs.elsewhere import Elsewhere
from ..runs.metrics.cost import carbon_command, carbon_lines
from ..runs.run import Run, find_run, known_run, state_of
from ..serving import on_host, records
from ..serving.state import status_line
from ..ssh import connect
from ..ssh.connect import start_agent
from ..ssh.local_session import HERE, local_session
from ..ssh.session import Session
from ..untrusted.decode import parsed
from ..untrusted.run_files import read_state
from ..untrusted.unpack import Hostile

HOST_SECONDS = 180.0  # on each host, after the logins
LIST_SECONDS = 30.0


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
    report, error = StatusReport(status), None
    try:
        if status.instance_states:
            error = power.print_status(status, print_lines, report.add_deadline)
        if machines:
            print_lines(*machines.describe(), *unread_timers(status, machines))
        documented = _documented(status, machines) if machines else status
        if documented:
            _show_documented(documented, run_id, report)
        _show_endpoints_here(report)
    finally:
        note_output(report.output())
    if error:
        raise error


class StatusReport:
    """What is shown, as a document."""

    def __init__(self, status: power.ClusterStatus) -> None:
        self.cluster = status.inventory.name
        machines = {name: state.state for name, state in status.instance_states.items()}
        self.hosts = {
            name: HostStatus(name=name, machine=machines.get(name))
            for name in status.inventory.names
        }
        self.deadlines: list[DeadlineStatus] = []
        self.run: RunStatus | None = None
        self.endpoints: list[EndpointStatus] = []

    def output(self) -> StatusOutput:
        """The document."""
        return StatusOutput(
            cluster=self.cluster,
            hosts=tuple(self.hosts.values()),
            deadlines=tuple(self.deadlines),
            run=self.run,
            endpoints=tuple(self.endpoints),
        )

    def add_deadline(self, host: str, deadline: Deadline) -> None:
        """A deadline of a machine."""
        time = deadline.at.isoformat() if deadline.at else None
        status = DeadlineStatus(host=host, kind=deadline.kind, state=deadline.state, at=time)
        self.deadlines.append(status)

    def add_host(self, name: str, facts: HostFacts | None, outcome: str) -> None:
        """A host whose machine runs; without facts it was not reached."""
        self.hosts[name] = replace(
            self.hosts[name],
            reached=facts is not None,
            reason="" if facts else clean(outcome),
            runtimes=len(facts.envs) if facts else None,
            runs=_runs_on(facts) if facts else (),
        )

    def add_run(self, run: Run, state: str) -> None:
        """The run."""
        has_results = (run.results / "result.json").exists()
        folder = str(run.results) if has_results else None
        self.run = RunStatus(run_id=run.run_id, state=clean(state), results=folder)


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


def _show_documented(status: power.ClusterStatus, run_id: str | None, report: StatusReport) -> None:
    whole, running = status.inventory, power.running_part(status)
    run = known_run(whole, run_id)
    if running:
        power.pin_host_keys(replace(status, inventory=running), print_lines)
        run = _show_hosts(running, whole, run, run_id, report)
    if run is None and whole.bucket:
        listed = elsewhere.in_bucket(bucket_of(whole), run_id)
        run = listed.run if listed else None
    if run is None and run_id is not None:
        run = find_run(whole, run_id)  # raises why
    if _chief(whole, run) in status.not_running:
        line = bucket_results.run_line(whole, run)
        print_lines(line)
        if run:
            report.add_run(run, line)
    elif run is None:
        print_lines("no run yet")


def _chief(inventory: Inventory, run: Run | None) -> str:
    """The name of the chief of the run, otherwise of the cluster."""
    return (run.part_of(inventory) if run else inventory).chief.name


def _show_hosts(
    inventory: Inventory,
    whole: Inventory,
    run: Run | None,
    run_id: str | None,
    report: StatusReport,
) -> Run | None:
    """Show the hosts that run, and the run if its chief does; returns the run.

    Another computer may have started it: the last run is the newest one on the hosts.
    """
    with connect.open_sessions(inventory) as sessions, sessions.within(HOST_SECONDS):
        hosts, failed = connect.attempts(sessions, lambda session: session.facts())
        sessions.drop(failed)
        for name, outcome in sessions.outcomes.items():
            facts = hosts.get(name)
            line = _host_line(facts) if facts else f"UNREACHABLE {outcome}"
            print_lines(f"[{name}] {line}")
            report.add_host(name, facts, outcome)
        listed, there = _listed(sessions)
        if run_id is None or run is None:
            known = run.run_id if run else ""
            run = _newer(run, elsewhere.in_lists(sessions, listed, run_id, known))
        run = takeover.current_of(sessions, whole, run) if run else None
        if inventory.kind.in_cloud:
            _show_timers(sessions, report)
        chief = _chief(whole, run)
        if run and chief in sessions:
            report.add_run(run, _show_run(sessions[chief], run, hosts))
        elif run and chief in inventory.names:
            _show_lost_chief(chief, run, takeover.ready_standby(run, hosts))
            report.add_run(run, f"its chief, {chief}, is not reached")
        _show_endpoints(inventory.name, sessions, there, report, hosts)
    if sessions.failed:
        kind = HostsNotReached if sessions.out_of_reach else HostsFailed
        raise kind("some hosts cannot be reached", sessions.outcomes)
    return run


def _newer(run: Run | None, there: Elsewhere | None) -> Run | None:
    """The run that was started last: ids sort by time."""
    return there.run if there and (run is None or there.run_id > run.run_id) else run


def _listed(
    sessions: connect.Sessions,
) -> tuple[dict[str, elsewhere.Listed], dict[str, Sequence[str]]]:
    """The runs and the names of the endpoints by host. A failure is printed: what is known is shown
    anyway."""

    def lists(session: Session) -> tuple[elsewhere.Listed, Sequence[str]]:
        (runs, _), (endpoints, _) = session.shell_all(elsewhere.LIST, on_host.LIST)
        return elsewhere.read_list(runs), on_host.read_list(endpoints)

    with sessions.within(LIST_SECONDS):
        lists_by_host, failed = connect.attempts(sessions, lists)
    print_lines(*(f"[{name}] its runs and endpoints: {error}" for name, error in failed.items()))
    runs = {name: of_host for name, (of_host, _) in lists_by_host.items()}
    return runs, {name: endpoints for name, (_, endpoints) in lists_by_host.items()}


def _show_timers(sessions: connect.Sessions, report: StatusReport) -> None:
    """The timer of each machine, read there; a warning where it does not power the machine off."""
    timers = connect.everywhere(sessions, timer.read, what="reading the timers")
    for name, deadline in timers.items():
        print_lines(f"[{name}] {deadlines.describe(deadline)}")
        report.add_deadline(name, deadline)
    deadlines.report_missing(timers, print_lines)
    for name in sessions.failed:
        print_lines(f"[{name}] deadline {timer.KIND}: {UNKNOWN}: the machine cannot be reached")


def _show_endpoints(
    cluster: str | None,
    sessions: Mapping[str, Session],
    there: Mapping[str, Sequence[str]],
    report: StatusReport,
    facts: Mapping[str, HostFacts],
) -> None:
    """The endpoints that this user has deployed on these hosts, and others that are `there`: their
    names by host. `facts` of the hosts, where they are known."""
    known = {(endpoint.host, endpoint.name): endpoint for endpoint in records.of_cluster(cluster)}
    others = [(host, name) for host, names in there.items() for name in names]
    for host, name in dict.fromkeys([*known, *others]):
        session, endpoint = sessions.get(host), known.get((host, name))
        if session is None:
            line = f"endpoint {name} on {host} of {cluster}: the host is not reached"
            print_lines(line)
            report.endpoints.append(EndpointStatus(name=name, host=host, state=line))
            continue
        if not session.has_agent:
            start_agent(session, facts.get(host))
        try:
            endpoint = endpoint or on_host.read_endpoint(session, name, cluster)
            line, port = status_line(session, endpoint), endpoint.port
        except Hostile as error:
            line, port = f"endpoint {name} on {host} of {cluster}: {error.message}", None
        print_lines(line)
        state = clean(line)
        report.endpoints.append(EndpointStatus(name=name, host=host, port=port, state=state))


def _show_endpoints_here(report: StatusReport) -> None:
    if records.of_cluster(None):
        with local_session() as session:
            _show_endpoints(None, {HERE: session}, {}, report, {})


def _runs_on(facts: HostFacts) -> tuple[str, ...]:
    return tuple(sorted({process.run_id for process in facts.run_processes}))


def _host_line(facts: HostFacts) -> str:
    runs = _runs_on(facts)
    processes = count(len(facts.run_processes), "process")
    busy = f"{processes} of run {', '.join(runs)}" if runs else "no process of a run"
    return f"reachable; {count(len(facts.envs), 'runtime')}; {busy}"


def _show_lost_chief(chief: str, run: Run, standby: str) -> None:
    """What happens to a run whose chief does not answer: its standby continues it, or `rank_link`
    ends it elsewhere."""
    resume = Command("train", resume=run.run_id)
    if standby:
        print_lines(
            f"run {run.run_id}: its chief, {chief}, is not reached; if it is lost, {standby} takes"
            f" over the run within 3 minutes\n  next: {Command('status', run=run.run_id)}"
            f"   # or, if it does not: {resume}"
        )
        return
    print_lines(
        f"run {run.run_id}: its chief, {chief}, is not reached; if it is lost, the other hosts end"
        f" the run within 3 minutes\n  next: {resume}   # from its checkpoints"
    )


def _show_run(chief: Session, run: Run, hosts: Mapping[str, HostFacts]) -> str:
    """Show what the files of a run on its chief say, which are read at once; returns its state.
    `hosts`: the facts of hosts."""
    names = ("state.json", checkpoints.UPLOADS, WHOLE, "run.json")
    *files, listed, energy = chief.shell_all(
        *(f"cat {run.folder}/{name} 2>/dev/null" for name in names),
        *(checkpoints.list_command(run), carbon_command(run)),
    )
    texts = ["" if code else "\n".join(lines) for lines, code in files]
    run_state = read_state(texts[0]) if texts[0] else None
    if run_state and not run_state.has_ended and not chief.has_agent:
        start_agent(chief, hosts.get(chief.host.name))
    state = state_of(chief, run, run_state, is_there=bool(texts[3]))
    where = results.where(run, chief.host.name)
    if not local_state.is_recorded(run.run_id):
        where = f"{where}; started on another computer"
    print_lines(f"run {run.run_id}: {state}; results {where}", *stop_policy.phase(run_state))
    uploads = parsed(Uploads, texts[1], f"a file {checkpoints.UPLOADS}") if texts[1] else Uploads()
    on_chief = checkpoints.of_list(chief.host.name, listed[0])
    print_lines(*checkpoints.lines_of(on_chief, uploads), *carbon_lines(energy[0]))
    # Without a lost host, run.json is of all hosts.
    if standby := takeover.lost_standby(run_state, texts[2] or texts[3], run, hosts):
        chief_ = chief.host.name
        print_lines(f"no standby: {standby} does not take over the run if {chief_} is lost")
    return state
