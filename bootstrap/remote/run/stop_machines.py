"""Keeps a run's machines until its results are safe, then stops them; the supervisor becomes this.

It carries no mark of the run, so that ending the run does not end it. It knows no power-off of its
own: all it can run is each host's `stop` of run.json. Standard library only, Python 3.10.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

if TYPE_CHECKING:
    from bootstrap.remote.run import bounded, controller, stop_policy
else:  # they lie beside this file
    import bounded
    import controller
    import stop_policy

RUN = os.path.dirname(os.path.abspath(__file__))
RUN_ID = os.path.basename(RUN)
LOCK = os.path.expanduser("~/.railhead/supervisor.lock")
TRIES = 3  # for shipping, and for each host's stop
PAUSE = 5.0  # seconds between them
GONE = 60.0  # seconds within which a host that was told to stop must be silent
SHIPPING = 3600.0  # seconds for all tries together: GPUs cost money meanwhile
STATE_SHIPPING = 60.0  # seconds for state.json alone, a few kB


def path(name: str) -> str:
    """A path in the run's folder."""
    return os.path.join(RUN, name)


def load(name: str) -> Any:
    """A JSON document of the run's folder."""
    with open(path(name)) as file:
        return json.load(file)


def stamp(seconds: float = 0) -> str:
    """The time so many seconds from now, UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


class MachineStopper:
    """The time between a run's end and its machines' stop."""

    def __init__(self, run: dict[str, Any], state: str) -> None:
        self.run, self.state = run, state
        self.rule = stop_policy.Rule.of(run)
        self.ended = time.monotonic()
        self.shipped = False
        self.told: dict[str, Any] = {}

    def go(self) -> None:
        """Ship, wait, stop; each phase stands in state.json."""
        if self.rule.bucket:
            self.ship()
        while (step := stop_policy.decide(self.rule, self.seen())).word in ("wait", "keep"):
            self.tell_wait(step)
            time.sleep(0.5)
        if step.word == "leave":
            self.tell("left to " + (self.successor() or "you"), until=None)
            return
        with alone() as free:
            if free and not self.successor():
                self.stop()
            else:
                self.tell("left to a later run", until=None)

    def seen(self) -> stop_policy.Seen:
        """What is known now."""
        now = time.monotonic()
        controller.is_here(path("attached"))
        ago = controller.seconds_ago(path("attached"))
        return stop_policy.Seen(
            now=now,
            ended=self.ended,
            state=self.state,
            shipped=self.shipped,
            fetched=self.fetched() is not None,
            attached=None if ago is None else now - ago,
            successor=self.successor(),
        )

    def fetched(self) -> dict[str, Any] | None:
        """A controller's word that it has the results and compared them."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = load("fetched")
            return found
        return None

    def successor(self) -> str:
        """The run that took these machines after this one."""
        with contextlib.suppress(OSError), open(LOCK) as lock:
            last = lock.read().strip()
            return last if last != RUN_ID else ""
        return ""

    def tell(self, phase: str, **more: Any) -> None:
        """Write the phase into state.json; a full disk does not keep machines running."""
        fetched = self.fetched()
        left = (fetched or {}).get("left", 0)
        where = stop_policy.results(
            self.run, shipped=self.shipped, fetched=fetched is not None, left=left
        )
        told = {**self.told, "phase": phase, "results": where, **more}
        if told == self.told:
            return
        self.told = told
        with contextlib.suppress(OSError, ValueError):
            state = {**load("state.json"), "machines": {**told, "at": stamp()}}
            with contextlib.suppress(FileNotFoundError):
                os.remove(path("state.json.part"))  # should it be a FIFO, opening it would hang
            with open(path("state.json.part"), "x") as file:
                json.dump(state, file, indent=1)
            os.replace(path("state.json.part"), path("state.json"))

    def tell_wait(self, step: stop_policy.Step) -> None:
        """Say what is waited for; `until` is when machines stop at the latest."""
        phase = "keeping" if step.word == "keep" else "waiting for the results to be fetched"
        seen = self.seen()
        kept = stop_policy.kept_until(self.rule, seen)
        until = stamp((kept or step.until or seen.now) - seen.now) if kept else None
        self.tell(phase, until=self.told.get("until") or until)

    def ship(self) -> None:
        """Bring the results into the bucket; what became of that stands in state.json."""
        self.tell("shipping the results to the bucket")
        why, until = "", time.monotonic() + SHIPPING
        for attempt in range(TRIES):
            time.sleep(PAUSE if attempt else 0)
            if time.monotonic() >= until:
                break
            said, why = shipped(self.run, until - time.monotonic())
            if said:
                self.shipped = True
                self.tell("shipped", shipped=said)
                return
        self.tell("not shipped", shipped={"why": why})

    def stop(self) -> None:
        """The other hosts first, this one last."""
        *others, (name, _, argv) = stop_policy.stops(self.run)
        self.tell("stopping", stopped={}, until=None)
        with ThreadPoolExecutor(max(1, len(others))) as pool:
            said = pool.map(lambda other: stop_there(*other[1:]), others)
            done = {host: why for (host, _, _), why in zip(others, said, strict=True)}
        self.tell("stopping", stopped=done)
        if argv is None:
            self.tell("stopped", stopped={**done, name: "has no stop command"})
            return
        self.tell("stopping", stopped={**done, name: "told to stop"})
        if self.shipped:
            shipped(self.run, STATE_SHIPPING, "state.json")
        self.tell("stopping", stopped={**done, name: stop_here(argv)})


