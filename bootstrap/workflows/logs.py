"""`fab logs`: print a log of a run from its chief, or follow it. If the chief does not answer, the
fetched results or the bucket have the log."""

from __future__ import annotations

from railhead.documents.agent.runs import Follow, LogLine, RunEvent

from ..clouds.bucket import bucket_of
from ..console.output import print_lines
from ..console.text import last_state
from ..errors import Command, HostsFailed, RunInterrupted, UsageError
from ..inventory.hosts import Inventory, whole_number
from ..lifecycle import power
from ..lifecycle.power import ClusterStatus
from ..runs.bucket import logs as bucket_logs
from ..runs.run import Run
from ..ssh.session import ConnectionLost, Session
from ..untrusted.run_files import read_run_document
from .attach import connected, find

OTHERS = ("mpirun", "supervisor")


def show(
    status: ClusterStatus, run_id: str | None, rank: str, *, follow: bool, start: bool
) -> None:
    """Print a log of a run, and with `follow` new lines until the run ends; Ctrl-C stops only the
    output. `rank` is a rank's number, "mpirun" or "supervisor". `start`: start stopped machines.

    Raises:
        RunInterrupted: the output was interrupted; the run continues.
    """
    name = _log_name(rank)
    run = find(status, run_id)
    inventory = run.part_of(status.inventory)
    chief = inventory.chief.name
    idle = chief in status.not_running and not start
    if idle and _show_kept(inventory, run, name, f"{chief} does not run"):
        return
    try:
        inventory = power.ensure_running(status, print_lines, start_them=start)
        (_follow if follow else _show_from_chief)(inventory, run, rank)
    except (HostsFailed, ConnectionLost, _Gone) as error:
        if not _show_kept(inventory, run, name, error.message):
            raise


class _Gone(UsageError):
    """The run is no longer on its chief, for example because the machine was recreated."""


def _show_kept(inventory: Inventory, run: Run, name: str, why: str) -> bool:
    """Print the log without the chief: that of results which were fetched at the end of the run,
    otherwise that of the bucket. False if there is neither."""
    file = run.results / "logs" / f"{name}.log"
    fetched = (run.results / "result.json").is_file() and file.is_file()
    if not fetched and not inventory.bucket:
        return False
    print_lines(why)
    if fetched:
        _print(file.read_text(errors="replace"))
        print_lines(f"{file}: fetched at the end of the run")
    else:
        _show_from_bucket(inventory, run, name)
    return True


def _show_from_bucket(inventory: Inventory, run: Run, name: str) -> None:
    log = bucket_logs.read(bucket_of(inventory), run, name)
    _print(log.text)
    print_lines(log.source)


def _print(text: str) -> None:
    print_lines(*map(last_state, text.removesuffix("\n").split("\n")))


def _show_from_chief(inventory: Inventory, run: Run, rank: str) -> None:
    with connected(inventory, run) as connection:
        text = connection.chief.read(f"{run.folder}/logs/{_log_name(rank)}.log")
        if text is None:
            raise _missing(connection.chief, run, rank)
    _print(text)


def _follow(inventory: Inventory, run: Run, rank: str) -> None:
    def show_line(event: RunEvent) -> None:
        if isinstance(event, LogLine):
            print_lines(last_state(event.log))

    try:
        with connected(inventory, run) as connection:
            connection.chief.call(Follow(run.folder, log=_log_name(rank)), on_event=show_line)
    except KeyboardInterrupt:
        raise RunInterrupted("the run continues", hint=Command("attach", run=run.run_id)) from None


def _log_name(rank: str) -> str:
    return rank if rank in OTHERS else f"rank-{whole_number(rank, '--rank', 0, 9999)}"


def _missing(chief: Session, run: Run, rank: str) -> UsageError:
    """The error for a log that does not exist, with the choices."""
    text = chief.read(f"{run.folder}/run.json")
    if not text:
        return _Gone(f"run {run.run_id} is no longer on {chief.host.name}", hint=Command("status"))
    ranks = f"0 to {read_run_document(text).size - 1}"
    return UsageError(
        f"run {run.run_id} has no log of rank {rank}; choices: {ranks}, {', '.join(OTHERS)}"
    )
