"""Runs on the chief: starts mpirun, stores the output of the ranks, and writes the result.

It continues after the connection that started it closes. state.json gets a heartbeat every second;
result.json is always written at the end. SIGTERM cancels the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

from railhead.documents.codec import encode
from railhead.documents.lazy import replace
from railhead.documents.runs.cause import Cause
from railhead.documents.runs.evaluation import Reported
from railhead.documents.runs.manifest import Outputs
from railhead.documents.runs.result import Culprit, Result
from railhead.documents.runs.run import AfterRun, RunDocument
from railhead.documents.runs.swept import NotSwept, Swept
from railhead.documents.runs.takeover import NO_LEASE, Taken

from ..attempts.elastic import Returning
from ..attempts.points import Checkpoints
from ..attempts.restarts import Ended, Times
from ..attempts.run_state import State
from ..base import children, json_file, locks, programs
from ..causes.retry import NEVER
from ..output.mpirun_output import Verdict, verdict
from ..output.rank_output import RunOutput
from ..output.recorded import last_step, metric_numbers
from ..run import (
    closing,
    cluster_key,
    controller,
    end_processes,
    held,
    manifest,
    stop_policy,
    thresholds,
)
from ..run.lease import HOLD
from ..stall.watch import StallWatch

RUN = os.getcwd()  # the run's folder
LOCK = os.path.expanduser(programs.LOCK)
SHOWN = 12  # lines of mpirun that are shown if it names no rank
SHUT_DOWN = "Horovod has been shut down"  # what other ranks print when one has ended
LEFT = "mpirun ended without a message, before its ranks"
GRACE = 5.0  # seconds: for mpirun after SIGTERM, and to read what remains in its pipes
BACKLOG = 600.0  # seconds to read the remaining output of mpirun, which is finite
PROCESS_NAME = b"railhead-run"  # of a supervisor that `fab cancel` may kill
CANCELLED = False  # not an Event: a SIGTERM while its lock is held would deadlock
LOST_LEASE = (
    f"{NO_LEASE}, because its sign of life did not arrive in the bucket for {HOLD:g} s: another"
    " host may supervise the run"
)


def path(name: str) -> str:
    """A path in the run's folder."""
    return os.path.join(RUN, name)


def cancel(*_: object) -> None:
    """Cancel the run; also the handler of SIGTERM."""
    global CANCELLED
    CANCELLED = True


