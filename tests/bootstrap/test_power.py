"""Which machines a command is about, and starting and stopping them.

The cloud is the tests' own; its machines are two SSH hosts of this machine.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import paramiko
import pytest
from standins import registered_cloud
from standins.pulumi_command import PulumiCommand

from bootstrap.cli.targets import Target
from bootstrap.clouds import base
from bootstrap.clouds.base import MISSING, Deadline, InstanceState, Refused
from bootstrap.clouds.local import cluster, processes
from bootstrap.clouds.local import host as local_host
from bootstrap.clouds.local.host import LocalHost
from bootstrap.console.output import print_lines
from bootstrap.console.wait import Clock
from bootstrap.errors import HostsFailed, HostsNotReady, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.document import from_document, to_document
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import cloud_host_keys, deadlines, key_rotation, power, stop, timer

CASES = Path(__file__).parents[1] / "cases"
REPO = Path(__file__).parents[2]
GOLDEN = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))
ONE, TWO = "aws-g4dn-1", "aws-g4dn-2"
NONE_SELECTED = "echo 'error: no stack selected' >&2; exit 1"


@dataclass(frozen=True)
class Machines:
    """The two SSH hosts, by the names that the cloud's machines have."""

    hosts: dict[str, LocalHost]
    inventory: Inventory

    def end(self, *names: str) -> None:
        """End their sshd."""
        for name in names or self.hosts:
            processes.end(self.hosts[name].folder)

    def run(self, *names: str) -> None:
        """Start their sshd, where it does not run."""
        for name in names or self.hosts:
            if self.hosts[name].pid is None:
                local_host.run(self.hosts[name])
                local_host.wait_for(self.hosts[name])

    @property
    def addresses(self) -> list[str]:
        return [host.address for host in self.hosts.values()]


@pytest.fixture(scope="module")
def two_hosts(home_of_session: Path) -> Iterator[Machines]:
    local = cluster.start("power", 2)
    hosts = dict(zip((ONE, TWO), cluster.existing("power"), strict=True))
    ours = tuple(replace(h, user=local.chief.user) for h in GOLDEN.hosts)
    made = Machines(hosts, replace(GOLDEN, hosts=ours, key_file=local.key_file))
    yield made
    made.end()


@pytest.fixture
def machines(two_hosts: Machines) -> Machines:
    """The two hosts; sshd runs on both."""
    two_hosts.run()
    return two_hosts


class Sky:
    """A cloud of two machines that obeys after some seconds; its time passes by waiting alone.
    `at_sleep` are called whenever time has passed."""

    def __init__(self, machines: Machines, *states: str, takes: float = 30) -> None:
        self.machines = machines
        self.at_sleep: list[Callable[[], None]] = []
        self.keys: dict[str, tuple[str, ...]] = {
            name: (host.public_key,) for name, host in machines.hosts.items()
        }
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
        for call in self.at_sleep:
            call()

    def instance_states(self) -> dict[str, InstanceState]:
        for name, (at, state) in self.due.items():
            if self.time >= at:
                self.states[name] = state
        values = {}
        for number, (name, state) in enumerate(self.states.items(), 1):
            host, runs = self.machines.hosts[name], state == "running"
            values[name] = InstanceState(
                state, host.address if runs else None, "Sky", "now",
                port=host.port if runs else None, serial=f"i-{number}",
            )  # fmt: skip
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
        return self.keys

    def allowed_cidrs(self) -> tuple[str, ...]:
        return ("203.0.113.7/32",)


@dataclass(frozen=True)
class Operator:
    """A person with a stack `dev` whose machines are in the cloud of these tests."""

    pulumi: PulumiCommand
    machines: Machines
    patch: pytest.MonkeyPatch

    def has(self, *states: str, takes: float = 30) -> Sky:
        """The cloud, with machines in these states."""
        return self.under(Sky(self.machines, *states, takes=takes))

    def under(self, sky: Sky) -> Sky:
        """This cloud is the one of the stack."""
        registered_cloud.register(self.patch, "aws", sky)
        return sky

    def types(self, text: str) -> None:
        """Let the commands have this terminal."""
        self.patch.setattr("sys.stdin", Terminal(text))


