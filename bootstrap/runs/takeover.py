"""Takeover: after the loss of a run's chief, its second host, the standby, continues the run.

The standby has the run document and a chief's files with the hosts in its own order: itself first,
the chief last. Once it leads the run, this order is recorded here too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from railhead.documents.agent.commands import Start
from railhead.documents.agent.runs import EndRun
from railhead.documents.codec import encode
from railhead.documents.runs.run import RunData, RunDocument
from railhead.documents.runs.state import RunState
from railhead.documents.runs.swept import OF_RUNS, OF_STANDBYS
from railhead.documents.runs.takeover import is_lost_lease

from ..console.output import print_lines
from ..console.wait import wait_until
from ..errors import HostsNotReady
from ..facts.host import HostFacts
from ..host.base.programs import NAME, STANDBY, TAKEOVER
from ..host.run.manifest import BEFORE
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..ssh import connect
from ..ssh.cluster import ConnectedCluster
from ..ssh.connect import attempts, open_sessions, start_agent
from ..ssh.session import Session
from ..untrusted.run_files import read_run_document
from ..untrusted.unpack import Hostile
from .results import result_of
from .run import REMOVAL_SECONDS, Run, find_run

T = TypeVar("T")
LISTED = 60.0  # seconds in which a standby lists the files of the program
MISSED = 10  # checks without its process, after which a standby counts as ended


def rotated(items: Sequence[T]) -> tuple[T, ...]:
    """One item per host, in the order of the standby."""
    return (*items[1:], *items[:1])


def as_standby(cluster: ConnectedCluster) -> ConnectedCluster:
    """The cluster whose chief is the standby."""
    inventory = replace(cluster.inventory, hosts=rotated(cluster.inventory.hosts))
    return replace(cluster, inventory=inventory, peers=rotated(cluster.peers))


def data_as_standby(data: Sequence[RunData]) -> list[RunData]:
    """`data` of run.json with the paths in the order of the standby."""
    return [replace(item, paths=item.paths and rotated(item.paths)) for item in data]


def end_earlier_standbys(cluster: ConnectedCluster) -> None:
    """End the standby of an earlier run whose supervisor was lost, or that continued without this
    host: the standby would start that run again, beside this one. Also ends the processes that it
    has started since the facts were read."""
    for name, facts in cluster.facts.items():
        for run_id in facts.standbys:
            cluster.sessions[name].call(EndRun(run_id))
            record_no_standby(run_id)
            print_lines(f"[{name}] does not take over run {run_id} any more, for the new run")


@contextlib.contextmanager
def ended_on_error(standby: ConnectedCluster | None, run: Run) -> Iterator[None]:
    """End the standby, if there is one, after an error of this block."""
    try:
        yield
    except BaseException:
        if standby:
            with contextlib.suppress(Exception):
                _end_standby(standby, run)
        raise


def _end_standby(cluster: ConnectedCluster, run: Run) -> None:
    """End the standby of a run over a new session: the old one may have an unfinished call."""
    inventory = cluster.inventory.only([cluster.chief])
    with connect.open_sessions(inventory) as sessions, sessions.within(REMOVAL_SECONDS):
        for session in sessions.values():
            start_agent(session, cluster.facts[session.host.name])
            session.call(EndRun(run.run_id, OF_STANDBYS))


def start_standby(cluster: ConnectedCluster, run: Run) -> None:
    """Start the program that takes over the run if its chief is lost, and wait until it has listed
    the files of the program: later files are the ranks' outputs.

    Raises:
        HostsNotReady: it has ended, or takes too long.
    """
    client = cluster.bucket_client
    assert client is not None
    marks = {**run.environment, OF_STANDBYS: run.run_id}
    del marks[OF_RUNS]
    session, output = cluster.sessions[cluster.chief], run.supervisor_log
    pid = session.call(
        Start(
            argv=(f"{client.folder}/bin/python", "-I", f"{run.folder}/{NAME}", STANDBY),
            cwd=run.folder,
            env=marks,
            log=output,
        )
    ).pid

    def has_listed() -> bool:
        return session.read(f"{run.folder}/{BEFORE}") is not None

    missed = 0  # checks in a row: a process that begins has no command line

    def has_ended() -> bool:
        nonlocal missed
        missed = 0 if session.is_running(pid, run.folder, STANDBY) else missed + 1
        return missed >= MISSED

    wait_until(lambda: has_listed() or has_ended(), seconds=LISTED, every=0.2)
    if not has_listed():
        printed = (session.read(output) or "").strip() or "it printed nothing"
        what = "ended" if missed else f"did not begin within {LISTED:g} s"
        raise HostsNotReady(
            "no run was started",
            {cluster.chief: f"the standby {what}: {printed.splitlines()[-1]}"},
            hint="the same command again   # or without --takeover",
        )


def is_fetched(run: Run) -> bool:
    """Whether the run's final result is here, not only that of a chief from which a standby may
    have taken the run over."""
    return (run.results / "result.json").exists() and not standby_of(run)


def standby_of(run: Run) -> str:
    """The name of the host that continues the run if its chief is lost; "" if there is none, or no
    longer one, as after the end of the run."""
    if (run.results / "result.json").exists() and not _is_of_lost_lease(run):
        return ""
    if not local_state.is_recorded(run.run_id):
        return run.standby
    return standby_in(local_state.recorded_run(run.run_id).run)


def _is_of_lost_lease(run: Run) -> bool:
    """Whether the result here is from a chief that lost the lease of the run."""
    with contextlib.suppress(Hostile):
        result = result_of(run.results)
        return result is not None and is_lost_lease(result.cause)
    return False


def standby_in(document: RunDocument | None) -> str:
    """The name of the standby in a run's document; "" if there is none."""
    if document and document.takeover and len(document.hosts) > 1:
        return document.hosts[1].name
    return ""


