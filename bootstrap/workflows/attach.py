"""A run that was started: follow it, cancel it, fetch and judge its results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from railhead.documents.outputs import RunOutput
from railhead.documents.runs.result import Result

from ..clouds.bucket import bucket_of
from ..console.live import board_of
from ..console.output import confirm, note_output, print_lines, print_result
from ..console.text import clean, count
from ..errors import (
    Command,
    Hint,
    HostsFailed,
    HostsNotReached,
    HostsNotReady,
    RailheadError,
    RunFailed,
    RunInterrupted,
    RunNotReached,
    Terminated,
    UsageError,
)
from ..inventory import local_state
from ..inventory.files import folder_option
from ..inventory.hosts import Inventory
from ..lifecycle import power, reach, stop_policy
from ..lifecycle.consent import unfetched
from ..runs import cancel as cancellation
from ..runs import checkpoints, elsewhere, results, takeover
from ..runs.bucket import results as bucket_results
from ..runs.elsewhere import Elsewhere
from ..runs.follow import RunConnection, Watch, follow_to_end
from ..runs.run import NOT_STARTED, Run, find_run, known_run, read_state, state_of
from ..ssh import connect
from ..ssh.session import ConnectionLost, Session

SHOWN_ENTRIES = 20
MANY_FILES = 4  # of a folder of results: all of them are not listed
NAMED_RUNS = 3
CANCEL_SECONDS = 600.0  # on each host
LOOK_SECONDS = 180.0  # on each host, for its list of runs


def find(status: power.ClusterStatus, run_id: str | None) -> Run:
    """The run with this id, by default the last one that is recorded here, with its present chief.
    A run that another computer started is searched for on the hosts and in the bucket, and then
    recorded here.

    Raises:
        UsageError: it was not found.
        HostsNotReady: it was not found, and a host cannot be reached.
    """
    inventory = status.inventory
    if known := known_run(inventory, run_id):
        running = power.running_part(status)
        return takeover.current(running, known) if running else known
    found = _elsewhere(status, run_id)
    if found is None:
        return find_run(inventory, run_id)  # raises the error
    run = found.record(inventory)
    print_lines(f"run {run.run_id} was started on another computer; results: {run.results}")
    return run


def _elsewhere(status: power.ClusterStatus, run_id: str | None) -> Elsewhere | None:
    """A run that is on the running hosts, or in the bucket."""
    inventory, running = status.inventory, power.running_part(status)
    failed = None
    if running:
        power.pin_host_keys(replace(status, inventory=running), print_lines)
        with connect.open_sessions(running) as sessions, sessions.within(LOOK_SECONDS):
            if run := elsewhere.on_hosts(sessions, run_id):
                return run
            if sessions.failed:
                failed = reach.not_reached("the run was not found", sessions)
    run = elsewhere.in_bucket(bucket_of(inventory), run_id) if inventory.bucket else None
    if run is None and failed:
        raise failed
    return run


def find_on(inventory: Inventory, run_id: str | None) -> Run:
    """The run on these hosts, all of which are running."""
    return find(_running(inventory), run_id)


def attach(inventory: Inventory, run_id: str | None, watch: Watch | None = None) -> None:
    """Follow a run to its end, then fetch and judge its results. `run_id` None: the last run;
    `watch` receives each record."""
    run = find_on(inventory, run_id)
    try:
        with connected(inventory, run) as connection:
            connection.watch = watch
            follow(connection)
            finish(connection)
    except KeyboardInterrupt:
        raise RunInterrupted("detached; the run continues", hint=_again(run)) from None
    except HostsNotReady as error:
        error.next = _or_resume(run, error.next if error.hint else _again(run))
        raise


def _or_resume(run: Run, hint: Hint | Command) -> Hint:
    """The given command, which needs the chief of a run, and the command that continues the run
    without it. The other hosts end a run whose chief is lost (`rank_link`)."""
    resume = Command("train", resume=run.run_id)
    return Hint(hint, "\n  or, if its chief does not come back: ", resume)


def _running(inventory: Inventory) -> power.ClusterStatus:
    """The status of hosts that are known to run and whose keys are pinned."""
    return power.ClusterStatus(inventory, {}, inventory.cloud)


def _again(run: Run) -> Command:
    return Command("attach", run=run.run_id)


def fetch(
    status: power.ClusterStatus, run_id: str | None, to: str | None = None, *, with_checkpoint: bool
) -> None:
    """Fetch the results of a run so far; from the bucket if the chief does not run.

    `to`: a folder for the results instead of that of `fab train`; it is recorded.
    `with_checkpoint`: also fetch the newest checkpoint, which may be large.
    """
    inventory = status.inventory
    run = find(status, run_id)
    if to is not None:
        run = replace(run, results=folder_option(to, "--to") / run.run_id)
    results.require_writable(run.results)
    if inventory.bucket and run.part_of(inventory).chief.name in status.not_running:
        state = "no result"
        if with_checkpoint:
            checkpoints.fetch_from_bucket(bucket_of(inventory), run, print_lines)
        result = bucket_results.fetch(inventory, run, print_lines)
    else:
        with connected(power.ensure_running(status, print_lines), run) as connection:
            state = state_of(connection.chief, run, read_state(connection.chief, run))
            if with_checkpoint:
                checkpoints.fetch_from_host(connection.chief, run, print_lines)
            result = results.fetch(connection.chief, run, print_lines)
    if to is not None:
        local_state.change_run(run.run_id, results=str(run.results))
    _print_results(run.results)
    print_lines(f"state: {result.state if result else state}")


def last_run(inventory: Inventory) -> str:
    """The id of the last run, for a command that names no run and no hosts.

    Raises:
        UsageError: another computer started it; or its results belong in another folder, and the
            user did not agree.
    """
    run = _own(find(_running(inventory), None))
    if not _is_elsewhere(run.results):
        return run.run_id
    hint = Command("cancel", run=run.run_id)
    question = f"the results of the last run, {run.run_id}, go to {run.results}. Cancel it?"
    if not confirm(question, hint=hint):
        raise UsageError("nothing was cancelled", hint=hint)
    return run.run_id


def also_ended(inventory: Inventory) -> list[str]:
    """One line that names the newest runs of other folders whose results were not fetched, because
    they may be in progress; no line without such a run."""
    runs = [local_state.find_run(inventory, run_id) for run_id in reversed(unfetched(inventory))]
    others = [f"{run_id} (its results go to {at})" for run_id, at in runs if _is_elsewhere(at)]
    more = [f"{len(others) - NAMED_RUNS} more"] if len(others) > NAMED_RUNS else []
    named = ", ".join([*others[:NAMED_RUNS], *more])
    return [f"also ends what is left of run {named}"] if others else []


def _is_elsewhere(results_of_run: Path) -> bool:
    """Whether the results of a run belong in a folder outside `results` of the current folder, for
    example because the run was started in another folder."""
    return Path.cwd() / "results" not in results_of_run.parents


def cancel(inventory: Inventory, run_id: str | None) -> None:
    """Cancel a run and verify on every host that all its processes have ended.

    Raises:
        UsageError: no run is named, and another computer started the last one.
        HostsFailed: some hosts failed; on the others the run was cancelled.
    """
    run = find(_running(inventory), run_id)
    _cancel(inventory, run if run_id else _own(run))


def _own(run: Run) -> Run:
    """The run, if this computer started it; UsageError otherwise: it must be named."""
    if not local_state.recorded_run(run.run_id).elsewhere:
        return run
    raise UsageError(
        f"the last run, {run.run_id}, was started on another computer: name it",
        hint=Command("cancel", run=run.run_id),
    )


def _cancel(inventory: Inventory, run: Run) -> None:
    run = takeover.current(inventory, run)
    inventory = run.part_of(inventory)
    chief = inventory.chief.name
    with connect.open_sessions(inventory) as sessions, sessions.within(CANCEL_SECONDS):
        _, failed = connect.attempts(sessions, connect.start_agent)
        sessions.drop(failed)
        if not sessions:
            raise reach.not_reached("no host can be reached", sessions)
        outcomes = cancellation.cancel(sessions, run, chief)
        state = read_state(sessions[chief], run) if chief in sessions else None
    print_lines(*(f"[{name}] {text}" for name, text in outcomes.items()), *stop_policy.phase(state))
    if sessions.failed:
        what = f"{len(sessions.failed)} of {len(inventory.hosts)} hosts cannot be reached"
        again = Command("cancel", run=run.run_id)
        kind = HostsNotReached if sessions.out_of_reach else HostsFailed
        raise kind(f"{what}; the run was cancelled on the others", sessions.outcomes, hint=again)


@contextmanager
def connected(inventory: Inventory, run: Run) -> Iterator[RunConnection]:
    """Connect to the chief of the run, and only to it, and start an agent there."""
    inventory = run.part_of(inventory)
    with reach.agents(inventory.only([inventory.chief.name])) as (sessions, _):
        yield RunConnection(run, inventory, sessions.chief)


def follow(connection: RunConnection) -> None:
    """Show the run until it ends."""
    try:
        with board_of(connection.inventory.names) as board:
            follow_to_end(connection, board)
    except ConnectionLost as lost:
        what = f"{lost}; the run itself continues, unless its chief is lost"
        hint = _or_resume(connection.run, _again(connection.run))
        raise RunNotReached(what, hint=hint) from None


def follow_started(connection: RunConnection) -> None:
    """Show a run that this command started: Ctrl-C cancels it, SIGTERM leaves it running."""
    try:
        follow(connection)
    except Terminated:
        raise RunInterrupted("terminated; the run continues", hint=_again(connection.run)) from None
    except KeyboardInterrupt:
        _cancel_after_interrupt(connection.inventory, connection.run)


def _cancel_after_interrupt(inventory: Inventory, run: Run) -> None:
    text = "Ctrl-C: cancelling the run on every host; press Ctrl-C again to stop waiting for it"
    try:
        print_lines("", text)
        _cancel(inventory, run)
    except RailheadError as error:  # the exit code is still that of Ctrl-C
        raise RunInterrupted(error.message, hint=error.next) from None
    except KeyboardInterrupt:  # possibly before anything was cancelled
        what = "stopped waiting: the run may still have processes"
        again = Hint(Command("cancel", run=run.run_id), "   # checks each host")
        raise RunInterrupted(what, hint=again) from None
    note_output(_without_result(run, "cancelled"))
    hint = Hint(Command("fetch", run=run.run_id), "   # for its results so far")
    raise RunInterrupted(f"run {run.run_id} was cancelled", hint=hint)


def finish(connection: RunConnection) -> None:
    """Fetch the results, list them, and judge the run."""
    connection.ensure_open()
    run = connection.run
    result = results.fetch(connection.chief, run, print_lines)
    _print_results(run.results)
    if result is None or result.state != "succeeded":
        lines = checkpoints.status_lines(connection.chief, run)
        resume = Command("train", resume=run.run_id)
        print_lines(*lines, *(f"next: {resume}" for _ in lines))
    judge(connection, result)


def output_of(run: Run, result: Result | None) -> RunOutput:
    """The run as a document; without a result it is in progress."""
    if result is None:
        return _without_result(run, "running")
    return RunOutput(
        run_id=run.run_id,
        state=result.state,
        results=str(run.results),
        seconds=result.seconds,
        size=result.size,
        exit_code=result.exit_code,
        cause=str(result.cause) if result.cause else None,
        evaluation=dict(result.evaluation.values) if result.evaluation else None,
    )


def _without_result(run: Run, state: str) -> RunOutput:
    return RunOutput(run_id=run.run_id, state=state, results=str(run.results))


def judge(connection: RunConnection, result: Result | None) -> None:
    """Print how the run ended and what happens to the machines; raises the errors of
    `results.judge`."""
    inventory, run, chief = connection.inventory, connection.run, connection.chief
    wait = partial(stop_policy.wait_after_run, inventory, run, print_lines, notice=print_result)
    # A run that has ended without a result has failed: its supervisor died.
    note_output(output_of(run, result) if result else _without_result(run, "failed"))
    print_lines(*results.trouble_line(result), *results.attempt_lines(result))
    try:
        if result is None and (why := _why_no_result(chief, run)):
            raise why
        print_result(results.judge(run, result))
    except RailheadError:
        wait(chief=chief)
        raise
    wait(chief=chief)


def _why_no_result(chief: Session, run: Run) -> RunFailed | None:
    """The error for a run without a result, if its folder or its state shows why."""
    name = chief.host.name
    if not chief.read(f"{run.folder}/run.json"):
        what = f"run {run.run_id} is no longer on {name}, and has no result"
        return RunFailed(what, hint=Command("status"))
    state = read_state(chief, run)
    if state is None:
        return RunFailed(f"run {run.run_id} is {NOT_STARTED}", hint=Command("status"))
    if not state.has_ended:
        text = state_of(chief, run, state)
        after = Hint(Command("attach", run=run.run_id), "   # after that command")
        is_frozen = text.startswith("FROZEN")
        return RunFailed(f"run {run.run_id} on {name}: {text}", hint=after) if is_frozen else None
    why = clean(state.trouble or "")[: results.LONGEST_REASON] or "its result.json was removed"
    what = f"run {run.run_id} {state.state}, but {name} has no result of it: {why}"
    place = f"{run.folder}/results"
    return RunFailed(what, hint=Command("exec", cmd=f"df -h {place}; df -i {place}"))


def _print_results(folder: Path) -> None:
    print_result(f"results: {folder}")
    print_lines(*(f"  {path}" for path in listing(folder)))


def listing(folder: Path) -> list[str]:
    """The files of a results folder, but only their number for a folder with many; the first
    `SHOWN_ENTRIES` lines."""
    lines = [line for path in sorted(folder.iterdir()) for line in _entries(path)]
    hidden = len(lines) - SHOWN_ENTRIES
    return lines[:SHOWN_ENTRIES] + ([f"... and {hidden} more"] if hidden > 0 else [])


def _entries(path: Path) -> list[str]:
    if not path.is_dir():
        return [path.name]
    files = sorted(inner for inner in path.rglob("*") if inner.is_file())
    if len(files) > MANY_FILES:
        return [f"{path.name}/  {count(len(files), 'file')}"]
    return [file.relative_to(path.parent).as_posix() for file in files]
