"""Runs the trials of a sweep on slices of the hosts, one thread for each slice.

A thread takes the next trial, starts or continues its run, follows it, and records it in
sweep.json. The lock protects the state that the threads share: which trials are waiting or in
progress, and how each has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from railhead.documents.lazy import dataclass
from railhead.documents.options.hosts import ReadyOptions
from railhead.documents.options.runs import ProgramOptions, StartOptions, SweepOptions
from railhead.documents.runs.records import Record

from ...console import log
from ...console.live import common_board, prefixed
from ...console.output import print_lines
from ...console.text import count
from ...console.threads import side_by_side
from ...errors import (
    NOT_REACHED,
    BelowThreshold,
    Command,
    Hint,
    HostsBusy,
    HostsFailed,
    Interrupted,
    RailheadError,
    RunFailed,
    RunInterrupted,
    Terminated,
    UsageError,
)
from ...inventory import local_state
from ...inventory.hosts import Inventory
from ...lifecycle import power, stop
from ...lifecycle.power import ClusterStatus
from ...report.facts import RunFacts, read_run
from ...runs import results
from ...runs.request import RunRequest, read_request
from ...runs.run import find_run
from .. import attach, bootstrap, resume, train
from ..plan import ready_options
from .early_end import Course, is_hopeless
from .grid import Trial, read_trials, slices_of
from .sweep import (
    Sweep,
    best,
    changed_program,
    check,
    forget_unusable,
    has_ended,
    report,
    sweep_folder,
)
from .sweep_file import alone, record, recorded

AGAIN = "the same command again   # it continues where it stopped"


class Hopeless(Exception):
    """The trial is worse than the others at the same epoch."""


class Item(NamedTuple):
    """One trial of a sweep; `number` counts from 1."""

    number: int
    trial: Trial
    request: RunRequest


def run_trials(inventory: Inventory, chosen: Sweep) -> Path:
    """Run all trials and write the report; returns its page. After an interruption the same call
    continues.

    Raises:
        UsageError: the same sweep is in progress, or the hosts cannot be used.
        RunFailed: some trials did not end; their runs may be in progress. RailheadError: some
            trials did not end, and no run is in progress.
    """
    with alone(chosen.folder):
        with stop.after_all_runs(inventory, print_lines):
            forget_unusable(chosen.folder)
            trials = Trials(inventory, chosen)
            if trials.some_are_new():
                trials.make_ready()
            with common_board(inventory.names):
                trials.run()
            print_lines("trials:", *trials.outcome_lines())
            if error := trials.error():
                with suppress(UsageError):
                    report(chosen)
                raise error
        return report(chosen)


@dataclass(frozen=True)
class SweepOutcome:
    """The page, the run of each trial by the trial's name, and the best run, if there is one."""

    page: Path
    runs: Mapping[str, str]
    best: str | None


def run_sweep(
    target: Callable[[], ClusterStatus],
    base: ProgramOptions,
    options: SweepOptions,
    begin: StartOptions,
    results: Path,
) -> SweepOutcome:
    """Train the combinations that have no results yet, on the hosts of `target`; compare all.
    `begin`: the retries of each trial."""
    trials = read_trials(options.values, options.random)
    retried = [resume.with_retries(read_request(trial.args(base)), None, begin) for trial in trials]
    print_lines(*retried[0][1])
    requests = [(trial, request) for trial, (request, _) in zip(trials, retried, strict=True)]
    launcher = requests[0][1].options.launcher
    to_be_ready = ready_options(ReadyOptions(allow_mixed=True), base, launcher=launcher)
    folder = sweep_folder(results, base, trials)
    chosen = Sweep(
        requests, to_be_ready, folder, not options.to_end, options.at_once, (options, base, begin)
    )
    status = target()
    check(status.inventory, chosen)  # before machines of a stack are started
    print_lines(*changed_program(chosen))
    if has_ended(chosen):
        print_lines("all trials have already ended")
        page = report(chosen)
    else:
        page = run_trials(power.ensure_running(status, print_lines, start_them=True), chosen)
    first = best(chosen)
    return SweepOutcome(page, recorded(folder), first.run_id if first else None)


