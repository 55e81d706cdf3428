"""The keeper of a run's machines, in a folder with a pretended ssh: what it runs, and what it says.

`stop` here writes a line into a file; no test has a command that could stop anything.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins import programs
from standins.runs.run_documents import run_json

from bootstrap.console.wait import wait_until
from bootstrap.host.base import json_file
from bootstrap.host.run import held, machine_use
from bootstrap.host.run.controller import seconds_since_seen
from bootstrap.host.run.lease import HOLD
from bootstrap.host.supervisor import stop_machines
from bootstrap.ssh.session import START_AGENT
from railhead.documents.codec import decode
from railhead.documents.runs.run import AfterRun
from railhead.documents.runs.takeover import Term

# Notes each command, and runs the `echo` before it, unless the connection ends before that; a host
# that got its stop command answers no more.
SSH = """#!/bin/sh
for word; do before=$alias; alias=$last; last=$word; done
command=${last#*; }
echo "$alias: $command" >>"$HOME/commands"
[ -e "$HOME/$alias.gone" ] && { echo "no route" >&2; exit 255; }
case $command in
  true) exit 0;;
  refused*) echo "Permission denied (publickey)." >&2; exit 255;;
  parted*) echo "ssh: connect to host b port 22: Connection timed out" >&2; exit 255;;
  dropped*) echo "kex_exchange_identification: Connection closed by remote host" >&2; exit 255;;
  reset*) echo "Connection reset by 10.0.0.2 port 22" >&2; exit 255;;
  ended*) exit 255;;
esac
[ "$command" = "$last" ] || eval "${last%%; *}"
case $command in
  cat*) cat "$HOME/$alias.lock" 2>&1; exit;;
  never*) exit 0;;
  wrong*) echo "no such command" >&2; exit 127;;
  killed*) touch "$HOME/$alias.gone"; exit 255;;
  frozen*) exec sleep 600;;
  cut*) touch "$HOME/$alias.gone"; echo "Connection closed by remote host" >&2; exit 255;;
esac
touch "$HOME/$alias.gone"
"""


class Kept:
    """A run that has ended, and the keeper that is started in its folder."""

    def __init__(self, home: Path, state: str = "succeeded", **changes: Any) -> None:
        self.home = home
        self.folder = home / ".railhead" / "runs" / "r1"
        self.folder.mkdir(parents=True)
        programs.place(self.folder)
        here = ["sh", "-c", f"echo chief >>{home}/commands"]
        stop = {"argv": [here, ["off"], ["off"]], "keep_minutes": 20}
        hosts = [{"name": name} for name in ("a", "b", "c")]
        self.write("run.json", run_json(**{"hosts": hosts, "stop": stop, **changes}))
        self.write("state.json", {"state": state, "pid": 7, "heartbeat": 1})
        self.lock = home / ".railhead" / "supervisor.lock"
        self.lock.write_text("r1")
        (home / "bin").mkdir()
        (home / "bin" / "ssh").write_text(SSH)
        (home / "bin" / "ssh").chmod(0o755)

    def document(self) -> AfterRun:
        return json_file.read(str(self.folder / "run.json"), AfterRun)

    def write(self, name: str, document: Any) -> None:
        (self.folder / name).write_text(json.dumps(document))

    def change(self, constant: str, value: str) -> None:
        """Give a constant of the keeper another value."""
        program = programs.own(self.folder) / "host/supervisor/stop_machines.py"
        changed, count = re.subn(
            rf"(?m)^{constant} = \S*", f"{constant} = {value}", program.read_text()
        )
        assert count == 1
        program.write_text(changed)

    def make_client(self, script: str) -> None:
        """What stands for the Python of the uploader's environment."""
        python = self.home / ".railhead/envs/client/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)

    def start(self, *before: str) -> subprocess.Popen[bytes]:
        """Start the keeper; `before`: words before its command."""
        environment = {"HOME": str(self.home), "PATH": f"{self.home}/bin:{os.environ['PATH']}"}
        argv = [*before, *programs.command(self.folder, "supervisor.stop_machines")]
        err = (self.home / "err").open("wb")
        return subprocess.Popen(argv, cwd=self.folder, env=environment, stderr=err)

    def end(self, seconds: float = 60) -> Any:
        """What state.json says of the machines when the keeper is done."""
        assert self.start().wait(seconds) == 0, (self.home / "err").read_text()
        assert not (self.home / "err").read_text()
        return self.record()

    def record(self) -> Any:
        return json.loads((self.folder / "state.json").read_text()).get("machines")

    def until(self, phase: str) -> Any:
        for _ in range(1000):
            if (output := self.record()) and output["phase"] == phase:
                return output
            time.sleep(0.05)
        raise AssertionError(f"never {phase!r}: {self.record()}")

    @property
    def requests(self) -> list[str]:
        path = self.home / "commands"
        return path.read_text().splitlines() if path.exists() else []


