"""Which machines a command is about, and starting and stopping them, with a cloud of our own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import paramiko
import pytest

from bootstrap.cli.targets import Target
from bootstrap.clouds import base
from bootstrap.clouds.base import MISSING, Deadline, InstanceState, Refused
from bootstrap.clouds.local import cluster
from bootstrap.console.wait import Clock
from bootstrap.errors import HostsFailed, HostsNotReady, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory import pulumi_stack as pulumi
from bootstrap.inventory.document import from_document, to_document
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import cloud_host_keys, deadlines, key_rotation, power, stop
from bootstrap.lifecycle import reach as reachability
from bootstrap.ssh import connect
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.host_keys import ChangedHostKey, UnknownHostKey

CASES = Path(__file__).parents[1] / "cases"
REPO = Path(__file__).parents[2]
GOLDEN = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))
ONE, TWO = "aws-g4dn-1", "aws-g4dn-2"
KEY = paramiko.RSAKey.generate(1024)


class Sky:
    """A cloud of two machines that obeys after some seconds; its time passes by waiting alone."""

    def __init__(self, *states: str, takes: float = 30) -> None:
        self.states = dict(zip((ONE, TWO), states or ("running", "running"), strict=True))
        self.takes, self.time = takes, 0.0
        self.due: dict[str, tuple[float, str]] = {}
        self.calls: list[str] = []
        self.full: set[str] = set()  # machines that find no room
        self.refuses: str | None = None
        self.armed: Deadline | None = None
        self.spot: list[str] = []  # machines that cannot be stopped

    def clock(self) -> Clock:
        return Clock(lambda: self.time, self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.time += seconds

    def instance_states(self) -> dict[str, InstanceState]:
        for name, (at, state) in self.due.items():
            if self.time >= at:
                self.states[name] = state
        values = {}
        for number, (name, state) in enumerate(self.states.items(), 1):
            address = f"203.0.113.{100 + number}" if state == "running" else None
            values[name] = InstanceState(state, address, "Sky", "now", serial=f"i-{number}")
        return values

    def start(self) -> None:
        self.calls.append("start")
        if self.refuses:
            raise Refused(self.refuses, "InsufficientInstanceCapacity", hint="fab start   # later")
        for name, state in self.states.items():
            if state == "stopped":
                ends = "stopped" if name in self.full else "running"
                self.states[name], self.due[name] = "starting", (self.time + self.takes, ends)

    def stop(self) -> None:
        self.calls.append("stop")
        for name in self.states:
            self.states[name], self.due[name] = "stopping", (self.time + self.takes, "stopped")

    def end(self) -> None:
        self.calls.append("end")
        for name in self.states:
            self.states[name], self.due[name] = "stopping", (self.time + self.takes, "gone")

    def cannot_stop(self) -> list[str]:
        return self.spot

    def deadlines(self) -> dict[str, Deadline]:
        return dict.fromkeys((ONE, TWO), self.armed) if self.armed else {}

    def set_deadline(self, hours: float) -> None:
        self.calls.append(f"arm {hours:g}")
        at = datetime.now(timezone.utc) + timedelta(hours=hours)
        self.armed = Deadline("scheduled-stop", at, "armed", "Sky")

    def costs(self) -> list[base.Cost]:
        return [base.Cost("disk vol-1, 100 GB", 0.26, "fab teardown --destroy")]

    def account(self) -> str:
        return "account 1234"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        return {}

    def allowed_cidrs(self) -> tuple[str, ...]:
        return ("203.0.113.7/32",)


@pytest.fixture
def operator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A home of one's own, no Pulumi, no terminal, and machines that let everybody in."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(pulumi, "current", lambda: None)
    monkeypatch.setattr(pulumi, "cluster_of", lambda name: replace(GOLDEN, stack=name))
    monkeypatch.setattr(connect, "open_sessions", lambda inventory: Sessions(inventory, {}))
    monkeypatch.setattr(cloud_host_keys, "pin", lambda *_, **__: None)
    monkeypatch.setattr("sys.stdin", open(os.devnull))  # noqa: SIM115, PTH123
    return monkeypatch


def under(operator: pytest.MonkeyPatch, sky: Sky) -> Sky:
    operator.setattr(base, "cloud_of", lambda inventory: sky)
    return sky


def addresses(inventory: Inventory) -> list[str]:
    return [host.address for host in inventory.hosts]


# --- Which hosts -------------------------------------------------------------------------------


def test_hosts_and_stack_together_are_refused(operator: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        Target("a,b", stack="dev")


def test_hosts_then_stack_then_the_selected_one_then_the_last_cluster(
    operator: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    under(operator, Sky())
    local_state.save_cluster(Target("last").running())
    assert addresses(Target().running()) == ["last"]
    operator.setattr(pulumi, "current", lambda: "chosen")
    assert Target().running().stack == "chosen"
    assert Target(stack="dev").running().stack == "dev"
    assert addresses(Target("a,b").running()) == ["a", "b"]
    lines = capsys.readouterr().out.splitlines()
    expected = "aws-g4dn (aws, account 1234, us-east-1, stack dev): ubuntu@203.0.113.101:22, "
    assert lines[3] == expected + "ubuntu@203.0.113.102:22"
    assert lines[4].endswith("(hosts): a, b")


def test_addresses_are_those_of_now_and_a_sleeping_host_has_none(
    operator: pytest.MonkeyPatch,
) -> None:
    under(operator, Sky("running", "stopped"))
    seen = Target(stack="dev").status()
    assert addresses(seen.inventory) == ["203.0.113.101", TWO]
    assert seen.not_running == [TWO]


def test_machines_that_do_not_run_end_with_2_and_name_the_command(
    operator: pytest.MonkeyPatch,
) -> None:
    sky = under(operator, Sky("running", "stopped"))
    with pytest.raises(UsageError, match=f"{ONE} running; {TWO} stopped") as caught:
        Target(stack="dev").running()
    assert caught.value.hint.startswith("fab start")
    assert sky.calls == []


@pytest.mark.parametrize(
    ("state", "hint"), [("gone", "fab up --refresh"), ("unknown", "fab status")]
)
def test_machines_that_are_lost_are_not_started(
    operator: pytest.MonkeyPatch, state: str, hint: str
) -> None:
    sky = under(operator, Sky("stopped", state))
    for begin in (True, False):
        with pytest.raises(HostsNotReady, match=state) as caught:
            Target(stack="dev", start=begin).running()
        assert caught.value.hint.startswith(hint)
    assert sky.calls == []


@pytest.mark.parametrize(("output", "starts"), [("y", True), ("", False), ("n", False)])
def test_at_a_terminal_the_user_is_queried(
    operator: pytest.MonkeyPatch, output: str, starts: bool
) -> None:
    sky = under(operator, Sky("stopped", "stopped", takes=0))
    operator.setattr("sys.stdin", type("Tty", (), {"isatty": lambda self: True})())
    requests: list[str] = []

    def answer(text: str) -> str:
        requests.append(text)
        return output

    operator.setattr("builtins.input", answer)
    operator.setattr(power, "Clock", sky.clock)
    if starts:
        assert addresses(Target(stack="dev").running())[1] == "203.0.113.102"
    else:
        with pytest.raises(UsageError, match="were not started"):
            Target(stack="dev").running()
    assert ("start" in sky.calls) == starts
    assert "7.82 USD per hour" in requests[0]


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_an_injected_key_is_changed_as_soon_as_its_machine_answers(
    operator: pytest.MonkeyPatch, state: str
) -> None:
    """Before anything else is done with it, whether it was started for that or not."""
    sky, changed = under(operator, Sky(state, state)), list[tuple[list[str], bool]]()
    pins = {ONE: ["ssh-ed25519 AAAA i-1 injected"], TWO: ["ssh-ed25519 AAAA i-2"]}
    cloud_host_keys.replace_pins(GOLDEN, pins)

    def reach(inventory: Inventory) -> Sessions:
        refused = {ONE: ConnectionRefusedError()}
        return Sessions(inventory, {}, {} if sky.time >= 100 else refused)

    def rotate(inventory: Inventory, say: Any, *, clock: Clock) -> None:
        changed.append(([host.name for host in inventory.hosts], sky.time >= 100))

    operator.setattr(connect, "open_sessions", reach)
    operator.setattr(key_rotation, "rotate", rotate)
    operator.setattr(power, "Clock", sky.clock)
    Target(stack="dev", start=True).running()
    assert changed == [([ONE], True)]


# --- Starting and stopping ---------------------------------------------------------------------


def start(operator: pytest.MonkeyPatch, sky: Sky, hours: float | None = None) -> Inventory:
    under(operator, sky)
    return power.start(GOLDEN, lambda line: None, hours=hours, clock=sky.clock())


def test_the_deadline_is_armed_before_the_machines_start(operator: pytest.MonkeyPatch) -> None:
    sky = Sky("stopped", "stopped", takes=90)
    sky.armed = Deadline("scheduled-stop", datetime(2026, 1, 1, tzinfo=timezone.utc), "past", "Sky")
    assert addresses(start(operator, sky)) == ["203.0.113.101", "203.0.113.102"]
    assert sky.calls == ["arm 8", "start"]
    assert 90 <= sky.time < 120
    assert addresses(local_state.load_cluster(GOLDEN.name)) == ["203.0.113.101", "203.0.113.102"]


def test_hours_are_those_that_were_queried(operator: pytest.MonkeyPatch) -> None:
    sky = Sky("stopped", "stopped")
    sky.set_deadline(1)
    start(operator, sky, hours=2.5)
    assert sky.calls == ["arm 1", "arm 2.5", "start"]


def test_without_hours_they_are_those_that_the_stack_was_made_with() -> None:
    kinds = [{"kind": "scheduled-stop", "id": "s", "at": "2026-11-21T18:00:00Z", "seconds": 9000}]
    assert deadlines.default_hours(replace(GOLDEN, deadlines=tuple(kinds))) == 2.5
    assert deadlines.default_hours(replace(GOLDEN, deadlines=())) == 8


def test_a_deadline_that_begins_with_the_start_is_not_armed(operator: pytest.MonkeyPatch) -> None:
    sky = Sky("stopped", "stopped")
    sky.armed = Deadline("max-run-duration", None, "armed", "Sky", "4 h from each start")
    start(operator, sky)
    assert sky.calls == ["start"]


def test_a_machine_that_is_still_stopping_is_waited_for(operator: pytest.MonkeyPatch) -> None:
    sky = Sky("stopping", "stopped")
    sky.due[ONE] = (60, "stopped")
    start(operator, sky)
    assert sky.time >= 90


def test_a_stock_out_stops_what_was_started_with_it(operator: pytest.MonkeyPatch) -> None:
    sky = Sky("stopped", "stopped")
    sky.full = {TWO}
    with pytest.raises(HostsFailed, match="found no room"):
        start(operator, sky)
    assert sky.calls == ["start", "stop"]
    assert sky.time < 60

    sky = Sky("stopped", "stopped")
    sky.refuses = "no such machine free"
    with pytest.raises(Refused, match="no such machine free"):
        start(operator, sky)
    assert sky.calls == ["start", "stop"]


def test_a_machine_that_ran_before_is_not_stopped_for_another(operator: pytest.MonkeyPatch) -> None:
    sky = Sky("running", "stopped")
    sky.full = {TWO}
    with pytest.raises(HostsFailed):
        start(operator, sky)
    assert sky.calls == ["start"]


def test_ssh_is_waited_for_but_not_for_ever(operator: pytest.MonkeyPatch) -> None:
    sky = Sky("stopped", "stopped")
    silent = {ONE: TimeoutError()}
    operator.setattr(
        connect,
        "open_sessions",
        lambda inventory: Sessions(inventory, {}, silent if sky.time < 100 else {}),
    )
    start(operator, sky)
    assert 100 <= sky.time < 120

    operator.setattr(connect, "open_sessions", lambda inventory: Sessions(inventory, {}, silent))
    operator.setattr(reachability, "own_address", lambda _: "198.51.100.9")
    with pytest.raises(HostsNotReady, match="refuse the login; its firewall") as caught:
        start(operator, Sky("stopped", "stopped"))
    assert caught.value.hint.startswith(
        "pulumi config set ssh_cidrs 203.0.113.7/32,198.51.100.9/32"
    )


@pytest.mark.parametrize(
    "error",
    [
        ChangedHostKey("a", KEY, Path("known_hosts")),
        UnknownHostKey("a", KEY),
    ],
    ids=["changed", "unknown"],
)
def test_a_host_key_that_is_not_the_pinned_one_is_refused_at_once(
    operator: pytest.MonkeyPatch, error: Exception
) -> None:
    """Five minutes of new connections would not make it the right machine."""
    sky = Sky("stopped", "stopped")
    tries: list[float] = []

    def refused(inventory: Inventory) -> Sessions:
        tries.append(sky.time)
        return Sessions(inventory, {}, {ONE: error})

    operator.setattr(connect, "open_sessions", refused)
    with pytest.raises(HostsNotReady, match="refuse the login"):
        start(operator, sky)
    assert len(tries) == 1


def test_connections_of_a_wait_are_closed_before_the_next_try(
    operator: pytest.MonkeyPatch,
) -> None:
    sky, opened, closed = Sky("stopped", "stopped"), list[Any](), list[Any]()

    class Opened:
        def close(self) -> None:
            closed.append(self)

    def half(inventory: Inventory) -> Sessions:
        assert len(opened) == len(closed), "connections of the try before are open"
        if sky.time >= 100:
            return Sessions(inventory, {})
        opened.append(Opened())
        return Sessions(inventory, {ONE: opened[-1]}, {TWO: ConnectionRefusedError()})

    operator.setattr(connect, "open_sessions", half)
    start(operator, sky)
    assert len(opened) > 5 and opened == closed


def test_stopping_waits_for_the_clouds_word_and_reports_what_still_bills(
    operator: pytest.MonkeyPatch,
) -> None:
    sky, lines = under(operator, Sky(takes=90)), list[str]()
    stop.stop(GOLDEN, lines.append, clock=sky.clock())
    assert 90 <= sky.time < 120
    assert (
        "still bills: disk vol-1, 100 GB: 0.26 USD per day; fab teardown --destroy ends it" in lines
    )
    sky = under(operator, Sky(takes=10**9))
    with pytest.raises(HostsFailed, match="do not stop"):
        stop.stop(GOLDEN, lines.append, clock=sky.clock())


def test_spot_machines_are_ended_only_with_their_results_safe_and_the_users_word(
    operator: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sky = under(operator, Sky())
    sky.spot = [ONE, TWO]
    ours = replace(GOLDEN, stack="g4dn", bucket=None)
    local_state.save_run({"run_id": "r1", "cluster": ours.name}, tmp_path / "results")
    with pytest.raises(UsageError, match="results of r1 were not fetched") as caught:
        stop.stop(ours, print, clock=sky.clock())
    assert caught.value.hint == "fab fetch --run r1   # or: fab stop --discard-results"
    with pytest.raises(UsageError, match="question cannot be answered") as caught:
        stop.stop(ours, print, discard=True, clock=sky.clock())
    assert caught.value.hint == "fab stop --yes" and sky.calls == []
    stop.stop(ours, print, discard=True, yes=True, clock=sky.clock())
    assert sky.calls == ["end"] and set(sky.states.values()) == {"gone"}
    assert "their disks are deleted with them" in capsys.readouterr().out


# --- The report --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "machine", "fails"),
    [
        ("armed", "running", False), ("armed", "stopped", False), ("past", "running", True),
        ("past", "stopped", False), (MISSING, "running", True), (MISSING, "stopped", True),
    ],
)  # fmt: skip
def test_a_deadline_that_stops_nothing_fails_the_status(
    operator: pytest.MonkeyPatch, state: str, machine: str, fails: bool
) -> None:
    sky, lines = under(operator, Sky(machine, machine)), list[str]()
    sky.armed = Deadline("scheduled-stop", None, state, "Sky", "as it is")
    wrong = power.print_status(Target(stack="dev").status(), lines.append)
    assert (wrong is not None) == fails
    assert lines[0] == f"[{ONE}] {machine} (says Sky, now)"
    assert lines[2] == f"[{ONE}] deadline scheduled-stop: {state}: as it is (Sky)"
    assert lines[3] == f"[{TWO}] deadline scheduled-stop: {state}: as it is (Sky)"
    assert lines[4].startswith("cost: 7.82 USD per hour")
    if wrong:
        assert wrong.code == 1


@pytest.mark.parametrize(
    ("exists", "next_"), [(True, "fab extend --hours 8"), (False, "fab up --refresh --stack g4dn")]
)
def test_a_deadline_that_is_not_there_is_made_by_an_up(
    operator: pytest.MonkeyPatch, exists: bool, next_: str
) -> None:
    """`fab extend` cannot move it. A broken `up` leaves such machines."""
    sky = under(operator, Sky())
    sky.armed = Deadline("scheduled-stop", None, MISSING, "Sky", exists=exists)
    wrong = power.print_status(Target(stack="g4dn").status(), lambda _: None)
    assert wrong and wrong.hint.startswith(next_)


# --- The real command, with real hosts and a stand-in for Pulumi -------------------------------


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment of a person with two local hosts in a stack, which is the selected one."""
    monkeypatch.setenv("HOME", str(tmp_path))
    made = cluster.start("dev", 2)
    document = to_document(made)
    (tmp_path / "out.json").write_text(json.dumps(document))
    root = {"type": "pulumi:pulumi:Stack", "urn": "urn::dev", "outputs": {"cluster": document}}
    (tmp_path / "state.json").write_text(json.dumps({"deployment": {"resources": [root]}}))
    script = f"#!/bin/sh\ncase $2 in output) cat {tmp_path}/out.json;;"
    script += f" export) cat {tmp_path}/state.json;; *) echo dev;; esac\n"
    (tmp_path / "pulumi").write_text(script)
    (tmp_path / "pulumi").chmod(0o755)
    yield os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    cluster.stop("dev")