class Supervisor:
    """One attempt of a run, from mpirun's start to its result."""

    def __init__(self, state: State) -> None:
        self.state, self.begun = state, time.monotonic()
        self.run = json_file.read(path("run.json"), RunDocument)
        self.hosts = [host.name for host in self.run.hosts]
        secrets = json_file.take(path("memory/secrets.json")) if self.run.secrets else {}
        self.secrets: dict[str, str] = secrets
        self.output = RunOutput(
            RUN, self.run, self.secrets.values(), state.write_errors, state.numbers, state.energy
        )
        self.retry = NEVER
        self.returning = Returning(self.run, RUN, state.restarts.unfit, state.changes)
        self.grows = False  # whether the attempt was ended to take a host back
        self.watch = StallWatch(self.run, RUN, self.output)
        self.ended_servers = False
        self.evaluation: Reported | None = None
        self.outputs = Outputs(())
        self.silent: int | None = None  # the host whose silence ended the run
        self.silent_rank: int | None = None  # if other ranks of that host were not silent
        self.is_lost = False  # whether another host may supervise the run
        self.kept: tuple[str, ...] = ()  # the names of the processes that outlive this attempt

    def go(self) -> Result:
        """Run mpirun, then end all processes of the run."""
        children.set_name(PROCESS_NAME)
        if not os.path.exists(path(manifest.BEFORE)):  # otherwise an attempt has written files
            with self.state.counted():  # also used by a fetch
                json_file.save(path(manifest.BEFORE), manifest.snapshot(RUN))
        self.state.start_lease(self.run)
        self.state.start_uploads(self.run)
        readers: list[threading.Thread] = []
        code = 0
        try:
            argv: list[str] = json_file.load(path("mpirun.json"))
            with started(argv, self.output.source.descriptor) as process:
                self.state.beat(state="running", mpirun=process.pid)
                work = (self.output.read, self.output.read_mpirun)
                readers = [threading.Thread(target=w, args=(process,), daemon=True) for w in work]
                for reader in readers:
                    reader.start()
                code = self.wait(process)
        finally:
            protect_from_cancel()  # first: ending processes on a slow host takes a while
            self.kept = (end_processes.SPARE,) if self.may_restart(code) else ()
            swept = end_processes.end_on_all_hosts(self.run, RUN, *self.kept)
            for reader, seconds in zip(readers, (BACKLOG, GRACE), strict=False):
                reader.join(seconds)  # only now: leftover processes of a rank had kept a pipe open
        self.output.read_kept()
        self.note(self.output.close_metrics())
        self.check()
        self.evaluation = self.judged()
        self.list_outputs()
        return self.explained(self.result(code, swept))

    def may_restart(self, code: int) -> bool:
        """Whether another attempt with the spare processes of this one may follow; `code`: mpirun's
        exit code."""
        failed = (code or self.must_fail()) and self.output.chief_ended is None
        return bool(failed and self.run.retries and self.run.spare and not CANCELLED)

    def end_kept(self) -> None:
        """End the processes that outlived the last attempt."""
        if self.kept:
            end_processes.end_on_all_hosts(self.run, RUN)

    def after_takeover(self, taken: Taken) -> Result:
        """The result of the attempt whose chief was lost."""
        self.state.start_lease(self.run)
        self.state.start_uploads(self.run)
        earlier = sum(attempt.seconds for attempt in self.state.restarts.attempts)
        self.begun = time.monotonic() - self.state.run_seconds + earlier
        self.output.stepped, self.output.step = True, last_step(RUN)
        result = Result(
            run_id=self.run.run_id,
            state="failed",
            culprit=Culprit(None, taken.lost, (taken.seen,) if taken.seen else ()),
            size=self.run.size,
            no_restart=taken.why or None,
        )
        return self.explained(result)

    def start_again(self, result: Result) -> Result | None:
        """Prepare the hosts for another attempt and return None; or return the result, with the
        reason. A cancel meanwhile ends the next attempt."""
        if self.is_lost:
            return result
        decision = self.state.restarts.decide(self.ended(result))
        self.note(decision.trouble)
        if self.loses_lease():
            return self.without_lease(result)
        if decision.attempt is None:
            return replace(result, no_restart=decision.why or None)
        if decision.since is not None:
            self.state.numbers = metric_numbers(RUN, decision.since)
        self.output.end_attempt(f"railhead: {decision.attempt.summary}", decision.since)
        self.state.beat(attempts=self.state.restarts.attempts)
        return None

    def ended(self, result: Result) -> Ended:
        """This attempt, for the decision on the next one."""
        return Ended(
            run=self.run,
            folder=RUN,
            result=result,
            retry=self.retry,
            times=self.times(),
            stepped=self.output.stepped,
            step=self.output.step,
            outputs=self.outputs,
            secrets=self.secrets,
            tick=self.tick,
            cancelled=lambda: CANCELLED or self.loses_lease(),
            grows=self.grows,
            changes=self.state.changes,
        )

    def times(self) -> Times:
        """The duration of this attempt and of the run so far."""
        seconds, first_step = time.monotonic() - self.begun, self.output.first_step
        return Times(seconds, self.state.run_seconds, first_step and first_step - self.begun)

    def tick(self) -> None:
        """Called between two attempts: write a sign of life, and cancel a run whose time is
        over."""
        self.state.beat()
        if stop_policy.is_over(self.run, self.state.run_seconds):
            cancel()

    def unless_cancelled(self, result: Result) -> Result:
        """The result; `cancelled` for a run that was cancelled after its ranks had failed."""
        could_restart = self.run.keras_auto or self.run.retries
        if result.state == "failed" and could_restart and CANCELLED:
            return replace(result, state="cancelled", culprit=None, why=self.why())
        return result

    def judged(self) -> Reported | None:
        """The evaluation, also written to evaluation.json. With thresholds, and in a run that
        evaluates another one, it is judged and gets the last values of --metric, except those that
        the program's own evaluation has."""
        evaluation, limits = self.output.evaluation, self.run.thresholds
        judgement = None
        if limits or self.run.evaluates:
            evaluation = (evaluation or Reported()).after(self.output.last_metrics)
            judgement = thresholds.judged(evaluation, limits)
        if evaluation is None:
            return None
        file = path("results/evaluation.json")
        reported = Reported(json_file.load_object(file))  # the file has more values, and all digits
        written = reported.after(evaluation.values)
        if judgement:
            evaluation, written = evaluation.judged(judgement), written.judged(judgement)
        with self.state.counted():
            json_file.save(file, encode(written))
        return evaluation

    def list_outputs(self) -> None:
        """Write the list of files that the run wrote in work/."""
        files, why = closing.outputs(RUN)
        self.outputs = files
        self.note(why)
        with self.state.counted():
            json_file.save(path("results/outputs.json"), files)

    def note(self, why: str) -> None:
        """Add an unfinished step to the result; "" is none."""
        self.state.unfinished += [why] if why else []

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        """Wait until mpirun has ended; returns its exit code."""
        terminated = beat = 0.0
        while process.poll() is None:
            time_now = time.monotonic()
            if time_now - beat >= 1:
                beat = time_now
                self.state.beat(begun=self.output.unfinished, stall=self.watch.stall)
                controller.is_connected(path("attached"))
                self.returning.look()
                self.state.start_uploads(self.run)
            self.watch.look(time_now)
            if stop_policy.is_over(self.run, self.state.run_seconds):
                cancel()
            if not terminated and self.must_end():
                terminated = time_now
                process.terminate()
            elif terminated and time_now - terminated > GRACE:
                process.kill()
            self.check()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        self.watch.is_over = True
        return process.returncode

    def must_end(self) -> bool:
        """Whether the run must be ended: it was cancelled, its lease lost, only parameter servers
        are left, a host fell silent or answers again, or it has stalled. Notes which, for the
        result."""
        self.ended_servers = self.only_servers_are_left()
        if CANCELLED or self.loses_lease() or self.ended_servers:
            return True
        self.grows = self.returning.is_due(self.lacks_time) and not self.known()
        if self.grows:
            return True
        silent = self.output.heartbeats.lost()
        if silent is not None and not self.known():
            if self.silent is None:
                self.silent_rank = self.output.heartbeats.silent_alone(silent)
                lines = f"what ranks on {self.hosts[silent]} printed in the last seconds is lost"
                self.note(lines)
            self.silent = silent
        return silent is not None or self.watch.ends_run

    def loses_lease(self) -> bool:
        """Whether another host may supervise the run now; always False unless `takeover` is set."""
        self.is_lost = self.is_lost or held.has_lost(RUN)
        return self.is_lost

    def without_lease(self, result: Result) -> Result:
        """The result of a chief that has lost the lease; it stays on this host."""
        chief = self.hosts[0]
        cause = Cause("host", LOST_LEASE, chief)
        culprit = Culprit(None, chief, (LOST_LEASE,))
        code = result.exit_code or 1
        return replace(
            result, state="failed", exit_code=code, why=None, culprit=culprit, cause=cause
        )

    def lacks_time(self, checkpoints: Checkpoints) -> bool:
        """Whether the time left is too short for another attempt."""
        return bool(self.state.restarts.lacks_time(self.run, checkpoints, self.times()))

    def only_servers_are_left(self) -> bool:
        """Whether the chief rank ended without an error GRACE seconds ago: only parameter servers
        remain, which would run for ever. A chief rank that ends by os._exit(0) reports nothing, but
        its process is gone. After a failure, mpirun would have ended all ranks by now."""
        ended = self.output.chief_ended or self.output.chief_gone
        return ended is not None and time.monotonic() - ended > GRACE

    def known(self) -> bool:
        """Whether a failure has been reported."""
        return bool(self.output.failed) or verdict(" ".join(self.output.mpirun)) is not None

    def check(self) -> None:
        """Raise the error of a reading thread."""
        if self.output.broken:
            raise self.output.broken

    def result(self, code: int, swept: Mapping[str, Swept | NotSwept]) -> Result:
        """How the run has ended, from mpirun's exit code and from the ranks that ended: Open MPI 5
        exits with 0 after it has lost a host, and leaves the ranks running."""
        if self.output.chief_ended is not None or self.ended_servers:
            code = 0  # mpirun's code is that of the servers, which were ended
        elif self.output.heartbeats.going or self.must_fail():
            code = code or 1
        state = "cancelled" if CANCELLED else "failed" if code else "succeeded"
        return Result(
            run_id=self.run.run_id,
            state=state,
            exit_code=code if code >= 0 else 128 - code,
            culprit=self.culprit(code) if state == "failed" else None,
            size=self.run.size,
            evaluation=self.evaluation,
            swept=swept,
            why=self.why() if state == "cancelled" else None,
        )

    def must_fail(self) -> bool:
        """Whether the supervisor has ended the attempt as failed."""
        return self.is_lost or self.silent is not None or self.grows or self.watch.ends_run

    def explained(self, result: Result) -> Result:
        """The result with the cause of a failure, which the culprit's output and host show."""
        if self.is_lost:
            return self.without_lease(result)
        if result.culprit is None:
            return result
        from ..attempts import evidence
        from ..causes import causes

        seconds = time.monotonic() - self.begun
        failure = evidence.collect(self.run, RUN, causes.Failure(result.culprit), seconds)
        diagnosis = causes.diagnosed(failure)
        self.retry = diagnosis.retry
        return replace(result, cause=diagnosis.cause)

    def why(self) -> str | None:
        """Why the run was cancelled; None if a user cancelled it."""
        if stop_policy.is_over(self.run, self.state.run_seconds):
            budget = f", or its budget of {self.run.budget:g} USD" if self.run.budget else ""
            return f"its {self.run.max_hours:.3g} hours (--max-hours{budget}) were over"
        return None

    def culprit(self, code: int) -> Culprit:
        """The rank that failed first. A rank reports its exit; mpirun reports a killed rank or a
        lost host."""
        if self.silent is not None:
            return Culprit(None, self.hosts[self.silent], (self.silence(),))
        if self.grows:
            return Culprit(None, self.returning.back, ("it answers again: the run takes it back",))
        if self.watch.stall and self.watch.ends_run:
            return self.watch.culprit(self.watch.stall)
        first = verdict(" ".join(self.output.mpirun))
        if self.output.failed and (first is None or first.kind not in ("signal", "lost")):
            rank, code = next(iter(self.output.failed.items()))
            blamed = self.blame(rank)
            earlier = self.early_end(blamed) or self.unreported_exit(first, blamed)
            return earlier or replace(blamed, exit=code)
        if first and first.rank is not None:
            blamed = self.blame(first.rank)
            killed = first.kind == "signal"
            status = code if first.code is None else first.code
            return replace(blamed, signal=status) if killed else replace(blamed, exit=status)
        lines = [line for line in self.output.mpirun if line][:SHOWN]
        return Culprit(None, self.lost_host(first), tuple(lines) or (LEFT,))

    def early_end(self, blamed: Culprit) -> Culprit | None:
        """The rank that ended without an error before the others, if the error of `blamed` shows
        that."""
        others = sorted(self.output.finished.difference(self.output.failed))
        if not others or not any(SHUT_DOWN in line for line in blamed.lines):
            return None
        early = self.blame(others[0])
        line = (
            f"rank {early.rank} ended before the others, as rank {blamed.rank} shows: {SHUT_DOWN}"
        )
        return replace(early, lines=(*early.lines, line), exit=0)

    def unreported_exit(self, first: Verdict | None, blamed: Culprit) -> Culprit | None:
        """The rank that mpirun names, if it ended without a report, as by os._exit(7), and the
        error of `blamed` is a lost connection."""
        reported = self.output.finished.union(self.output.failed)
        if first is None or first.kind != "exit" or first.rank is None or first.rank in reported:
            return None
        from ..causes import causes

        is_effect = causes.diagnosed(causes.Failure(blamed)).cause.class_ == "network"
        return replace(self.blame(first.rank), exit=first.code) if is_effect else None

    def lost_host(self, first: Verdict | None) -> str | None:
        """The host whose daemon mpirun has lost."""
        present = [host.name for host in self.run.present.values()]
        position = first.present if first else None
        return present[position] if position is not None and position < len(present) else None

    def silence(self) -> str:
        """The line about the host that fell silent."""
        seconds = self.output.heartbeats.limit(self.silent or 0)
        if (rank := self.silent_rank) is not None:
            return f"no heartbeat of rank {rank} for {seconds:g} s: its output helper has ended"
        program = "mpirun" if self.silent == 0 else "daemon of mpirun"
        return f"no heartbeat of its ranks for {seconds:g} s: the host or its {program} hangs"

    def blame(self, rank: int) -> Culprit:
        """A rank as the culprit, with its last lines."""
        return Culprit(rank, self.output.host_of(rank), tuple(self.output.logs[rank].lines()))