def test_sixteen_hosts_stop_at_once(home: Path) -> None:
    """A host that is gone is silent for ten seconds: they are not waited for one by one."""
    hosts = [{"name": f"h{i}"} for i in range(16)]
    argv = [["true"], *([["off"]] * 15)]
    kept = Kept(home, hosts=hosts, stop={"argv": argv, "keep_minutes": 0})
    # Each waits until all 15 have begun.
    begun = f"[ $(ls {home} | grep -c begun-) -ge 15 ]"
    together = f"echo >{home}/begun-$alias; until {begun}; do sleep 0.1; done"
    (home / "bin" / "ssh").write_text(SSH.replace('echo "no', f'{together}; echo "no'))
    assert len(kept.end(60)["stopped"]) == 16


def orders(caught: list[str]) -> list[str]:
    """The commands, without the checks whether a host still answers."""
    return [line for line in caught if not line.endswith(": true")]


def test_after_a_success_the_others_stop_first_and_the_chief_last(home: Path) -> None:
    kept, begun = Kept(home), stop_machines.stamp()
    output = kept.end()
    assert begun <= output["at"] <= stop_machines.stamp()
    request = orders(kept.requests)
    assert (sorted(request[:2]), request[2:]) == (["railhead-2: off", "railhead-3: off"], ["chief"])
    assert output["stopped"] == {"b": "ok", "c": "ok", "a": "stop command sent"}
    assert (output["phase"], output["results"]) == ("stopping", "only on a")


def test_nothing_else_that_is_wrong_in_run_json_keeps_the_machines_running(home: Path) -> None:
    kept = Kept(home, thresholds=[{"value": 1e19}], data=5)
    kept.write("state.json", {"state": "succeeded", "heartbeat": "x"})
    kept.end()
    assert orders(kept.requests)[-1] == "chief" and len(orders(kept.requests)) == 3


@pytest.mark.parametrize(("age", "kept_on"), [(1.0, True), (60.0, False)])
def test_a_chief_that_serves_an_endpoint_is_left_to_it(
    home: Path, age: float, kept_on: bool
) -> None:
    kept = Kept(home)
    folder = home / ".railhead/endpoints/digits"
    folder.mkdir(parents=True)
    state = {"state": "ready", "pid": 2, "heartbeat": time.time() - age}
    (folder / "state.json").write_text(json.dumps(state))
    output = kept.end()
    assert (output["stopped"]["a"] == "left to endpoint digits") is kept_on
    assert ("chief" in kept.requests) is not kept_on
    assert output["stopped"]["b"] == output["stopped"]["c"] == "ok"


@pytest.mark.parametrize("command", ["cut", "killed"])
def test_a_host_that_goes_while_it_is_reported_to_is_stopped(home: Path, command: str) -> None:
    argv = [["true"], [command], ["off"]]
    output = Kept(home, stop={"argv": argv, "keep_minutes": 0}).end()
    assert output["stopped"]["b"] == "ok"


def test_what_does_not_stop_is_reported_and_the_rest_stops(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = [["true"], ["wrong"], None]
    kept = Kept(home, stop={"argv": argv, "keep_minutes": 0})
    kept.change("PAUSE", "0.1")
    output = kept.end()["stopped"]
    assert output == {
        "b": "its command failed: no such command",
        "c": "has no stop command",
        "a": "stop command sent",
    }
    assert orders(kept.requests) == ["railhead-2: wrong"] * 3


def test_a_host_that_answers_on_is_reported(home: Path) -> None:
    kept = Kept(home, stop={"argv": [["true"], ["never"], ["off"]], "keep_minutes": 0})
    kept.change("GONE", "0.5")
    assert kept.end()["stopped"]["b"] == "got its stop command and still answers"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("refused", "Permission denied"),
        ("parted", "Connection timed out"),
        ("dropped", "Connection closed"),
        ("reset", "Connection reset"),
        ("ended", ""),
    ],
)
def test_a_host_that_ssh_cannot_reach_is_not_reported_as_stopped(
    home: Path, command: str, why: str
) -> None:
    """It may run on, and cost money: that it is silent proves nothing."""
    kept = Kept(home, stop={"argv": [["true"], [command], ["off"]], "keep_minutes": 0})
    kept.change("PAUSE", "0.1")
    kept.change("GONE", "0.1")
    outcome = kept.end()["stopped"]["b"]
    assert outcome.startswith("not reached: ") and why in outcome
    assert orders(kept.requests).count(f"railhead-2: {command}") == 3