def fab(shell: dict[str, str], *args: str) -> tuple[int, str]:
    argv = [str(Path(sys.executable).parent / "fab"), "-r", str(REPO), *args]
    done = subprocess.run(argv, env=shell, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_stop_and_start_as_they_are_typed(shell: dict[str, str]) -> None:
    code, out = fab(shell, "status")
    assert code == 0, out
    assert out.startswith("dev (local, stack dev): ")
    assert "[h1] running (says /proc" in out
    code, out = fab(shell, "stop", "--stack", "dev")
    assert code == 0, out
    assert "[h2] stopped, says /proc" in out
    code, out = fab(shell, "train", "--preset", "smoke")
    assert code == 2, out
    assert "next: fab start   # or: fab train --start" in out
    code, out = fab(shell, "start")
    assert code == 0, out
    assert cluster.read("dev")["h2"]["running"]
    code, out = fab(shell, "exec", "--cmd", "echo in")
    assert (code, out.count("] in\n")) == (0, 2), out


def test_machines_that_were_only_named_are_neither_started_nor_stopped(
    shell: dict[str, str],
) -> None:
    for task in ("start", "stop"):
        code, out = fab(shell, task, "--hosts", "a,b")
        assert code == 2
        assert "are ad hoc (given by --hosts" in out
    code, out = fab(shell, "stop", "--hosts", "a,b", "--stack", "dev")
    assert (code, "give one of them" in out) == (2, True)
    code, out = fab(shell, "extend")
    assert (code, "--hours is missing" in out) == (2, True)