class Terminal(io.StringIO):
    """What a user types."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def operator(
    machines: Machines, pulumi: PulumiCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Operator:
    """No stack is selected, and there is no terminal."""
    document = tmp_path / "cluster.json"
    document.write_text(json.dumps(to_document(machines.inventory)))
    pulumi.answers(stack_output=f"cat {document}", stack=NONE_SELECTED)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr(timer, "TOOL", str(tmp_path / "none"))  # not that of this machine
    return Operator(pulumi, machines, monkeypatch)


def addresses(inventory: Inventory) -> list[str]:
    return [host.address for host in inventory.hosts]


# --- Which hosts -------------------------------------------------------------------------------


def test_hosts_and_stack_together_are_refused(operator: Operator) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        Target("a,b", stack="dev")


def test_hosts_then_stack_then_the_selected_one_then_the_last_cluster(
    operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    operator.has()
    local_state.save_cluster(Target("last").running())
    assert addresses(Target().running()) == ["last"]
    document = (operator.pulumi.folder / "stack_output.1").read_text()
    operator.pulumi.answers(stack_output=document, stack="echo chosen")
    assert Target().running().stack == "chosen"
    assert Target(stack="dev").running().stack == "dev"
    assert addresses(Target("a,b").running()) == ["a", "b"]
    lines = [line for line in capsys.readouterr().out.splitlines() if ": " in line]
    shown = ", ".join(
        f"{operator.machines.inventory.chief.user}@{host.address}:{host.port}"
        for host in operator.machines.hosts.values()
    )
    assert f"aws-g4dn (aws, account 1234, us-east-1, stack dev): {shown}" in lines
    assert lines[-1].endswith("(hosts): a, b")
    assert operator.pulumi.called("stack output --json", "stack output cluster") == [
        f"stack output cluster --json --stack {name}" for name in ("chosen", "dev")
    ]


def test_addresses_are_those_of_now_and_a_sleeping_host_has_none(operator: Operator) -> None:
    operator.has("running", "stopped")
    seen = Target(stack="dev").status()
    assert addresses(seen.inventory) == [operator.machines.addresses[0], TWO]
    assert seen.not_running == [TWO]


def test_machines_that_do_not_run_end_with_2_and_name_the_command(
    operator: Operator,
) -> None:
    sky = operator.has("running", "stopped")
    with pytest.raises(UsageError, match=f"{ONE} running; {TWO} stopped") as caught:
        Target(stack="dev").running()
    assert caught.value.hint.startswith("fab start")
    assert sky.calls == []


@pytest.mark.parametrize(
    ("state", "hint"), [("gone", "fab up --refresh"), ("unknown", "fab status")]
)
def test_machines_that_are_lost_are_not_started(operator: Operator, state: str, hint: str) -> None:
    sky = operator.has("stopped", state)
    for begin in (True, False):
        with pytest.raises(HostsNotReady, match=state) as caught:
            Target(stack="dev", start=begin).running()
        assert caught.value.hint.startswith(hint)
    assert sky.calls == []


@pytest.mark.parametrize(("typed", "starts"), [("y", True), ("", False), ("n", False)])
def test_at_a_terminal_the_user_is_queried(
    operator: Operator, capsys: pytest.CaptureFixture[str], typed: str, starts: bool
) -> None:
    sky = operator.has("stopped", "stopped")
    operator.types(f"{typed}\n")
    status = Target(stack="dev").status()
    if starts:
        running = power.ensure_running(status, print_lines, clock=sky.clock())
        assert addresses(running) == operator.machines.addresses
    else:
        with pytest.raises(UsageError, match="were not started"):
            power.ensure_running(status, print_lines, clock=sky.clock())
    assert ("start" in sky.calls) == starts
    assert "Start them, 7.82 USD per hour" in capsys.readouterr().out


@pytest.mark.parametrize("state", ["running", "stopped"])
def test_an_injected_key_is_changed_as_soon_as_its_machine_answers(
    operator: Operator, state: str
) -> None:
    """Before anything else is done with it, whether it was started for that or not."""
    sky = operator.has(state, state)
    first, second = operator.machines.hosts.values()
    before = first.public_key
    pins = {ONE: [f"{before} i-1 injected"], TWO: [f"{second.public_key} i-2"]}
    cloud_host_keys.replace_pins(GOLDEN, pins)
    rotate_in(first.folder, operator.patch)
    answers_at(sky, 20, ONE)
    status = Target(stack="dev").status()
    power.ensure_running(status, lambda _: None, start_them=True, clock=sky.clock())
    after = first.public_key
    assert after != before and sky.time >= 20
    assert [line[1:] for line in cloud_host_keys.pin_fields(GOLDEN) if line[0] == ONE] == [
        [*after.split(), "i-1"]
    ]


def rotate_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let the scripts that change a host key change that of an SSH host of this machine."""
    own = {
        key_rotation.KEY: f"{folder}/host_key",
        "/run/sshd.pid": f"{folder}/sshd.pid",
        "/run/systemd/system": "/nowhere",
        '"$(command -v sshd)" -t': "true",
    }
    for name in ("MAKE", "SWITCH"):
        script = getattr(key_rotation, name)
        for path, replacement in own.items():
            script = script.replace(path, replacement)
        patch.setattr(key_rotation, name, script)