class Trials:
    """The trials of a sweep; one thread for each slice of the hosts runs them."""

    def __init__(self, inventory: Inventory, chosen: Sweep) -> None:
        self.inventory, self.chosen = inventory, chosen
        self.slices = slices_of(inventory, chosen.at_once, len(chosen.trials))
        self.lock = RLock()
        self.waiting = [Item(n, *trial) for n, trial in enumerate(chosen.trials, 1)]
        self.in_progress: dict[str, tuple[Inventory, str]] = {}
        self.outcomes: dict[str, str] = {}
        self.errors: dict[str, RailheadError] = {}
        self.interrupted = False
        self.courses = {
            name: _course(run)
            for name, run_id in recorded(chosen.folder).items()
            if (run := read_run(run_id)).state == "succeeded"
        }

    def some_are_new(self) -> bool:
        """Whether some trials were not started yet."""
        known = recorded(self.chosen.folder)
        return any(trial.name not in known for trial, _ in self.chosen.trials)

    def make_ready(self) -> None:
        """Make all hosts ready, unless a run is in progress.

        Raises:
            RunFailed: they cannot be used, and trials that were started before may be in progress.
        """
        try:
            bootstrap.bootstrap_idle(self.inventory, self.chosen.options)
        except RailheadError as error:
            if self._any_in_progress():
                raise _about(error, RunFailed, error.message, error.next) from None
            raise

    def run(self) -> None:
        """Run the trials on all slices. Ctrl-C cancels those in progress, SIGTERM leaves them."""
        wait = side_by_side(self._run_on, self.slices)
        try:
            wait()
        except Terminated:
            raise RunInterrupted("terminated; the runs continue", hint=AGAIN) from None
        except KeyboardInterrupt:
            running = self._interrupt()
            runs = count(len(running), "run")
            text = f"Ctrl-C: cancelling {runs} on every host; press Ctrl-C again to stop waiting"
            try:
                print_lines("", text)
                side_by_side(self._cancel, running)()
                wait()
            except KeyboardInterrupt:  # possibly before anything was cancelled
                what = "stopped waiting: the runs may still have processes"
                hint = Hint(Command("status"), "   # shows which runs are in progress")
                raise RunInterrupted(what, hint=hint) from None

    def _interrupt(self) -> list[tuple[Inventory, str]]:
        """Start no more trials, and delete the records of those in progress; returns these."""
        with self.lock:
            self.interrupted = True
            for name in self.in_progress:
                self.outcomes[name] = "interrupted"
                record(self.chosen.folder, name, None)
            return list(self.in_progress.values())

    def _cancel(self, running: tuple[Inventory, str]) -> None:
        part, run_id = running
        try:
            attach.cancel(part, run_id)
        except RailheadError as error:
            print_lines(*str(error).splitlines())
            hint = Hint(Command("cancel", run=run_id), "   # then the same command again")
            self.errors[run_id] = RunFailed(f"run {run_id} was not cancelled", hint=hint)

    def _drop(self, part: Inventory, run_id: str) -> None:
        """Cancel a run that was just started, and delete its record: recorded as not fetched, it
        would prevent spot machines from being terminated, but it has no results."""
        self._cancel((part, run_id))
        if run_id not in self.errors:
            local_state.forget_run(run_id)

    def _run_on(self, part: Inventory) -> None:
        """Run trials on one slice until none is waiting. A lost host ends the slice."""
        while (item := self._next(part)) and self._train(part, item):
            pass

    def _train(self, part: Inventory, item: Item) -> bool:
        """Run a trial, whatever happens; returns whether its slice can continue."""
        several = len(self.slices) > 1
        place = f" on {', '.join(part.names)}" if several else ""
        print_lines(f"trial {item.number} of {len(self.chosen.trials)}{place}: {item.trial.name}")
        with prefixed(f"trial {item.number}: " if several else ""):
            try:
                self._end(item.trial, self._run(part, item.trial, item.request))
            except Exception as error:
                self._give_up(item, _known(error))
                return False
        return True

    def _give_up(self, item: Item, error: RailheadError) -> None:
        """End a trial with an error. Another slice may take a trial that was not started."""
        trial = item.trial
        print_lines(*str(error).splitlines())
        why = "; ".join(line.strip() for line in error.message.splitlines()[:2])
        with self.lock:
            if not self.interrupted or isinstance(error, HostsBusy):
                self.errors[trial.name] = error
            if isinstance(error, HostsFailed) and trial.name not in self.in_progress:
                self.waiting.append(item)
            self._end(trial, f"did not end: {why}")

    def _next(self, part: Inventory) -> Item | None:
        """The next trial of a slice, first those that it has in progress; None if there is none."""
        with self.lock:
            known = recorded(self.chosen.folder)
            chiefs = {item.number: self._chief(known.get(item.trial.name)) for item in self.waiting}
            free = [item for item in self.waiting if chiefs[item.number] in ("", *part.names)]
            if not free or self.interrupted:
                return None
            first = min(free, key=lambda item: chiefs[item.number] == "")
            self.waiting.remove(first)
            for earlier in (self.errors, self.outcomes):  # on another slice
                earlier.pop(first.trial.name, None)
            return first

    def _any_in_progress(self) -> bool:
        """Whether a run of these trials was started on these hosts and has not ended."""
        known = recorded(self.chosen.folder)
        return any(self._chief(known.get(trial.name)) for trial, _ in self.chosen.trials)

    def _chief(self, run_id: str | None) -> str:
        """The chief of a run that was started on these hosts and has not ended; "" for other runs
        and for None."""
        run = read_run(run_id) if run_id else None
        if run is None or run.result or run.cluster != self.inventory.name or not run.document:
            return ""
        chief = run.document.hosts[0].name
        return chief if chief in self.inventory.names else ""

    def _run(self, part: Inventory, trial: Trial, request: RunRequest) -> str:
        """Start or continue a trial, and follow it to its end. Returns its outcome.

        Raises:
            RunFailed: the connection was lost, and the run continues. RailheadError: it was not
                started, or its hosts cannot be reached.
        """
        run_id = recorded(self.chosen.folder).get(trial.name)
        if run_id and read_run(run_id).result:
            print_lines(f"run {run_id} has already ended")
            return _outcome(run_id)
        self.inventory = power.of_now(self.inventory, print_lines)
        part = self.inventory.only(part.names)
        is_followed = self._chief(run_id)
        if not run_id or not is_followed:
            if run_id:
                print_lines(f"run {run_id} was on other hosts, and is not followed")
            run_id = self._start(part, request)
        if self._begin(trial, part, run_id):
            if not is_followed:
                self._drop(part, run_id)
            return "interrupted"
        return self._follow(part, trial, run_id)

    def _start(self, part: Inventory, request: RunRequest) -> str:
        chosen, policy = self.chosen, stop.policy_between(self.inventory)
        options = train.TrainOptions(
            request,
            chosen.options,
            chosen.folder,
            detach=True,
            stop_policy=policy,
            whole=self.inventory,
        )
        return train.train(part, options).run_id

    def _begin(self, trial: Trial, part: Inventory, run_id: str) -> bool:
        """Record the run of a trial; returns whether the sweep was interrupted during its start."""
        with self.lock:
            if not self.interrupted:
                self.in_progress[trial.name] = part, run_id
                record(self.chosen.folder, trial.name, run_id)
            return self.interrupted

    def _end(self, trial: Trial, outcome: str) -> None:
        """Keep the outcome of a trial. If it succeeded before it was cancelled, record it again."""
        with self.lock:
            self.outcomes.setdefault(trial.name, outcome)
            _, run_id = self.in_progress.pop(trial.name, (None, ""))
            if run_id and (run := read_run(run_id)).state == "succeeded":
                self.courses[trial.name] = _course(run)
                if self.interrupted:
                    self.outcomes[trial.name] = _outcome(run_id)
                    record(self.chosen.folder, trial.name, run_id)

    def _follow(self, part: Inventory, trial: Trial, run_id: str) -> str:
        try:
            with attach.connected(part, find_run(part, run_id)) as connection:
                if self.chosen.early_end:
                    connection.watch = _Watch(self, trial)
                attach.follow(connection)
                try:
                    attach.finish(connection)
                except (RunFailed, BelowThreshold) as error:
                    print_lines(*str(error).splitlines())
        except Hopeless:
            print_lines(
                f"run {run_id} is worse than the median of the earlier trials: it is cancelled"
            )
            attach.cancel(part, run_id)
            local_state.change_run(run_id, ended_early=True)
            with attach.connected(part, find_run(part, run_id)) as connection:
                results.fetch(connection.chief, connection.run, print_lines)  # not judged
        return _outcome(run_id)

    def others(self, trial: Trial) -> list[Course]:
        """The courses of the other trials that have succeeded so far."""
        with self.lock:
            return [course for name, course in self.courses.items() if name != trial.name]

    def outcome_lines(self) -> list[str]:
        """A line for each trial: how it ended."""
        names = [trial.name for trial, _ in self.chosen.trials]
        width = max(map(len, names))
        return [f"  {name:<{width}}  {self.outcomes.get(name, 'not begun')}" for name in names]

    def error(self) -> RailheadError | None:
        """The error of the sweep; None if all trials have ended."""
        known = recorded(self.chosen.folder)
        still_running = [
            error for error in self.errors.values() if isinstance(error, stop.RUN_LEFT)
        ]
        first = next(iter([*still_running, *self.errors.values()]), None)
        if self.interrupted and first:
            return RunInterrupted(f"the sweep was interrupted: {first.message}", hint=first.next)
        if self.interrupted and self._any_in_progress():
            what = "the sweep was interrupted; trials of an earlier command may be in progress"
            return RunInterrupted(what, hint=AGAIN)
        if self.interrupted:
            return Interrupted(
                "the sweep was interrupted; none of its runs is in progress", hint=AGAIN
            )
        if first is None or not known:
            return first
        names = [trial.name for trial, _ in self.chosen.trials]
        undone = [name for name in names if name in self.errors or name not in self.outcomes]
        may_run = still_running or any(name in known for name in undone)
        kind = RunFailed if may_run else RailheadError
        what = f"{len(undone)} of {count(len(names), 'trial')} did not end: {first.message}"
        return _about(first, kind, what, AGAIN)


