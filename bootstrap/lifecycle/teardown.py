"""Takes away what is ours and proves it: the receipt says per host what ended, and who looked.

Machines that were only named are never powered off; the demo's local hosts are stopped. What
becomes of a stack's machines is told in demolition.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from pathlib import Path

from bootstrap.clouds.local import cluster as local_cluster
from bootstrap.console.output import print_lines
from bootstrap.console.text import count
from bootstrap.errors import HostsFailed, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle.receipt import Line, Receipt
from bootstrap.provision.system import undo_system_changes
from bootstrap.runs.cancel import sweep
from bootstrap.ssh import connect
from bootstrap.ssh.authorized_keys import authorize
from bootstrap.ssh.session import Session


def unfetched(inventory: Inventory) -> list[str]:
    """Runs of a cluster whose results were never brought here."""
    folder = local_state.cluster_folder(inventory.name) / "runs"
    ids = sorted(path.stem for path in folder.glob("*.json"))
    return [i for i in ids if not (local_state.find_run(inventory, i)[1] / "result.json").exists()]


def leave(inventory: Inventory, *, purge: bool, discard: bool, destroy: bool) -> Receipt:
    """Leave hosts that no stack made, with a receipt; with `destroy`, local ones lose their homes.

    Raises:
        UsageError: `destroy` of hosts that were only named, or what `take_away` raises.
    """
    if destroy and not inventory.kind.this_machine:
        raise UsageError("--destroy is for local hosts; on named machines it is --purge")
    receipt = take_away(inventory, purge=purge or destroy, discard=discard)
    print_lines(*receipt.describe())
    if destroy:
        local_state.forget_cluster(inventory.name)
        local_cluster.destroy(inventory.name)
        print_lines(f"homes of {inventory.name} removed")
    return receipt


def take_away(inventory: Inventory, *, purge: bool = False, discard: bool = False) -> Receipt:
    """End our processes, take away our keys, with `purge` also ~/.railhead; local sshd too.

    Raises:
        UsageError: `purge` would lose results that were never fetched.
    """
    left = unfetched(inventory)
    if purge and left and not discard:
        raise UsageError(
            f"results of {', '.join(left)} are on the hosts alone; --purge would lose them",
            hint=f"fab fetch --run {left[-1]}   # or --discard-results",
        )
    opened, failed = connect.reach(inventory)
    try:
        lines = [
            Line(n, f"not reached: {w}", verified=inventory.kind.this_machine)
            for n, w in connect.tell(inventory, failed).items()
            if n in failed
        ]
        lines += _everywhere(opened, inventory.name, purge)
    finally:
        for session in opened.values():
            session.close()
    if inventory.kind.this_machine:
        lines += _stop_local(inventory)
    if not purge:
        lines += [Line(inventory.chief.name, f"keeps the results of {i}: fab fetch") for i in left]
    now = f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
    return Receipt(inventory.name, now, tuple(lines))


def _everywhere(opened: Mapping[str, Session], cluster: str, purge: bool) -> list[Line]:
    if not opened:
        return []
    done: dict[str, list[Line]] = {}

    def one(session: Session) -> None:
        done[session.host.name] = _from_host(session, cluster, purge)

    try:
        connect.everywhere(opened, one, what="teardown")
    except HostsFailed as failed:
        for name, why in failed.outcomes.items():
            done.setdefault(name, [Line(name, why, verified=False)])
    return [line for name in opened for line in done[name]]


def _from_host(session: Session, cluster: str, purge: bool) -> list[Line]:
    name = session.host.name
    facts = session.facts()
    system = _of_system(session)
    if not facts.python:
        return [*system, Line(name, "no Python of ours could run here: nothing to take away")]
    session.start_agent(facts.python)
    swept = sweep(session, "all", facts.python)
    authorize(session, cluster, [])
    paths = ["~/.railhead"] if purge else ["~/.railhead/cluster"]
    gone = not session.ask("remove", paths=paths)["left"]
    left = f"; LEFT: {swept['left']}" if swept["left"] else ", none is left (looked through /proc)"
    what = "~/.railhead removed" if purge else "keys removed; runtimes and runs kept (--purge)"
    return [
        *system,
        Line(
            name,
            f"{count(swept['ended'], 'process')} of runs ended{left}",
            verified=not swept["left"],
        ),
        Line(name, what if gone else f"could not remove {paths[0]}", verified=gone),
    ]


def _of_system(session: Session) -> list[Line]:
    """What root's work left: holds, settings of unattended upgrades, timers. Drivers stay."""
    there, left = undo_system_changes(session)
    if not there:
        return []
    names = [Path(line).name for line in left or there]
    text = "could not be taken back, without root" if left else "taken back, as apt had it before"
    return [Line(session.host.name, f"{', '.join(names)}: {text}", verified=not left)]


def _stop_local(inventory: Inventory) -> list[Line]:
    lines = []
    for name, said in local_cluster.stop(inventory.name).items():
        gone = not said["left"] and said["port_closed"]
        text = (
            f"sshd stopped with {count(said['ended'], 'process')}; "
            "its port is closed, /proc has none of it"
        )
        lines.append(Line(name, text if gone else f"still running: {said['left']}", verified=gone))
    return lines
