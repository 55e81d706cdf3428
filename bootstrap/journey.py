"""The ways through the rooms that a person takes: plan, make ready, train, watch, bring home.

Tasks name a journey; journeys put the pieces in order and say what happens.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TextIO

from bootstrap import (
    checkup,
    cloud,
    connect,
    demolition,
    door,
    ending,
    examine,
    follow,
    install,
    local,
    machines,
    power,
    ready,
    record,
    run,
    survey,
    whereabouts,
)
from bootstrap import stack as pulumi
from bootstrap.asked import Asked, Words, read_words
from bootstrap.board import Board
from bootstrap.errors import HostsFailed, RailheadError, RunFailed, UsageError
from bootstrap.inventory import Inventory, parse_hosts, whole_number
from bootstrap.launch import Ending
from bootstrap.plan import Plan
from bootstrap.receipt import Receipt, check
from bootstrap.results import fetch as fetch_results
from bootstrap.results import judge
from bootstrap.run import Run
from bootstrap.session import ConnectionLost, Session
from bootstrap.show import clean, count
from bootstrap.survey import Cluster, Options
from bootstrap.teardown import take_away


def say(*lines: str) -> None:
    """Print lines at once, also into a pipe."""
    for line in lines:
        print(line, flush=True)


def look(hosts: str | None, *, slots: int | None = None, stack: str | None = None) -> power.Look:
    """The hosts that were named, else those of a stack, else those of the last command, as they
    stand now; said in the first line."""
    if hosts is not None and stack is not None:
        raise UsageError("--hosts and --stack both say which hosts: give one of them")
    if hosts is not None:
        inventory = parse_hosts(hosts, slots=slots)
    else:
        made_by = stack if stack is not None else pulumi.current()
        inventory = pulumi.cluster_of(made_by) if made_by is not None else record.last_cluster()
    seen = power.look(inventory)
    named = ", ".join(str(h) for h in seen.inventory.hosts)
    say(f"{inventory.name} ({seen.place}): {named}")
    return seen


def hosts_of(
    hosts: str | None,
    *,
    slots: int | None = None,
    stack: str | None = None,
    start: bool = False,
) -> Inventory:
    """As `look`; a stack's machines all run, and their keys are pinned. UsageError when some do
    not run, unless they are to be started."""
    return power.awake(look(hosts, slots=slots, stack=stack), say, start_them=start)


@contextmanager
def surveyed(
    inventory: Inventory, options: Options
) -> Iterator[tuple[Cluster, dict[str, Session]]]:
    """Connected to all hosts, with their facts read."""
    with door.sessions(inventory) as opened:
        yield survey.survey(inventory, opened, options), opened


@contextmanager
def agents(inventory: Inventory) -> Iterator[tuple[dict[str, Session], dict[str, str]]]:
    """Connected to all hosts with an agent on each, and the path of each host's Python."""
    with door.sessions(inventory) as opened:
        pythons = connect.everywhere(opened, _start_agent, what="starting the agent")
        yield opened, pythons


def _start_agent(session: Session) -> str:
    facts = session.facts()
    if not facts.python:
        raise UsageError("no Python 3.10 to 3.13 there", hint="fab bootstrap")
    session.start_agent(facts.python)
    return facts.python


@contextmanager
def for_programs(wanted: bool) -> Iterator[TextIO | None]:
    """With --json, stdout for the document alone: what people read goes to stderr meanwhile."""
    out = sys.stdout
    if not wanted:
        yield None
        return
    with redirect_stdout(sys.stderr):
        yield out


def _decide(cluster: Cluster, options: Options, out: TextIO | None) -> Plan:
    """The plan, told to people and, to `out`, to programs."""
    todo = ready.decide(cluster, options)
    say(*todo.describe())
    if out:
        print(json.dumps(todo.document()), file=out, flush=True)
    return todo