@contextlib.contextmanager
def started(argv: list[str], stdout: int) -> Iterator[subprocess.Popen[bytes]]:
    """Start mpirun; the end of the block always ends it."""
    pipes: dict[str, Any] = {"stdout": stdout, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        argv,
        cwd=RUN,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: children.end_with_parent(signal.SIGTERM),
        **pipes,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)  # the reading thread continues until its end is known


def protect_from_cancel() -> None:
    """Take the process name that `end_processes` ignores. mpirun has ended. To end leftover
    processes on slow hosts and to hash the results may take minutes, and only this process can then
    write the result and stop the machines."""
    children.set_name(end_processes.FINISHING.encode())


def failure(code: int, *lines: str) -> Result:
    """The result of a run whose failure is not that of a rank."""
    culprit = Culprit(None, None, lines)
    run_id = os.path.basename(RUN)
    return Result(run_id=run_id, state="failed", exit_code=code, culprit=culprit)


def attempt(state: State) -> Result:
    """Run all attempts; returns a result even if the run could not start or the supervisor
    failed."""
    try:
        taken = json_file.if_any(path(programs.TAKEOVER), Taken)  # None on the run's first chief
        while True:
            supervisor = Supervisor(state)
            ended = supervisor.after_takeover(taken) if taken else supervisor.go()
            result = ended if ended.no_restart else supervisor.start_again(ended)
            if result:
                supervisor.end_kept()
                return supervisor.unless_cancelled(result)
            taken = None
    except BaseException as error:
        if isinstance(error, FileNotFoundError) and error.filename == "mpirun":
            return failure(127, "mpirun cannot be started: it is not on the PATH of this chief")
        return failure(1, *printed_error())
    finally:
        protect_from_cancel()
        state.end_uploads()


