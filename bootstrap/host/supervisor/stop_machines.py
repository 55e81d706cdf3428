"""Waits until a run's results are safe, then stops its machines. The supervisor execs this program.

Its environment has no RAILHEAD_RUN, so ending the run's processes does not end it. To power off a
host, it runs only the host's `stop` command in run.json.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from railhead.documents.lazy import replace
from railhead.documents.names import is_name
from railhead.documents.runs.manifest import Fetched
from railhead.documents.runs.run import AfterRun
from railhead.documents.runs.state import Machines, RunState

from ..base import bounded, json_file, programs
from ..buckets.repeats import LASTING
from ..run import checkpoint_files, controller, end_processes, held, machine_use, stop_policy
from ..run.lease import CUT_OFF, OTHER_LEADS
from ..upload import live_upload

RUN = os.getcwd()  # the run's folder
RUN_ID = os.path.basename(RUN)
HostStop = tuple[str, str, tuple[str, ...] | None]  # name, alias in the cluster, argv
TRIES = 3  # for the upload, and for each host's stop
PAUSE = 5.0  # seconds between them
BEGUN = "railhead-stops"  # what another host prints before its stop command
COMMAND = 60.0  # seconds for one command on a host: a frozen host never answers
SSH_FAILED = 255  # exit code of ssh itself
GONE = 60.0  # seconds within which a host must stop answering after its stop command
UPLOADING = 3600.0  # seconds for all tries together: GPUs cost money meanwhile
STATE_UPLOADING = 60.0  # seconds for state.json alone, a few kB
# After a takeover, this host is unused if it had no rank for so many seconds: the host that
# supervises the run waits 10 minutes for others.
UNUSED = 1200.0
LOOK = 10.0  # seconds between two checks for ranks, and between two claims
IN_USE = "not stopped: another host may lead the run"


def path(name: str) -> str:
    """A path in the run's folder."""
    return os.path.join(RUN, name)