def plan(inventory: Inventory, options: Options, out: TextIO | None = None) -> None:
    """Print what `bootstrap` and `train` would do; changes nothing."""
    with surveyed(inventory, options) as (cluster, _):
        _decide(cluster, options, out)
        say("nothing was changed")


def bootstrap(inventory: Inventory, options: Options, out: TextIO | None = None) -> None:
    """Make the hosts ready."""
    with surveyed(inventory, options) as (cluster, opened):
        record.save_cluster(inventory)
        make_ready(cluster, opened, options, out)


def make_ready(
    cluster: Cluster,
    opened: dict[str, Session],
    options: Options,
    out: TextIO | None = None,
) -> Cluster:
    """Decide, print and apply the plan; nothing to do is an answer. Returns what is now there; a
    host that rebooted has a new session in `opened`."""
    todo = _decide(cluster, options, out)
    if todo.nothing_to_do:
        say("all hosts are ready: nothing was changed")
        return cluster
    with Board(sys.stdout, todo.hosts) as board:
        return install.apply(cluster, todo, opened, board)


def health(inventory: Inventory, options: Options) -> None:
    """Check the hosts before a run; leaves nothing on them."""
    with door.sessions(inventory) as opened:
        examine.examine(inventory, options, opened, say)


@dataclass(frozen=True)
class Trip:
    """How a training is to be run: what, on hosts made ready how, and where results go."""

    asked: Asked
    options: Options
    results: Path
    detach: bool = False
    ending: Ending = field(default_factory=Ending)


def train(inventory: Inventory, trip: Trip) -> Run:
    """The whole way from hosts to results."""
    trip.asked.ask.settled_strategy(len(inventory.hosts))
    if deadline := machines.check_before(inventory, trip.ending):
        say(deadline)
    with surveyed(inventory, trip.options) as (cluster, opened):
        run.refuse_second(cluster)
        with machines.preparing(inventory, say):
            started = _start(cluster, opened, trip)
        say(f"run {started.run_id} started; it goes on if this connection breaks")
        if not trip.detach:
            watch(inventory, opened, started, keyboard_ends_it=True)
            finish(inventory, opened, started)
        else:
            say(f"next: fab attach --run {started.run_id}")
    return started


def _start(cluster: Cluster, opened: dict[str, Session], trip: Trip) -> Run:
    """Make the hosts ready, see that they reach each other, and start the run."""
    record.save_cluster(cluster.inventory)
    say(*choices(trip.asked, cluster))
    cluster = make_ready(cluster, opened, trip.options)
    install.start_agents(cluster, opened)
    checkup.refuse_fallback(cluster, opened)
    run.refuse_closed_pairs(cluster, opened)
    return run.start(cluster, opened, trip.asked, trip.results, trip.ending)


def choices(asked: Asked, cluster: Cluster) -> list[str]:
    """What was chosen for the run and why, for the plan."""
    strategy = asked.ask.settled_strategy(len(cluster.peers))
    keras, why = asked.ask.settled_keras(strategy)
    slots = sum(p.slots for p in cluster.peers) if strategy == "horovod" else len(cluster.peers)
    kind = "script " + asked.program.path if asked.program.kind == "script" else "our own training"
    return [
        f"{kind}: {strategy} over {count(slots, 'rank')} on {count(len(cluster.peers), 'host')}; "
        f"Keras {keras}: {why}"
    ]


def watch(
    inventory: Inventory, opened: Mapping[str, Session], started: Run, *, keyboard_ends_it: bool
) -> None:
    """Show the run until it ends. Ctrl-C ends the run, or only the watching (`attach`)."""
    chief = opened[inventory.chief.name]
    try:
        with Board(sys.stdout, [h.name for h in inventory.hosts]) as board:
            follow.attend(inventory, chief, started, board)
    except ConnectionLost as lost:
        raise RunFailed(
            f"{lost}; the run itself goes on", hint=f"fab attach --run {started.run_id}"
        ) from None
    except KeyboardInterrupt:
        if not keyboard_ends_it:
            raise RunFailed(
                "detached; the run goes on", hint=f"fab attach --run {started.run_id}"
            ) from None
        _cancel_after_interrupt(inventory, started)