def printed_error() -> list[str]:
    """The lines of the traceback of the current error."""
    import traceback

    return traceback.format_exc().splitlines()


def other_run(free: bool) -> str:
    """The id of the run that holds the lock; "" if the lock was free: then this run's id is
    written."""
    if not free:
        with open(LOCK) as lock:
            return lock.read().strip() or "unknown"
    with contextlib.suppress(OSError), open(LOCK, "w") as lock:
        lock.write(os.path.basename(RUN))
    return ""


def main(held: str = "") -> int:
    """Supervise the run; exit code 1 when it never started. `held`: if set, the command that starts
    the run checks the hosts while this process loads its modules: a byte on standard input lets it
    continue, EOF ends it."""
    keeper = prepare() if held else None
    if held and not os.read(0, 1):
        end_processes.drop_temporary_of(os.path.basename(RUN))  # its secrets
        return 1
    signal.signal(signal.SIGTERM, cancel)
    with contextlib.ExitStack() as stack:
        try:
            other = other_run(stack.enter_context(locks.try_lock(LOCK)))
            why = f"run {other} is running on this chief: one run at a time" if other else ""
        except OSError as error:
            other, why = "", f"the lock cannot be opened: {error}"
        if other == os.path.basename(RUN):
            print("this run already has a supervisor, which writes its files", file=sys.stderr)
            return 1
        state = State(RUN)
        if why:
            protect_from_cancel()
            state.end(failure(1, why))
            end_processes.drop_temporary_of(os.path.basename(RUN))
            return 1
        wait_for_key = cluster_key.hold(keeper)
        state.beat()
        state.changes.watch()
        wait_for_key()
        try:
            state.end(attempt(state))
        except Exception:  # the machines must stop after any error
            print(*printed_error(), sep="\n", file=sys.stderr)
        become_machine_stopper()
    return 0


def prepare() -> cluster_key.Keeper | None:
    """Do early what takes time: start the program for the key, and build the classes of the run's
    document."""
    keeper = cluster_key.prepare()
    json_file.intact(path("run.json"), RunDocument)  # if it is damaged, the start reports it
    return keeper


def become_machine_stopper() -> None:
    """Exec stop_machines if results are to be uploaded or machines to be stopped. The run's
    variables are removed from the environment, so ending the run does not end it."""
    run = json_file.intact(path("run.json"), AfterRun)  # without it there is no stop command
    if run and (run.stop or run.bucket):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        environment = children.unmarked()
        os.execve(sys.executable, programs.command(programs.STOP_MACHINES), environment)