def stamp(seconds: float = 0) -> str:
    """The time `seconds` from now, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


class MachineStopper:
    """Uploads the results, waits as the stop policy says, then stops the machines."""

    def __init__(self, run: AfterRun, state: str) -> None:
        self.run, self.state = run, state
        self.keep_minutes = run.stop.keep_minutes if run.stop else None
        self.ended = time.monotonic()
        self.uploaded = False
        self.is_lost = held.has_lost(RUN)  # another host may supervise the run
        self.machines = Machines("", "")

    def go(self) -> None:
        """Upload, wait, stop; write each phase to state.json."""
        if self.run.bucket and not self.is_lost:
            self.upload_all()
            held.finish(RUN)
            self.is_lost = held.has_lost(RUN) and not self.uploaded
        while (step := self.next_action()).kind in ("wait", "keep"):
            time.sleep(0.5)
        if step.kind == "none":
            self.report("left to " + (self.successor() or "you"), until=None)
            return
        if self.is_lost:
            self.is_lost = not self.leads_again()
            if not self.is_lost:
                self.upload_all()
        with machine_use.run_lock() as free:
            if not free or self.successor():
                self.report("left to a later run", until=None)
            elif later := self.run_of_others():
                self.report(f"left to {later}", until=None)
            else:
                self.stop()

    def next_action(self) -> stop_policy.Action:
        """What the stop policy says now; what this process waits for is reported, with the time at
        which the machines stop at the latest."""
        now = time.monotonic()
        controller.is_connected(path("attached"))
        ago = controller.seconds_since_seen(path("attached"))
        situation = stop_policy.Situation(
            now=now,
            ended=self.ended,
            state=self.state,
            fetched=self.fetched() is not None,
            attached=None if ago is None else now - ago,
            successor=self.successor(),
        )
        action = stop_policy.decide(self.keep_minutes, situation)
        latest = stop_policy.kept_until(self.keep_minutes, situation)
        until = self.machines.until or (stamp(latest - now) if latest else None)
        if action.kind == "keep":
            self.report("keeping", until=until)
        elif action.kind == "wait":
            self.report("waiting for the results to be fetched", until=until)
        return action

    def fetched(self) -> Fetched | None:
        """The notice that a controller writes after a verified fetch; None before."""
        return json_file.intact(path("fetched"), Fetched)

    def successor(self) -> str:
        """The id of a later run on these machines; "" if there is none."""
        with contextlib.suppress(OSError), open(machine_use.LOCK) as lock:
            last = lock.read().strip()
            return last if last != RUN_ID else ""
        return ""

    def run_of_others(self) -> str:
        """The id of a later run whose chief is another host; "" if there is none. Only after a
        takeover can later runs have another chief."""
        term = held.term_of(RUN)
        if self.is_lost or term is None or term.number == 1:
            return ""
        others = [alias for name, alias, _ in stop_policy.stops(self.run) if name != term.host]
        with ThreadPoolExecutor(max(1, len(others))) as pool:
            locks = pool.map(lambda alias: ssh(alias, f"cat {programs.LOCK}"), others)
            texts = [lock.out.strip() for lock in locks if lock.code == 0]
            runs = [text for text in texts if is_name(text)]
        return max((run for run in runs if run > RUN_ID), default="")  # ids begin with the time

    def report(self, phase: str, **more: Any) -> None:
        """Write the phase to state.json; a failed write does not prevent the stop."""
        fetched = self.fetched()
        files_left = fetched.left if fetched else 0
        where = stop_policy.results(
            self.run, uploaded=self.uploaded, fetched=fetched is not None, unfetched=files_left
        )
        machines = replace(self.machines, phase=phase, results=where, **more)
        if machines == self.machines:
            return
        self.machines = machines
        with contextlib.suppress(OSError, ValueError):
            state = json_file.read(path("state.json"), RunState)
            state = replace(state, machines=replace(machines, at=stamp()))
            json_file.save(path("state.json"), state)

    def upload_all(self) -> None:
        """Upload the results, the last checkpoints and the logs."""
        until = time.monotonic() + UPLOADING
        self.upload_results(until)
        self.upload_rest(until)

    def upload_rest(self, until: float) -> None:
        """Upload the last checkpoints, and the end of the logs if they are not with the results;
        a failure is written to state.json."""
        command = [*live_upload.argv(self.run, RUN), "once" if self.uploaded else "rest"]
        seconds = until - time.monotonic()
        if has_checkpoints := bool(checkpoint_files.complete_files(path(checkpoint_files.FOLDER))):
            seconds = max(STATE_UPLOADING, seconds)
        if seconds <= 0:
            return
        why = bounded.run(command, seconds).why
        if why and has_checkpoints:
            self.report(self.machines.phase, checkpoints=why)

    def upload_results(self, until: float) -> None:
        """Upload the results to the bucket; the outcome is written to state.json."""
        self.report("uploading the results to the bucket")
        why = ""
        for attempt in range(TRIES):
            time.sleep(PAUSE if attempt else 0)
            if time.monotonic() >= until:
                break
            began = time.monotonic()
            why = upload(self.run, until - began)
            if not why:
                self.uploaded = True
                self.report("uploaded")
                return
            if time.monotonic() - began >= LASTING:
                break  # its calls were already repeated for this long
        self.report("not uploaded", upload=why)

    def leads_again(self) -> bool:
        """Whether this host leads the run again. Wait until it has had no rank of the run for
        UNUSED seconds: the host that supervises the run now may train here again, and would stop
        this machine at the end. Then claim the lease. While the bucket does not answer, claim again
        for CUT_OFF seconds: by then a standby that was cut off too has given up."""
        self.report("left to the host that took the run over, unless it does not use this one")
        used = time.monotonic()
        while (unused := time.monotonic() - used) < UNUSED + CUT_OFF:
            if end_processes.processes(RUN_ID):
                used = time.monotonic()
            elif unused >= UNUSED and (leads := reclaim(self.run)) is not None:
                return leads
            time.sleep(LOOK)
        return False

    def stop(self) -> None:
        """Stop the other hosts first, this one last. If the lease of the run is lost, stop only
        this one: another host uses the others."""
        *others, (name, _, argv) = hosts = stop_policy.stops(self.run)
        in_use: dict[str, str] = {}
        if self.is_lost:
            others, (name, _, argv) = [], self.own_stop()
            in_use = {host: IN_USE for host, _, _ in hosts if host != name}
        self.report("stopping", stopped={}, until=None)
        with ThreadPoolExecutor(max(1, len(others))) as pool:
            outcome = pool.map(lambda other: stop_remote_host(*other[1:]), others)
            outcomes = {host: why for (host, _, _), why in zip(others, outcome, strict=True)}
        outcomes |= in_use
        self.report("stopping", stopped=outcomes)
        if argv is None:
            self.report("stopped", stopped={**outcomes, name: "has no stop command"})
            return
        if endpoint := machine_use.live_endpoint():
            self.report("stopped", stopped={**outcomes, name: f"left to endpoint {endpoint}"})
            return
        self.report("stopping", stopped={**outcomes, name: "stop command sent"})
        if self.uploaded:
            upload(self.run, STATE_UPLOADING, "state.json")
        self.report("stopping", stopped={**outcomes, name: stop_this_host(argv)})

    def own_stop(self) -> HostStop:
        """This host's stop command, even if run.json is from the host that took the run over."""
        term = held.term_of(RUN)
        stops = stop_policy.stops(self.run)
        return next((stop for stop in stops if term and stop[0] == term.host), stops[-1])