def test_a_chief_whose_own_command_fails_reports_so(home: Path) -> None:
    """Also in bytes that are not UTF-8."""
    script = f"echo chief >>{home}/commands; printf 'may \\377 not' >&2; exit 5"
    kept = Kept(home, stop={"argv": [["sh", "-c", script], ["off"], ["off"]], "keep_minutes": 0})
    kept.change("PAUSE", "0.1")
    assert kept.end()["stopped"]["a"] == "its command failed: may \ufffd not"
    assert orders(kept.requests)[2:] == ["chief"] * 3


def test_a_host_that_is_frozen_does_not_keep_the_others_running(home: Path) -> None:
    """Neither another host, nor a command of the chief's own that never ends."""
    argv = [["sleep", "600"], ["frozen"], ["off"]]
    kept = Kept(home, stop={"argv": argv, "keep_minutes": 0})
    kept.change("PAUSE", "0.1")
    kept.change("COMMAND", "0.5")
    stopped = kept.end(60)["stopped"]
    assert stopped["c"] == "ok"
    assert stopped["a"] == "its command failed: not finished within 0.5 s"
    assert "not finished within" in stopped["b"]


def test_a_command_of_the_chief_that_ends_the_keeper_first_continues(home: Path) -> None:
    """A local host ends all its processes, which takes seconds."""
    script = f"kill -9 $PPID; sleep 0.5; echo chief >>{home}/commands"
    kept = Kept(home, stop={"argv": [["sh", "-c", script], None, None], "keep_minutes": 0})
    assert kept.start().wait(60) == -signal.SIGKILL
    wait_until(lambda: kept.requests == ["chief"], seconds=60, every=0.1)
    assert kept.requests == ["chief"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="changing the user needs root")
def test_a_command_of_the_chief_that_may_not_be_killed_is_tried_again(home: Path) -> None:
    """As `sudo` of a user: here of a root that may not signal other users."""
    script = f"echo $$ >>{home}/pids; exec setpriv --reuid=65534 --clear-groups sleep 600"
    kept = Kept(home, stop={"argv": [["sh", "-c", script], None, None], "keep_minutes": 0})
    kept.change("PAUSE", "0.1")
    kept.change("COMMAND", "0.5")
    programs.change(kept.folder, "base/bounded.py", "GRACE = 5.0", "GRACE = 0.1")
    user = ["setpriv", "--bounding-set=-kill", "--inh-caps=-kill"]
    try:
        assert kept.start(*user).wait(20) == 0
    finally:
        pids = [int(pid) for pid in (home / "pids").read_text().split()]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    assert kept.record()["stopped"]["a"].endswith("not finished within 0.5 s") and len(pids) == 3


def test_a_disk_that_takes_no_record_does_not_keep_the_machines(home: Path) -> None:
    kept = Kept(home)
    (kept.folder / "state.json.part").mkdir()  # each write of state.json fails
    assert kept.start().wait(60) == 0
    assert orders(kept.requests)[-1] == "chief" and kept.record() is None


def test_results_and_checkpoints_are_in_the_bucket_before_a_machine_stops(home: Path) -> None:
    """And the state, with the stop in it, before the chief's own."""
    kept = Kept(home, bucket={"url": "s3://b", "client": "client"})
    notes_command = (
        f'for word; do case $word in /*) ;; *) echo "$word";; esac; done | xargs >>{home}/commands'
    )
    kept.make_client(f"{notes_command}; echo '{{\"files\": 1}}'")
    (kept.folder / "checkpoints/step-00000001").mkdir(parents=True)
    (kept.folder / "checkpoints/step-00000001/manifest.json").write_text("{}")
    output = kept.end()
    first, second, *stops, last, chief = orders(kept.requests)
    assert (first, second) == (
        "-I upload.upload s3://b/runs/r1",
        "-I upload.live_upload s3://b/runs/r1 once",
    )
    assert sorted(stops) == ["railhead-2: off", "railhead-3: off"]
    assert (last, chief) == ("-I upload.upload s3://b/runs/r1 state.json", "chief")
    assert output["results"] == "in s3://b/runs/r1" and "checkpoints" not in output


