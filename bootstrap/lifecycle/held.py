"""What only running machines know: results that nobody has fetched, and what is in progress there.

This computer has records of its own runs only; a colleague may have started others.
"""

from __future__ import annotations

import contextlib
import itertools

from railhead.documents.runs.swept import OF_ENDPOINTS, OF_RUNS

from ..clouds import base
from ..console.wait import Clock
from ..errors import RailheadError
from ..facts import marked
from ..inventory.files import RUN_ID
from ..inventory.hosts import Inventory
from ..ssh import connect
from ..ssh.session import Session
from . import cloud_host_keys, power
from .consent import Answers, Held

# Only a chief has a state.json. `fetched` is written by the computer that has the results.
UNFETCHED = """cd "$HOME/.railhead/runs" 2>/dev/null || exit 0
for state in */state.json; do
  run=${state%/*}
  if [ -e "$state" ] && ! grep -qs '"left": *0' "$run/fetched"; then echo "$run"; fi
done"""


def ask(inventory: Inventory) -> Answers:
    """Ask the running machines of a cloud. Does not start machines or wait for host keys."""
    if not inventory.kind.in_cloud:
        return Answers()
    try:
        status = power.cluster_status(inventory)
    except RailheadError as error:
        return Answers(not_contacted=dict.fromkeys(inventory.names, error.message))
    not_contacted = {name: status.instance_states[name].state for name in status.not_running}
    running = power.running_part(status)
    if running is None:
        return Answers(not_contacted=not_contacted)
    unknown = _pin(status, running)
    not_contacted |= dict.fromkeys(unknown, "its host key is not known here")
    known = [name for name in running.names if name not in unknown]
    if not known:
        return Answers(not_contacted=not_contacted)
    with connect.open_sessions(running.only(known)) as sessions:
        held, failed = connect.attempts(sessions, _read)
        not_contacted |= sessions.reasons | {name: error.message for name, error in failed.items()}
    return Answers(held, not_contacted)


def _pin(status: power.ClusterStatus, running: Inventory) -> list[str]:
    """Pin the host keys that the cloud has now; the machines whose keys are not known."""
    time = itertools.count(0.0, 1e9)
    at_once = Clock(now=lambda: float(next(time)))
    states = {name: status.instance_states[name] for name in running.names}
    with contextlib.suppress(RailheadError):
        store = power.host_key_store(running)
        cloud = base.cloud_of(running)
        cloud_host_keys.pin(running, states, cloud, store=store, clock=at_once)
    return [h.name for h in running.hosts if cloud_host_keys.needs_pin(h, running, states)]


def _read(session: Session) -> Held:
    unfetched, _ = session.shell(UNFETCHED)
    search = marked.search((OF_RUNS, OF_ENDPOINTS))
    lines, _ = session.shell(f"{{ {search}\n}} 2>/dev/null")  # a process may end meanwhile
    output = "\n".join(lines)
    processes = [*marked.processes(output, OF_RUNS), *marked.processes(output, OF_ENDPOINTS)]
    return Held(
        unfetched=tuple(filter(RUN_ID.fullmatch, unfetched)),
        in_progress=tuple(dict.fromkeys(process.run_id for process in processes)),
    )