def reclaim(run: AfterRun) -> bool | None:
    """Whether this host has the lost lease again, because no host has taken the run over; None if
    the bucket does not answer."""
    code = bounded.run(bounded.command_with_client(run, RUN, programs.RECLAIM), COMMAND).code
    return code == 0 if code in (0, OTHER_LEADS) else None


def upload(run: AfterRun, seconds: float, *only: str) -> str:
    """Run the upload program for at most `seconds`; returns why it failed, or ""."""
    command = bounded.command_with_client(run, RUN, programs.UPLOAD, *only)
    return bounded.run(command, seconds).why


def stop_remote_host(alias: str, argv: Sequence[str] | None) -> str:
    """Run another host's stop command; returns "ok" when the host no longer answers, otherwise the
    reason."""
    if argv is None:
        return "has no stop command"
    why = ""
    for attempt in range(TRIES):
        time.sleep(PAUSE if attempt else 0)
        ended = ssh(alias, f"echo {BEGUN}; {shlex.join(argv)}")
        if ended.code == 0 or went_down(ended):
            return "ok" if is_silent(alias) else "got its stop command and still answers"
        reached = ended.code != SSH_FAILED or BEGUN in ended.out
        why = f"{'its command failed' if reached else 'not reached'}: {ended.why}"
    return why


def went_down(ended: bounded.Ended) -> bool:
    """Whether a host went down during its stop command. A host with too many connections, or too
    little memory, closes a connection before the command begins."""
    if ended.code != SSH_FAILED or BEGUN not in ended.out:
        return False
    return not ended.err.strip() or stop_policy.cut_off(ended.err)


def is_silent(alias: str) -> bool:
    """Whether a host stops answering within GONE seconds."""
    end = time.monotonic() + GONE
    while time.monotonic() < end:
        if ssh(alias, "true").code == SSH_FAILED:
            return True
        time.sleep(1)
    return False


def ssh(alias: str, command: str) -> bounded.Ended:
    """Run a command on another host of the cluster."""
    return bounded.run(["ssh", "-n", "-F", path("ssh_config"), alias, command], COMMAND)


def stop_this_host(argv: Sequence[str]) -> str:
    """Stop this host; returns the outcome, which matters only if the stop fails."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    why = ""
    for attempt in range(TRIES):
        time.sleep(PAUSE if attempt else 0)
        why = bounded.run_also_after_us(argv, COMMAND).why
        if not why:
            return "stop command sent"
    return f"its command failed: {why}"


def main() -> None:
    """Stop the machines of the run in whose folder this process works."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a late cancel must not end this process
    run = json_file.read(path("run.json"), AfterRun)
    state = str(json_file.load_object(path("state.json")).get("state"))  # it may be damaged
    if held.is_held(RUN):
        held.stay_alive(RUN)  # the supervisor's thread ended at the exec
    MachineStopper(run, state).go()
