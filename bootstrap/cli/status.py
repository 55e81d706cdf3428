"""Where the machines, the hosts and the run stand: each is asked at its source, now."""

from __future__ import annotations

from dataclasses import replace

from bootstrap.console.output import print_lines
from bootstrap.console.text import count
from bootstrap.errors import HostsFailed
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import power, stop_policy
from bootstrap.runs import bucket_results, start
from bootstrap.runs.start import Run
from bootstrap.ssh import connect
from bootstrap.ssh.agents import start_agent
from bootstrap.ssh.session import Session


def tell(seen: power.ClusterStatus, run_id: str | None) -> None:
    """Where the machines, the hosts and the run stand, asked of the cloud and the hosts now.

    Raises:
        HostsFailed: a host that runs cannot be reached.
        RailheadError: machines run, and no deadline of their cloud will stop them.
    """
    wrong = power.print_status(seen, print_lines) if seen.instance_states else None
    running = tuple(h for h in seen.inventory.hosts if h.name not in seen.not_running)
    if running:
        inventory = replace(seen.inventory, hosts=running)
        power.pin_host_keys(replace(seen, inventory=inventory), print_lines)
        _hosts(inventory, run_id, seen.inventory.chief.name)
    if seen.inventory.chief.name in seen.not_running:
        print_lines(bucket_results.tell(seen.inventory, run_id))
    if wrong:
        raise wrong


def _hosts(inventory: Inventory, run_id: str | None, chief: str) -> None:
    opened, failed = connect.open_sessions(inventory)
    try:
        for name, why in connect.describe_outcomes(inventory, failed).items():
            print_lines(
                f"[{name}] " + (_host(opened[name]) if name in opened else f"UNREACHABLE {why}")
            )
        if chief in opened:
            _run(inventory, opened[chief], run_id)
    finally:
        for session in opened.values():
            session.close()
    if failed:
        raise HostsFailed(
            "some hosts cannot be reached", connect.describe_outcomes(inventory, failed)
        )


def _host(session: Session) -> str:
    facts = session.facts()
    runs = sorted({trace.run_id for trace in facts.run_processes})
    run_processes = count(len(facts.run_processes), "process")
    busy = f"{run_processes} of run {', '.join(runs)}" if runs else "no process of a run"
    return f"reachable; {count(len(facts.envs), 'runtime')}; {busy}"


def _run(inventory: Inventory, chief: Session, run_id: str | None) -> None:
    if run_id is None and not local_state.runs(inventory.name):
        print_lines("no run yet")
        return
    known, results = local_state.find_run(inventory, run_id)
    started = Run(known, results)
    start_agent(chief)
    state = start.state(chief, started)
    fetched = "fetched to " + str(results) if (results / "result.json").exists() else "not fetched"
    print_lines(f"run {known}: {state}; results {fetched}", *stop_policy.phase(chief, started))