@contextlib.contextmanager
def alone() -> Iterator[bool]:
    """Hold the chief's lock, so that no run begins on machines that stop; False: one has begun."""
    with open(LOCK, "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def shipped(run: dict[str, Any], seconds: float, *only: str) -> tuple[dict[str, Any] | None, str]:
    """Run upload.py for so many seconds at most; what it said, or None and why not."""
    python = os.path.expanduser(f"~/.railhead/envs/{run['bucket']['client']}/bin/python")
    argv = [python, "-I", path("upload.py"), RUN, f"{run['bucket']['url']}/runs/{RUN_ID}", *only]
    try:
        done = bounded.run(argv, seconds)
        if done.code is None:
            return None, f"it had not ended after {seconds:.0f} s"
        return json.loads(done.out.splitlines()[-1]), ""
    except OSError as error:
        return None, str(error)
    except (IndexError, ValueError):
        return None, done.err.strip()[-600:]


def stop_there(alias: str, argv: list[str] | None) -> str:
    """Stop another host by its own command; "ok" when it is silent afterwards, else why not."""
    if argv is None:
        return "has no stop command"
    why = ""
    for attempt in range(TRIES):
        time.sleep(PAUSE if attempt else 0)
        code, text = ssh(alias, shlex.join(argv))
        if code == 0 or (code == 255 and cut(text)):
            return "ok" if is_silent(alias) else "was told to stop and still answers"
        why = f"not reached: {text}" if code == 255 else f"its command ended with {code}: {text}"
    return why


def cut(text: str) -> bool:
    """Whether it went while we spoke with it."""
    return not text or stop_policy.cut_off(text)


def is_silent(alias: str) -> bool:
    """Whether a host stops answering in time."""
    end = time.monotonic() + GONE
    while time.monotonic() < end:
        if ssh(alias, "true")[0] == 255:
            return True
        time.sleep(1)
    return False


def ssh(alias: str, command: str) -> tuple[int, str]:
    """Run a command on another host of the cluster: its exit code and its last words."""
    argv = ["ssh", "-n", "-F", path("ssh_config"), alias, command]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, errors="replace")
    except (OSError, subprocess.TimeoutExpired) as error:
        return 254, str(error)
    return done.returncode, (done.stderr or done.stdout).strip()[-300:]


def stop_here(argv: list[str]) -> str:
    """Stop this host. Where that works nobody reads the answer."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    why = ""
    for attempt in range(TRIES):
        time.sleep(PAUSE if attempt else 0)
        try:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
            )
            why = f"its command ended with {done.returncode}: {done.stderr.strip()[-300:]}"
            if done.returncode == 0:
                return "told to stop"
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
    return why


def main() -> None:
    """Keep and stop the machines of the run that this file lies in."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a late word to end the run is not for us
    run, state = load("run.json"), load("state.json")
    MachineStopper(run, state["state"]).go()


if __name__ == "__main__":
    main()