def _cancel_after_interrupt(inventory: Inventory, started: Run) -> None:
    say("", "Ctrl-C: ending the run and waiting for each host's word; once more leaves it running")
    try:
        end(inventory, started)
    except KeyboardInterrupt:
        hint = f"fab attach --run {started.run_id}   # or: fab cancel --run {started.run_id}"
        raise RunFailed("left to its supervisor", hint=hint) from None
    raise RunFailed(f"run {started.run_id} was cancelled", hint="fab fetch   # for what it wrote")


def end(inventory: Inventory, started: Run) -> None:
    """End a run on every host and print each host's word."""
    with agents(inventory) as (opened, pythons):
        said = ending.cancel(opened, started, pythons, inventory.chief.name)
        kept = machines.phase(opened[inventory.chief.name], started)
    say(*(f"[{name}] {text}" for name, text in said.items()), *kept)


def finish(inventory: Inventory, opened: Mapping[str, Session], started: Run) -> None:
    """Fetch the results, say where they are, and judge the run."""
    chief = opened[inventory.chief.name]
    if not chief.connection.is_connected:
        chief = follow.reconnect(inventory) or chief
    result = fetch_results(chief, started)
    say(f"results: {started.results}", *(f"  {p}" for p in listing(started.results)))
    judged(inventory, started, result)


def judged(inventory: Inventory, started: Run, result: Mapping[str, Any]) -> None:
    """Say how the run ended and what becomes of the machines; raises what `judge` raises."""
    try:
        say(judge(started, result))
    except RailheadError:
        machines.after(inventory, started, say)
        raise
    machines.after(inventory, started, say)


def listing(folder: Path) -> list[str]:
    """The files of a results folder, relative to it, the first twenty."""
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    more = [f"... and {len(files) - 20} more"] if len(files) > 20 else []
    return files[:20] + more


def status(seen: power.Look, run_id: str | None) -> None:
    """Where the machines, the hosts and the run stand, asked of the cloud and the hosts now.

    Raises:
        HostsFailed: a host that runs cannot be reached.
        RailheadError: machines run, and no deadline of their cloud will stop them.
    """
    wrong = power.report(seen, say) if seen.standings else None
    running = tuple(h for h in seen.inventory.hosts if h.name not in seen.asleep)
    if running:
        inventory = replace(seen.inventory, hosts=running)
        power.know(replace(seen, inventory=inventory), say)
        _hosts_status(inventory, run_id, seen.inventory.chief.name)
    if seen.inventory.chief.name in seen.asleep:
        say(whereabouts.tell(seen.inventory, run_id))
    if wrong:
        raise wrong


def _hosts_status(inventory: Inventory, run_id: str | None, chief: str) -> None:
    opened, failed = connect.reach(inventory)
    try:
        for name, why in connect.tell(inventory, failed).items():
            say(
                f"[{name}] " + (_standing(opened[name]) if name in opened else f"UNREACHABLE {why}")
            )
        if chief in opened:
            _run_status(inventory, opened[chief], run_id)
    finally:
        for session in opened.values():
            session.close()
    if failed:
        raise HostsFailed("some hosts cannot be reached", connect.tell(inventory, failed))


def _standing(session: Session) -> str:
    facts = session.facts()
    runs = sorted({trace.run_id for trace in facts.traces})
    traces = count(len(facts.traces), "process")
    busy = f"{traces} of run {', '.join(runs)}" if runs else "no process of a run"
    return f"reachable; {count(len(facts.envs), 'runtime')}; {busy}"


def _run_status(inventory: Inventory, chief: Session, run_id: str | None) -> None:
    if run_id is None and not record.runs(inventory.name):
        say("no run yet")
        return
    known, results = record.find_run(inventory, run_id)
    started = Run(known, results)
    _start_agent(chief)
    state = run.state(chief, started)
    fetched = "fetched to " + str(results) if (results / "result.json").exists() else "not fetched"
    say(f"run {known}: {state}; results {fetched}", *machines.phase(chief, started))