def test_after_results_that_were_not_uploaded_the_logs_in_the_bucket_stay(home: Path) -> None:
    """`once` would empty them: the results would have them."""
    kept = Kept(home, bucket={"url": "s3://b", "client": "client"})
    kept.make_client(
        f"echo $* >>{home}/commands; case $* in *upload.upload*) echo refused >&2; exit 1;; esac"
    )
    kept.change("PAUSE", "0.0")
    kept.end()
    modes = [line.split()[-1] for line in kept.requests if "upload.live_upload" in line]
    assert modes == ["rest"]


@pytest.mark.parametrize("trains", [0, 20])
def test_a_lost_lease_is_claimed_only_when_no_rank_of_the_successor_was_here_for_a_while(
    monkeypatch: pytest.MonkeyPatch, trains: int
) -> None:
    """Ranks of the host that leads the run train here for so many seconds."""
    now, claimed = [0.0], list[float]()

    def claims(_: Any) -> bool:
        claimed.append(now[0])
        return True

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(stop_machines, "time", clock)
    monkeypatch.setattr(stop_machines, "UNUSED", 5.0)
    monkeypatch.setattr(stop_machines, "LOOK", 1.0)
    monkeypatch.setattr(stop_machines, "reclaim", claims)
    ranks = SimpleNamespace(processes=lambda _: [7] if now[0] < trains else [])
    monkeypatch.setattr(stop_machines, "end_processes", ranks)
    stopper = stop_machines.MachineStopper.__new__(stop_machines.MachineStopper)
    vars(stopper).update(run=None, report=lambda *_: None)
    assert stopper.leads_again()
    assert claimed == [max(0, trains - 1) + 5.0]


def test_a_failure_keeps_them_and_reports_until_when(home: Path) -> None:
    kept = Kept(home, "failed")
    process = kept.start()
    output = kept.until("keeping")
    assert output["until"].endswith("Z") and output["results"] == "only on a"
    status = Path(f"/proc/{process.pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn:"))
    assert int(ignored.split()[1], 16) >> (signal.SIGTERM - 1) & 1, "a late cancel would end it"
    assert kept.requests == []
    process.kill()
    process.wait()


def test_a_failure_that_is_not_kept_stops(home: Path) -> None:
    argv = [["true"], ["off"], ["off"]]
    kept = Kept(home, "failed", stop={"argv": argv, "keep_minutes": 0})
    assert kept.end()["stopped"]["b"] == "ok"


def test_a_later_run_takes_the_machines_over(home: Path) -> None:
    kept = Kept(home, "failed")
    process = kept.start()
    kept.until("keeping")
    kept.lock.write_text("r2")
    process.wait(60)
    assert kept.requests == [] and kept.record()["phase"] == "left to r2"