def answers_at(sky: Sky, seconds: float, *names: str) -> None:
    """No sshd of these machines runs before so many seconds have passed."""
    sky.machines.end(*names)
    sky.at_sleep.append(lambda: sky.machines.run(*names) if sky.time >= seconds else None)


# --- Starting and stopping ---------------------------------------------------------------------


def start(operator: Operator, sky: Sky, hours: float | None = None) -> Inventory:
    inventory = operator.under(sky).machines.inventory
    return power.start(inventory, lambda line: None, hours=hours, clock=sky.clock())


def test_the_deadline_is_armed_before_the_machines_start(operator: Operator) -> None:
    sky = operator.has("stopped", "stopped", takes=90)
    sky.armed = Deadline("scheduled-stop", datetime(2026, 1, 1, tzinfo=timezone.utc), "past", "Sky")
    assert addresses(start(operator, sky)) == operator.machines.addresses
    assert sky.calls == ["arm 8", "start"]
    assert 90 <= sky.time < 120
    assert addresses(local_state.load_cluster(GOLDEN.name)) == operator.machines.addresses


def test_hours_are_those_that_were_given(operator: Operator) -> None:
    sky = operator.has("stopped", "stopped")
    sky.set_deadline(1)
    start(operator, sky, hours=2.5)
    assert sky.calls == ["arm 1", "arm 2.5", "start"]


def test_without_hours_they_are_those_that_the_stack_was_made_with() -> None:
    kinds = [{"kind": "scheduled-stop", "id": "s", "at": "2026-11-21T18:00:00Z", "seconds": 9000}]
    assert deadlines.default_hours(replace(GOLDEN, deadlines=tuple(kinds))) == 2.5
    assert deadlines.default_hours(replace(GOLDEN, deadlines=())) == 8


def test_a_deadline_that_begins_with_the_start_is_not_armed(operator: Operator) -> None:
    sky = operator.has("stopped", "stopped")
    sky.armed = Deadline("max-run-duration", None, "armed", "Sky", "4 h from each start")
    start(operator, sky)
    assert sky.calls == ["start"]


def test_a_machine_that_is_still_stopping_is_waited_for(operator: Operator) -> None:
    sky = operator.has("stopping", "stopped")
    sky.due[ONE] = (60, "stopped")
    start(operator, sky)
    assert sky.time >= 90


def test_a_stock_out_stops_what_was_started_with_it(operator: Operator) -> None:
    sky = operator.has("stopped", "stopped")
    sky.full = {TWO}
    with pytest.raises(HostsFailed, match="found no room"):
        start(operator, sky)
    assert sky.calls == ["start", "stop"]
    assert sky.time < 60

    sky = operator.has("stopped", "stopped")
    sky.refuses = "no such machine free"
    with pytest.raises(Refused, match="no such machine free"):
        start(operator, sky)
    assert sky.calls == ["start", "stop"]


def test_a_machine_that_ran_before_is_not_stopped_for_another(operator: Operator) -> None:
    sky = operator.has("running", "stopped")
    sky.full = {TWO}
    with pytest.raises(HostsFailed):
        start(operator, sky)
    assert sky.calls == ["start"]


def test_ssh_is_waited_for(operator: Operator) -> None:
    sky = operator.has("stopped", "stopped")
    answers_at(sky, 60, ONE)
    start(operator, sky)
    assert 60 <= sky.time < 80


def test_ssh_is_not_waited_for_without_end(operator: Operator) -> None:
    sky = operator.has("stopped", "stopped")
    operator.machines.end()
    with pytest.raises(HostsNotReady, match="the machines run, but refuse the login") as caught:
        start(operator, sky)
    assert sky.time >= power.SSH_SECONDS
    assert all("no sshd answers" in outcome for outcome in caught.value.outcomes.values())


def test_a_host_key_that_is_not_the_pinned_one_is_refused_at_once(operator: Operator) -> None:
    """Five minutes of new connections would not make it the right machine."""
    sky = operator.has()
    sky.keys = {**sky.keys, ONE: sky.keys[TWO]}
    with pytest.raises(HostsNotReady, match="refuse the login") as caught:
        start(operator, sky)
    assert "REFUSED, its host key changed" in caught.value.outcomes[ONE]
    assert caught.value.outcomes[TWO] == "ok" and sky.time == 0, "it was tried again"