def logs(inventory: Inventory, started: Run, rank: str) -> None:
    """Print a log of a run: a rank's, mpirun's or the supervisor's."""
    name = (
        rank
        if rank in ("mpirun", "supervisor")
        else f"rank-{whole_number(rank, '--rank', 0, 9999)}"
    )
    alone = replace(inventory, hosts=inventory.hosts[:1])
    with agents(alone) as (opened, _):
        chief = opened[inventory.chief.name]
        path = f"{started.folder}/logs/{name}.log"
        text = chief.ask("read", paths=[path])[path]
    if text is None:
        raise UsageError(f"run {started.run_id} has no log {name!r} on {inventory.chief.name}")
    say(*(clean(line) for line in text.splitlines()))


def attach(inventory: Inventory, started: Run) -> None:
    """Watch a run to its end, then fetch and judge it."""
    with agents(replace(inventory, hosts=inventory.hosts[:1])) as (opened, _):
        watch(inventory, opened, started, keyboard_ends_it=False)
        finish(inventory, opened, started)


def fetch(seen: power.Look, started: Run) -> None:
    """Bring home what a run has written so far; from the bucket when the chief does not run."""
    if seen.inventory.bucket and seen.inventory.chief.name in seen.asleep:
        result = whereabouts.fetch(seen.inventory, started, say)
    else:
        inventory = power.awake(seen, say)
        with agents(replace(inventory, hosts=inventory.hosts[:1])) as (opened, _):
            result = fetch_results(opened[inventory.chief.name], started)
    say(f"results: {started.results}", *(f"  {p}" for p in listing(started.results)))
    say(f"state: {result['state'] if result else 'no result yet'}")


def teardown(
    inventory: Inventory,
    *,
    purge: bool,
    discard: bool,
    destroy: bool,
    yes: bool = False,
    with_bucket: bool = False,
) -> None:
    """Take away what is ours, stop a stack's machines or destroy them, and print the receipt."""
    if with_bucket and not (destroy and inventory.bucket):
        raise UsageError("--with-bucket goes with --destroy, for a stack that has a bucket")
    if inventory.stops_itself:
        receipt = _end_stack(inventory, discard, destroy, yes, with_bucket)
    else:
        receipt = _take_away(inventory, purge, discard, destroy)
    check(receipt)


def _end_stack(
    inventory: Inventory, discard: bool, destroy: bool, yes: bool, with_bucket: bool
) -> Receipt:
    asked = cloud.of(inventory)
    if not destroy:
        receipt = demolition.stop(inventory, asked, say)
    else:
        agree = demolition.by_name(inventory.stack or "", yes)
        receipt = demolition.destroy(
            inventory, asked, say, agree=agree, discard=discard, with_bucket=with_bucket
        )
    say(*receipt.describe())
    return receipt


def _take_away(inventory: Inventory, purge: bool, discard: bool, destroy: bool) -> Receipt:
    if destroy and inventory.cloud != "local":
        raise UsageError("--destroy is for local hosts; on named machines it is --purge")
    receipt = take_away(inventory, purge=purge or destroy, discard=discard)
    say(*receipt.describe())
    if destroy:
        record.forget_cluster(inventory.name)
        local.destroy(inventory.name)
        say(f"homes of {inventory.name} removed")
    return receipt


def demo(results: Path) -> None:
    """Two SSH hosts on this machine, from nothing to the receipt."""
    inventory = local.start("demo", 2)
    say("two SSH hosts on this machine: " + ", ".join(str(h) for h in inventory.hosts))
    try:
        train(inventory, Trip(read_words(Words(preset="digits")), Options(), results))
    finally:
        receipt = take_away(inventory)
        say(*receipt.describe())
    check(receipt)