def test_a_run_that_begins_at_this_very_moment_is_not_stopped(home: Path) -> None:
    kept = Kept(home)
    with kept.lock.open("a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        output = kept.end()
    assert kept.requests == [] and output["phase"] == "left to a later run"


def test_a_run_that_began_before_the_lock_was_taken_keeps_its_machines(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the decision to stop and the lock, a short run may come and go."""
    kept = Kept(home)
    monkeypatch.setattr(stop_machines, "RUN", str(kept.folder))
    monkeypatch.setattr(stop_machines, "RUN_ID", "r1")
    monkeypatch.setattr(machine_use, "LOCK", str(kept.lock))
    real = machine_use.run_lock

    @contextmanager
    def another_run_was_here() -> Iterator[bool]:
        kept.lock.write_text("r2")
        with real() as free:
            yield free

    monkeypatch.setattr(machine_use, "run_lock", another_run_was_here)
    stop_machines.MachineStopper(kept.document(), "succeeded").go()
    assert kept.requests == [] and kept.record()["phase"] == "left to a later run"


def test_a_controller_that_fetches_for_long_is_still_connected(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time at which it was last seen is renewed as long as its agent runs."""
    kept, controller = Kept(home, stop={"argv": [["off"]], "keep_minutes": 0}), agent()
    attached = kept.folder / "attached"
    attached.write_text(f"{controller.pid}\n")
    os.utime(attached, (1, 1))
    monkeypatch.setattr(stop_machines, "RUN", str(kept.folder))
    monkeypatch.setattr(stop_machines, "RUN_ID", kept.folder.name)
    monkeypatch.setattr(machine_use, "LOCK", str(kept.lock))
    action = stop_machines.MachineStopper(kept.document(), "succeeded").next_action()
    controller.kill()
    controller.wait()
    assert action.kind == "wait"


@pytest.mark.parametrize(
    ("term", "lock", "left_to"),
    [
        (2, "r2", "r2"),
        (2, "r1", ""),
        (2, "r0", ""),
        (2, "r2; what a host may write", ""),
        (2, "", ""),
        (1, "r2", ""),
    ],
)
def test_a_host_that_took_the_run_over_leaves_the_machines_to_a_later_run_of_another_chief(
    home: Path, term: int, lock: str, left_to: str
) -> None:
    """Host c has no lock: it was never a chief."""
    kept = Kept(home)
    held.begin(str(kept.folder), Term(term, "a", "mark"), held.now())
    (home / "railhead-2.lock").write_text(lock)
    phase = kept.end()["phase"]
    stops = [line for line in orders(kept.requests) if ": cat" not in line]
    assert (phase, len(stops)) == ((f"left to {left_to}", 0) if left_to else ("stopping", 3))


def test_no_stop_leaves_them(home: Path) -> None:
    kept = Kept(home, stop=None, bucket={"url": "s3://b", "client": "none"})
    kept.change("PAUSE", "0.1")
    output = kept.end()
    assert kept.requests == [] and output["phase"] == "left to you"
    assert "No such file" in output["upload"] and output["results"] == "only on a"


def test_an_upload_that_hangs_does_not_keep_the_machines(home: Path) -> None:
    """As of a read from a dead network mount: for all tries together there is one hour."""
    kept = Kept(home, bucket={"url": "s3://b", "client": "client"})
    kept.make_client(f"echo tried >>{home}/tries\nexec sleep 600")
    kept.change("UPLOADING", "1.0")
    output = kept.end()
    assert output["upload"].startswith("not finished within ")
    assert output["results"] == "only on a" and orders(kept.requests)[-1] == "chief"
    assert (home / "tries").read_text() == "tried\n"


def test_all_tries_of_an_upload_have_one_limit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tries that fail after 500 s, and the pauses, leave less for the third."""
    now, limits = [0.0], list[float]()

    def fails(_: Any, seconds: float) -> str:
        limits.append(seconds)
        now[0] += 500.0
        return "refused"

    def sleep(seconds: float) -> None:
        now[0] += seconds

    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(stop_machines, "time", clock)
    monkeypatch.setattr(stop_machines, "upload", fails)
    stopper = stop_machines.MachineStopper.__new__(stop_machines.MachineStopper)
    vars(stopper).update(run=None, report=lambda *_, **__: None)
    stopper.upload_results(3600.0)
    assert limits == [3600.0, 3095.0, 2590.0]


def test_a_lease_that_is_lost_after_the_results_were_uploaded_keeps_no_machine_running(
    home: Path,
) -> None:
    """No host takes over a run whose results are complete."""
    kept = Kept(home, bucket={"url": "s3://b", "client": "client"})
    held.begin(str(kept.folder), Term(1, "a", "mark"), held.now())
    kept.make_client(f'case "$*" in *reclaim*) exit 3;; esac; rm -f {kept.folder}/lease')
    for constant, value in (("UNUSED", "0.0"), ("LOOK", "0.1")):
        kept.change(constant, value)
    assert kept.end()["stopped"] == {"b": "ok", "c": "ok", "a": "stop command sent"}


# A client whose claim fails until it is try number 5; `$1` is what each claim does first.
CLAIMS = """case "$*" in *standby.reclaim*)
  echo >>"$HOME/tries"
  [ "$(wc -l <"$HOME/tries")" -ge 5 ] || { %s exit 1; }
esac
"""
TRAINS = 'RAILHEAD_RUN=r1 RAILHEAD_HOME=$HOME sh -c "sleep 2; touch $HOME/trained" >&2 &'
LEFT = "not stopped: another host may lead the run"


@pytest.mark.parametrize(
    ("claims", "cut_off", "others"),
    [(CLAIMS % "", "60.0", "ok"), (CLAIMS % TRAINS, "0.5", LEFT), ("exit 3", "60.0", LEFT)],
)
def test_a_chief_that_lost_the_lease_claims_it_again_while_the_bucket_is_away(
    home: Path, claims: str, cut_off: str, others: str
) -> None:
    """Until a standby that was cut off too has left. Meanwhile another host may train here."""
    kept = Kept(home, bucket={"url": "s3://b", "client": "client"})
    held.begin(str(kept.folder), Term(1, "a", "mark"), held.now() - HOLD - 10)
    kept.make_client(claims)
    for constant, value in (("PAUSE", "0.1"), ("UNUSED", "0.0"), ("LOOK", "0.1")):
        kept.change(constant, value)
    programs.change(kept.folder, "run/lease.py", "CUT_OFF = 3600.0", f"CUT_OFF = {cut_off}")
    output = kept.end()
    assert output["stopped"] == {"b": others, "c": others, "a": "stop command sent"}
    assert orders(kept.requests)[-1] == "chief"
    assert len(orders(kept.requests)) == (3 if others == "ok" else 1)
    assert (output["results"] == "in s3://b/runs/r1") == (others == "ok")
    assert (home / "trained").exists() == (claims == CLAIMS % TRAINS)


@pytest.mark.parametrize("order", ["a b c", "b c a"])
def test_a_chief_that_lost_the_lease_stops_itself_by_its_own_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: str
) -> None:
    """The host that trains here again has written its run.json, in which it is the first one."""
    names = order.split()
    stop = {"argv": [["off", name] for name in names], "keep_minutes": 20}
    run = run_json(hosts=[{"name": name} for name in names], stop=stop)
    held.begin(str(tmp_path), Term(1, "a", "mark"), held.now())
    monkeypatch.setattr(stop_machines, "RUN", str(tmp_path))
    stopper = stop_machines.MachineStopper.__new__(stop_machines.MachineStopper)
    vars(stopper).update(run=decode(AfterRun, run))
    name, _, argv = stopper.own_stop()
    assert (name, argv) == ("a", ("off", "a"))


def agent() -> subprocess.Popen[bytes]:
    """A process with an agent's command line; the kernel shows it a moment after its start."""
    argv = [sys.executable, "-I", "-S", "-c", START_AGENT]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE)  # it waits for the archive
    while START_AGENT.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes():
        assert process.poll() is None
        time.sleep(0.01)
    return process