def test_a_host_key_that_nothing_pins_is_refused_at_once(operator: Operator) -> None:
    sky = operator.has()
    ours = operator.machines.inventory
    hosts = tuple(replace(host, host_key_source=None) for host in ours.hosts)
    with pytest.raises(HostsNotReady, match="refuse the login") as caught:
        power.start(replace(ours, hosts=hosts), lambda _: None, clock=sky.clock())
    assert caught.value.outcomes[ONE].startswith("unknown host key: ")
    assert sky.time == 0, "it was tried again"


def test_connections_of_a_wait_are_closed_before_the_next_try(operator: Operator) -> None:
    def connections() -> set[paramiko.Transport]:
        return {t for t in threading.enumerate() if isinstance(t, paramiko.Transport)}

    sky, before, opened = operator.has(), connections(), list[int]()
    sky.at_sleep.append(lambda: opened.append(sum(t.is_active() for t in connections() - before)))
    answers_at(sky, 30, TWO)
    start(operator, sky)
    assert len(opened) > 5 and set(opened) == {0}


def test_stopping_waits_for_the_cloud_and_reports_what_still_bills(
    operator: Operator,
) -> None:
    sky, lines = operator.has(takes=90), list[str]()
    stop.stop(GOLDEN, lines.append, clock=sky.clock())
    assert 90 <= sky.time < 120
    assert (
        "still bills: disk vol-1, 100 GB: 0.26 USD per day; fab teardown --destroy ends it" in lines
    )
    sky = operator.has(takes=10**9)
    with pytest.raises(HostsFailed, match="do not stop"):
        stop.stop(GOLDEN, lines.append, clock=sky.clock())


def test_spot_machines_are_ended_only_with_their_results_safe_and_with_consent(
    operator: Operator, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sky = operator.has()
    sky.spot = [ONE, TWO]
    ours = replace(GOLDEN, stack="g4dn", bucket=None)
    local_state.save_run({"run_id": "r1", "cluster": ours.name}, tmp_path / "results")
    with pytest.raises(UsageError, match="results of r1 were not fetched") as caught:
        stop.stop(ours, print, clock=sky.clock())
    assert caught.value.hint == "fab fetch --run r1   # or: fab stop --stack g4dn --discard-results"
    with pytest.raises(UsageError, match="question cannot be answered") as caught:
        stop.stop(ours, print, discard=True, clock=sky.clock())
    assert caught.value.hint == "fab stop --stack g4dn --yes" and sky.calls == []
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
    operator: Operator, state: str, machine: str, fails: bool
) -> None:
    sky, lines = operator.has(machine, machine), list[str]()
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
    ("exists", "next_"),
    [(True, "fab extend --stack g4dn --hours 8"), (False, "fab up --refresh --stack g4dn")],
)
def test_a_deadline_that_is_not_there_is_made_by_an_up(
    operator: Operator, exists: bool, next_: str
) -> None:
    """`fab extend` cannot move it. A broken `up` leaves such machines."""
    sky = operator.has()
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
    assert "next: fab start --stack dev   # or: fab train --start --stack dev" in out
    code, out = fab(shell, "deploy")
    assert (code, "no run is recorded for dev" in out) == (2, True), out
    assert not cluster.read("dev")["h1"]["running"], "started for nothing"
    code, out = fab(shell, "start")
    assert code == 0, out
    assert cluster.read("dev")["h2"]["running"]
    code, out = fab(shell, "exec", "--cmd", "echo in")
    assert (code, out.count("] in\n")) == (0, 2), out


def test_hosts_of_the_demo_that_do_not_run_are_started_as_those_of_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cluster.start("demo", 1)
    cluster.stop("demo")
    with pytest.raises(UsageError, match="not all machines run: h1 stopped") as stopped:
        Target().running()
    assert stopped.value.hint.startswith("fab start   #")
    shutil.rmtree(local_state.cluster_folder("demo") / "hosts")
    with pytest.raises(HostsNotReady) as gone:
        Target().running()
    assert gone.value.hint.startswith("fab demo   #")


@pytest.mark.parametrize("task", ["deploy", "notebook"])
def test_what_serves_on_a_stack_starts_its_machines(shell: dict[str, str], task: str) -> None:
    local_state.save_run({"run_id": "r1", "cluster": "dev"}, Path.cwd() / "results/r1")
    assert fab(shell, "stop", "--stack", "dev")[0] == 0
    code, out = fab(shell, task)
    assert (code, "starting h1, h2" in out) == (2, True), out
    assert "next: fab bootstrap --stack dev" in out, "they have no runtime"
    assert cluster.read("dev")["h2"]["running"]


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
