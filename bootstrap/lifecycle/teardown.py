"""Removes everything of Railhead from hosts; the receipt shows what was verified on each.

Ad-hoc hosts (given by --hosts) are never powered off; the demo's local hosts are stopped. The
machines of a stack are handled in destroy.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from railhead.documents.agent.runs import EndRun
from railhead.documents.outputs import ReceiptLine as Line
from railhead.documents.runs.swept import OF_ENDPOINTS, Swept

from ..clouds.base import utc_now
from ..clouds.local import cluster as local_cluster
from ..console.output import print_lines, print_result
from ..console.text import count
from ..errors import Command, HostsFailed, UsageError
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..provision.system import undo_system_changes
from ..ssh import connect
from ..ssh.authorized_keys import authorize
from ..ssh.session import Session
from .consent import not_all_here, to_bring
from .receipt import Receipt

NAMED = 3  # runs in a receipt
HOST_SECONDS = 1800.0  # on each host; the same command again continues


def teardown_hosts(inventory: Inventory, *, purge: bool, discard: bool, destroy: bool) -> Receipt:
    """Tear down hosts of no stack; with `destroy`, also remove the homes of local hosts.
    UsageError: `destroy` of ad-hoc hosts, or what `remove_from_hosts` raises."""
    if destroy and not inventory.kind.this_machine:
        raise UsageError("--destroy is for local hosts; for ad-hoc hosts use --purge")
    receipt = remove_from_hosts(inventory, purge=purge or destroy, discard=discard)
    print_result(*receipt.describe())
    if destroy:
        local_cluster.destroy(inventory.name)
        local_state.forget_cluster(inventory.name)  # also as the last one used
        print_lines(f"homes of {inventory.name} removed")
    return receipt


def remove_from_hosts(
    inventory: Inventory, *, purge: bool = False, discard: bool = False
) -> Receipt:
    """End processes of runs and remove keys; with `purge` also ~/.railhead. Stop the sshd of local
    hosts. UsageError: `purge` would lose results that are not all here."""
    unfetched = not_all_here(inventory)
    if purge and unfetched and not discard:
        raise UsageError(
            f"results of {', '.join(unfetched)} are only on the hosts; --purge would lose them",
            hint=f"{to_bring(inventory, unfetched[-1])}   # or: --discard-results",
        )
    with connect.open_sessions(inventory) as sessions:
        lines = [
            Line(name, f"not reached: {reason}", verified=inventory.kind.this_machine)
            for name, reason in sessions.reasons.items()
        ]
        lines += _everywhere(sessions, inventory.name, purge)
    if inventory.kind.this_machine:
        lines += _stop_local(inventory)
    if not purge:
        lines += _kept(inventory, unfetched)
    return Receipt(inventory.name, utc_now(), tuple(lines))


def _kept(inventory: Inventory, unfetched: Sequence[str]) -> list[Line]:
    """A line for each of the newest runs whose results stay, and one for all earlier ones."""
    texts = [f"{i}: {to_bring(inventory, i)}" for i in sorted(unfetched)]
    earlier, newest = texts[:-NAMED], texts[-NAMED:]
    if earlier:
        newest.insert(0, f"{count(len(earlier), 'earlier run')}: {Command('runs')}")
    return [Line(inventory.chief.name, f"keeps the results of {text}") for text in newest]


def _everywhere(sessions: Mapping[str, Session], cluster: str, purge: bool) -> list[Line]:
    if not sessions:
        return []
    lines: dict[str, list[Line]] = {}

    def remove(session: Session) -> None:
        with session.within(HOST_SECONDS):
            lines[session.host.name] = _removed(session, cluster, purge)

    try:
        connect.everywhere(sessions, remove, what="teardown")
    except HostsFailed as failed:
        for name, why in failed.outcomes.items():
            lines.setdefault(name, [Line(name, why, verified=False)])
    return [line for name in sessions for line in lines[name]]


def _removed(session: Session, cluster: str, purge: bool) -> list[Line]:
    name = session.host.name
    facts = session.facts()
    system = _restore_system(session)
    if not facts.python:
        return [*system, Line(name, "no Python for the agent: nothing to remove")]
    session.start_agent(facts.python)
    ended = session.call(EndRun("all"))
    served = session.call(EndRun("all", OF_ENDPOINTS))
    authorize(session, cluster, [])
    path = "~/.railhead" if purge else "~/.railhead/cluster"
    gone = not session.remove(path)
    only_keys = "keys removed; runtimes, runs and data kept (--purge)"
    removed = "~/.railhead removed: runtimes, runs and data" if purge else only_keys
    lines = [*system, _processes(name, ended, "runs", "no process left (checked in /proc)")]
    if served.ended or served.left:
        lines.append(_processes(name, served, "endpoints", "none is listening any more"))
    return [*lines, Line(name, removed if gone else f"could not remove {path}", verified=gone)]


def _processes(host: str, swept: Swept, owner: str, none_left: str) -> Line:
    remaining = f"; LEFT: {[*swept.left]}" if swept.left else f", {none_left}"
    text = f"{count(swept.ended, 'process')} of {owner} ended{remaining}"
    return Line(host, text, verified=not swept.left)


def _restore_system(session: Session) -> list[Line]:
    """Revert system changes: apt holds, unattended-upgrades settings, timers. Drivers stay."""
    changes, remaining = undo_system_changes(session)
    if not changes:
        return []
    names = [Path(line).name for line in remaining or changes]
    text = "could not be reverted without root" if remaining else "reverted"
    return [Line(session.host.name, f"{', '.join(names)}: {text}", verified=not remaining)]


def _stop_local(inventory: Inventory) -> list[Line]:
    lines = []
    for name, stopped in local_cluster.stop(inventory.name).items():
        gone = not stopped.left and stopped.port_closed
        ended = (
            f"sshd stopped with {count(stopped.ended, 'process')}; "
            "its port is closed, no process left (checked in /proc)"
        )
        text = ended if gone else f"still running: {[*stopped.left]}"
        lines.append(Line(name, text, verified=gone))
    return lines