def wait_for_a_look(attached: Path) -> None:
    """Each look at the controller touches the file. Its old time may also be read before the
    next look; it is not a reason to stop."""
    earlier = time.time() - 30
    os.utime(attached, (earlier, earlier))
    assert wait_until(lambda: attached.stat().st_mtime > earlier + 1, seconds=60, every=0.01)


def test_a_controller_that_watches_is_waited_for(home: Path) -> None:
    kept = Kept(home)
    controller = agent()
    (kept.folder / "attached").write_text(f"{controller.pid}\n")
    process = kept.start()
    kept.until("waiting for the results to be fetched")
    for _ in range(3):
        wait_for_a_look(kept.folder / "attached")
    assert kept.requests == [] and process.poll() is None
    kept.write("fetched", {"left": 0})
    process.wait(60)
    controller.kill()
    controller.wait()
    assert kept.record()["results"] == "fetched" and orders(kept.requests)[-1] == "chief"


@pytest.mark.parametrize("ago, waits", [(5, True), (120, False)])
def test_one_whose_connection_broke_has_a_moment_to_come_back(
    home: Path, ago: float, waits: bool
) -> None:
    kept = Kept(home)
    controller = agent()
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    (kept.folder / "attached").write_text(f"{controller.pid}\n")
    then = time.time() - ago
    os.utime(kept.folder / "attached", (then, then))
    process = kept.start()
    if waits:
        kept.until("waiting for the results to be fetched")
        process.kill()
    process.wait(60)
    assert (orders(kept.requests) == []) == waits


def test_one_that_was_seen_before_the_clock_was_set_back_is_waited_for_no_longer(
    tmp_path: Path,
) -> None:
    attached, later = tmp_path / "attached", time.time() + 3600
    attached.touch()
    os.utime(attached, (later, later))
    assert seconds_since_seen(str(attached)) == 0


def test_somebody_else_who_has_its_number_now_is_not_a_controller(home: Path) -> None:
    kept = Kept(home)
    (kept.folder / "attached").write_text(f"{os.getpid()}\n")
    then = time.time() - 120
    os.utime(kept.folder / "attached", (then, then))
    kept.end()
    assert orders(kept.requests)[-1] == "chief"