def _about(
    cause: RailheadError, kind: type[RailheadError], what: str, hint: Hint | str
) -> RailheadError:
    """An error of this kind with the exit code of its cause, if the same command may work later."""
    error = kind(what, hint=hint)
    if cause.code == NOT_REACHED:
        error.code = NOT_REACHED
    return error


class _Watch:
    """Checks each record of a trial, and raises Hopeless."""

    def __init__(self, trials: Trials, trial: Trial) -> None:
        self.trials, self.trial, self.course = trials, trial, Course()

    def __call__(self, record: Record) -> None:
        self.course.add(record)
        if is_hopeless(self.course, self.trials.others(self.trial)):
            raise Hopeless


def _known(error: Exception) -> RailheadError:
    """The error itself; for an unexpected one RunFailed, because the run may be in progress."""
    if isinstance(error, RailheadError):
        return error
    log.mistake()
    return RunFailed(f"unexpected {type(error).__name__}: {error}", hint=AGAIN)


def _course(run: RunFacts) -> Course:
    course = Course()
    for epoch in run.epochs:
        course.add(epoch)
    return course


def _outcome(run_id: str) -> str:
    """How the run of a trial ended, such as "ok, run 20261121-112656-c507"."""
    state, names = read_run(run_id).state, {"succeeded": "ok", "not fetched": "failed"}
    return f"{names.get(state, state)}, run {run_id}"