def lost_standby(
    state: RunState | None, text: str, run: Run, hosts: Mapping[str, HostFacts]
) -> str:
    """The standby of a run in progress, if it can no longer take the run over, as after a reboot;
    "" if it can, or is not one of these hosts. `text`: the chief's document of all hosts of the
    run."""
    if state is None or state.has_ended or not text:
        return ""
    name = ""
    with contextlib.suppress(Hostile):
        name = standby_in(read_run_document(text))
    return "" if _may_stand_by(name, run, hosts) else name


def _may_stand_by(name: str, run: Run, hosts: Mapping[str, HostFacts]) -> bool:
    """Whether the standby program runs on a host, or may run because nothing is known about the
    host."""
    return name not in hosts or run.run_id in hosts[name].standbys


def ready_standby(run: Run, hosts: Mapping[str, HostFacts]) -> str:
    """As `standby_of`, but "" if the standby program is known not to run there."""
    name = standby_of(run)
    return name if _may_stand_by(name, run, hosts) else ""


def _recorded(run: Run) -> Run:
    """The run as recorded: another command may have recorded a new chief."""
    if not local_state.is_recorded(run.run_id):
        return run
    return replace(run, hosts=local_state.hosts_of_run(run.run_id))


def current(inventory: Inventory, run: Run) -> Run:
    """The run with its present chief first; asks its standby whether it leads the run."""
    run, standby = _recorded(run), standby_of(run)
    if not standby or standby not in inventory.names:
        return run
    with open_sessions(inventory.only([standby])) as sessions:
        return current_of(sessions, inventory, run)


def current_of(sessions: Mapping[str, Session], inventory: Inventory, run: Run) -> Run:
    """As `current`, over open sessions. A run that is not recorded here was read from its present
    chief (`elsewhere`)."""
    run, standby = _recorded(run), standby_of(run)
    if standby not in sessions or not local_state.is_recorded(run.run_id):
        return run
    answers, _ = attempts({standby: sessions[standby]}, partial(_read, run=run, name=TAKEOVER))
    if answers.get(standby) is None:
        return run
    document = local_state.recorded_run(run.run_id).run
    assert document  # `standby_of` has read it
    local_state.change_run(run.run_id, document=encode(_taken_over(document)))
    if _is_of_lost_lease(run):
        (run.results / "result.json").unlink(missing_ok=True)
    return find_run(inventory, run.run_id)


def _taken_over(run: RunDocument) -> RunDocument:
    """The recorded run with its standby as the chief, and without a standby. It has no values from
    the host."""
    stop = run.stop and replace(run.stop, argv=rotated(run.stop.argv))
    data = tuple(data_as_standby(run.data))
    return replace(run, hosts=rotated(run.hosts), data=data, stop=stop, takeover=False)


def record_no_standby(run_id: str) -> None:
    """Record, if the run is recorded here, that it has no standby any more."""
    if not local_state.is_recorded(run_id):
        return
    document = local_state.recorded_run(run_id).run
    if document and document.takeover:
        local_state.change_run(run_id, document=encode(replace(document, takeover=False)))


def _read(session: Session, run: Run, name: str) -> str | None:
    """A file of the run's folder on a host, with or without an agent; None if it does not exist."""
    if session.has_agent:
        return session.read(f"{run.folder}/{name}")
    lines, code = session.shell(f"cat {run.folder}/{name}")
    return None if code else "\n".join(lines)
