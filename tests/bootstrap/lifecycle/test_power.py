"""Which machines a command is about, and starting and stopping them.

The cloud is the tests' own; its machines are two SSH hosts of this machine.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko.ssh_exception import AuthenticationException, SSHException
from standins.machines_of_a_cloud import GOLDEN, ONE, TWO, Machines, Operator, Sky
from standins.pulumi_command import PulumiCommand, exported, resource

from bootstrap.cli.targets import Target
from bootstrap.clouds.base import MISSING, Deadline, Refused
from bootstrap.clouds.local import cluster
from bootstrap.console.output import print_lines, quiet
from bootstrap.errors import HostsFailed, HostsNotReady, RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.document import to_document
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import (
    cloud_host_keys,
    consent,
    deadlines,
    held,
    key_rotation,
    power,
    stop,
    timer,
)
from bootstrap.lifecycle.deadlines import NewDeadline
from bootstrap.ssh.host_keys import ChangedHostKey, UnknownHostKey
from bootstrap.ssh.session import ConnectionLost, Session
from railhead.documents.cluster import DocumentDeadline
from railhead.documents.options.hosts import TargetOptions
from railhead.documents.runs.run_record import RunRecord

NONE_SELECTED = "echo 'error: no stack selected' >&2; exit 1"


def target(**options: Any) -> Target:
    return Target(TargetOptions(**options))


@pytest.fixture(scope="module")
def two_hosts(home_of_session: Path) -> Iterator[Machines]:
    local = cluster.start("power", 2)
    hosts = dict(zip((ONE, TWO), cluster.existing("power"), strict=True))
    ours = tuple(replace(h, user=local.chief.user) for h in GOLDEN.hosts)
    machines = Machines(hosts, replace(GOLDEN, hosts=ours, key_file=local.key_file))
    yield machines
    machines.end()


@pytest.fixture
def machines(two_hosts: Machines) -> Machines:
    """The two hosts; sshd runs on both."""
    two_hosts.run()
    return two_hosts


@pytest.fixture
def operator(
    machines: Machines, pulumi: PulumiCommand, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Operator:
    """No stack is selected, and there is no terminal."""
    document = to_document(machines.inventory)
    component = resource("railhead:aws:Cluster", outputs={"document": document})
    pulumi.answers(stack_export=exported(component), stack=NONE_SELECTED)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr(timer, "TOOL", str(tmp_path / "none"))  # not that of this machine
    return Operator(pulumi, machines, monkeypatch)


def addresses(inventory: Inventory) -> list[str]:
    return [host.address for host in inventory.hosts]


# --- Which hosts -------------------------------------------------------------------------------


def test_hosts_and_stack_together_are_refused(operator: Operator) -> None:
    with pytest.raises(UsageError, match="give one of them"):
        target(hosts="a,b", stack="dev")


def test_hosts_then_stack_then_the_selected_one_then_the_last_cluster(
    operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    operator.has()
    local_state.save_cluster(target(hosts="last").running())
    assert addresses(target().running()) == ["last"]
    document = (operator.pulumi.folder / "stack_export.1").read_text()
    operator.pulumi.answers(stack_export=document, stack="echo chosen")
    assert target().running().stack == "chosen"
    assert target(stack="dev").running().stack == "dev"
    assert addresses(target(hosts="a,b").running()) == ["a", "b"]
    lines = [line for line in capsys.readouterr().out.splitlines() if ": " in line]
    shown = ", ".join(
        f"{operator.machines.inventory.chief.user}@{host.address}:{host.port}"
        for host in operator.machines.hosts.values()
    )
    assert f"aws-g4dn (aws, account 1234, us-east-1, stack dev): {shown}" in lines
    assert lines[-1].endswith("(hosts): a, b")
    assert operator.pulumi.called("stack export") == [
        f"stack export --stack {name}" for name in ("chosen", "dev")
    ]


def test_addresses_are_those_of_now_and_a_sleeping_host_has_none(operator: Operator) -> None:
    operator.has("running", "stopped")
    seen = target(stack="dev").status()
    assert addresses(seen.inventory) == [operator.machines.addresses[0], TWO]
    assert seen.not_running == [TWO]


def test_machines_that_do_not_run_end_with_2_and_name_the_command(
    operator: Operator,
) -> None:
    sky = operator.has("running", "stopped")
    with pytest.raises(UsageError, match=f"{ONE} running; {TWO} stopped") as caught:
        target(stack="dev").running()
    assert caught.value.hint.startswith("fab start")
    assert sky.calls == []


@pytest.mark.parametrize(
    ("state", "hint"), [("gone", "fab up --refresh"), ("unknown", "fab status")]
)
def test_machines_that_are_lost_are_not_started(operator: Operator, state: str, hint: str) -> None:
    sky = operator.has("stopped", state)
    for begin in (True, False):
        with pytest.raises(HostsNotReady, match=state) as caught:
            target(stack="dev", start=begin).running()
        assert caught.value.hint.startswith(hint)
    assert sky.calls == []


@pytest.mark.parametrize(("typed", "starts"), [("y", True), ("", False), ("n", False)])
def test_at_a_terminal_the_user_is_queried(
    operator: Operator, capsys: pytest.CaptureFixture[str], typed: str, starts: bool
) -> None:
    sky = operator.has("stopped", "stopped")
    operator.types(f"{typed}\n")
    status = target(stack="dev").status()
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
    status = target(stack="dev").status()
    lines = list[str]()
    power.ensure_running(status, lines.append, start_them=True, clock=sky.clock())
    after = first.public_key
    assert after != before and sky.time >= 20
    assert [line[1:] for line in cloud_host_keys.pin_fields(GOLDEN) if line[0] == ONE] == [
        [*after.split(), "i-1"]
    ]
    stored = [line for line in lines if line.startswith("host keys are not stored in ")]
    assert len(stored) == 1, "nobody may write the bucket here; other computers would read it"


def test_an_endpoint_starts_the_chief_and_leaves_the_others_stopped(
    operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, lines = operator.machines.inventory, list[str]()
    sky = operator.has("stopped", "stopped")
    status = power.ClusterStatus(whole, sky.instance_states(), "aws")
    del sky.states[TWO]  # the cloud of the chief alone
    answers_at(sky, 20, ONE)
    with (
        pytest.raises(UsageError, match="no model"),
        quiet(),
        power.chief_started(status, lines.append, clock=sky.clock()) as inventory,
    ):
        assert inventory.names == (ONE,)
        raise UsageError("no model")
    assert capsys.readouterr().out.startswith("the machines keep running, 3.91 USD per hour: fab")
    assert sky.calls == ["start"] and sky.states == {ONE: "running"}
    assert "starting aws-g4dn-1, 3.91 USD per hour" in lines
    assert local_state.load_cluster(whole.name).names == (ONE, TWO)


def rotate_in(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let the scripts that change a host key change that of an SSH host of this machine."""
    variables = {
        key_rotation.KEY: f"{folder}/host_key",
        "/run/sshd.pid": f"{folder}/sshd.pid",
        "/run/systemd/system": "/nowhere",
        '"$(command -v sshd)" -t': "true",
    }
    for name in ("MAKE", "SWITCH"):
        script = getattr(key_rotation, name)
        for path, replacement in variables.items():
            script = script.replace(path, replacement)
        patch.setattr(key_rotation, name, script)


def answers_at(sky: Sky, seconds: float, *names: str) -> None:
    """No sshd of these machines runs before so many seconds have passed."""
    sky.machines.end(*names)
    sky.at_sleep.append(lambda: sky.machines.run(*names) if sky.time >= seconds else None)


def test_hosts_of_the_demo_that_do_not_run_are_started_as_those_of_a_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    cluster.start("demo", 1)
    cluster.stop("demo")
    with pytest.raises(UsageError, match="not all machines run: h1 stopped") as stopped:
        target().running()
    assert stopped.value.hint.startswith("fab start   #")
    shutil.rmtree(local_state.cluster_folder("demo") / "hosts")
    with pytest.raises(HostsNotReady) as gone:
        target().running()
    assert gone.value.hint.startswith("fab demo   #")


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


@pytest.mark.parametrize("minutes", [5, 7 * 60])
def test_a_deadline_of_the_last_start_is_armed_anew(operator: Operator, minutes: int) -> None:
    """It is armed, and would stop the machines in minutes."""
    sky = operator.has("stopped", "stopped")
    end = datetime.now(timezone.utc) + timedelta(minutes=minutes)
    sky.armed = Deadline("scheduled-stop", end, "armed", "Sky")
    start(operator, sky)
    assert sky.calls == ["arm 8", "start"]


def test_hours_are_those_that_were_given(operator: Operator) -> None:
    sky = operator.has("stopped", "stopped")
    sky.set_deadline(1)
    start(operator, sky, hours=2.5)
    assert sky.calls == ["arm 1", "arm 2.5", "start"]


@pytest.mark.parametrize(("hours", "armed_for"), [(None, 20 / 7.824), (8, 20 / 7.824), (1, 1)])
def test_a_start_on_a_budget_has_the_hours_that_it_leaves(
    operator: Operator, hours: float | None, armed_for: float
) -> None:
    """20 USD at 7.824 per hour are 2.56 hours; the stack's deadline is later."""
    sky = operator.has("stopped", "stopped")
    sky.set_deadline(8)
    inventory = replace(operator.under(sky).machines.inventory, budget=20.0)
    power.start(inventory, lambda line: None, hours=hours, clock=sky.clock())
    _, armed, started = sky.calls
    assert started == "start" and float(armed.split()[1]) == pytest.approx(armed_for, abs=0.01)


def test_without_hours_they_are_those_that_the_stack_was_made_with() -> None:
    deadline = DocumentDeadline("scheduled-stop", "s", "h", 9000, "2026-11-21T18:00:00Z")
    assert deadlines.default_hours(replace(GOLDEN, deadlines=(deadline,))) == 2.5
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


def test_a_stock_out_stops_what_was_started_with_it(
    operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    sky = operator.has("stopped", "stopped")
    sky.full = {TWO}
    with pytest.raises(HostsFailed, match="had no capacity"):
        start(operator, sky)
    assert sky.calls == ["start", "stop"]
    assert sky.time < 60

    sky = operator.has("stopped", "stopped")
    sky.refuses = "no such machine free"
    with pytest.raises(Refused, match="no such machine free"):
        start(operator, sky)
    assert sky.calls == ["start", "stop"]
    assert "keep running" not in capsys.readouterr().out


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


def test_ssh_is_not_waited_for_without_end(
    operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    sky = operator.has("stopped", "stopped")
    operator.machines.end()
    with pytest.raises(HostsNotReady, match="the machines run, but refuse the login") as caught:
        start(operator, sky)
    assert sky.time >= power.SSH_SECONDS
    assert all("no sshd answers" in outcome for outcome in caught.value.outcomes.values())
    assert "keep running, 7.82 USD per hour: fab stop" in capsys.readouterr().out


@pytest.mark.parametrize("seconds", [10, 60], ids=["they start", "ssh is waited for"])
def test_ctrl_c_during_a_start_tells_that_the_machines_run(
    operator: Operator, capsys: pytest.CaptureFixture[str], seconds: float
) -> None:
    sky = operator.has("stopped", "stopped")
    operator.machines.end()

    def ctrl_c() -> None:
        if sky.time >= seconds:
            raise KeyboardInterrupt

    sky.at_sleep.append(ctrl_c)
    with pytest.raises(KeyboardInterrupt), quiet():
        start(operator, sky)
    assert sky.calls == ["start"]
    assert capsys.readouterr().out == "the machines keep running, 7.82 USD per hour: fab stop\n"


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
    local_state.save_run(RunRecord("r1", ours.name, str(tmp_path / "results")))
    with pytest.raises(UsageError, match="results of r1 were not all fetched") as caught:
        stop.stop(ours, print, clock=sky.clock())
    assert caught.value.hint == "fab fetch --run r1   # or: fab stop --stack g4dn --discard-results"
    with pytest.raises(UsageError, match="question cannot be answered") as caught:
        stop.stop(ours, print, discard=True, clock=sky.clock())
    assert caught.value.hint == "fab stop --stack g4dn --yes" and sky.calls == []
    stop.stop(ours, print, discard=True, yes=True, clock=sky.clock())
    assert sky.calls == ["terminate"] and set(sky.states.values()) == {"gone"}
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
    wrong = power.print_status(target(stack="dev").status(), lines.append)
    assert (wrong is not None) == fails
    assert lines[0] == f"[{ONE}] {machine} (Sky, now)"
    assert lines[2] == f"[{ONE}] deadline scheduled-stop: {state}: as it is (Sky)"
    assert lines[3] == f"[{TWO}] deadline scheduled-stop: {state}: as it is (Sky)"
    assert lines[4].startswith("cost: 7.82 USD per hour")
    if wrong:
        assert wrong.code == 1


def test_extend_moves_the_cloud_before_it_waits_for_host_keys(operator: Operator) -> None:
    """EC2 shows them minutes after the first boot; until then no machine can be reached."""
    sky = operator.has()
    sky.keys, calls_at_sleep = {}, list[list[str]]()
    sky.set_deadline(1)
    sky.at_sleep.append(lambda: calls_at_sleep.append(list(sky.calls)))
    shutil.rmtree(local_state.cluster_folder(GOLDEN.name), ignore_errors=True)
    lines = list[str]()
    with pytest.raises(HostsFailed, match="power off at their old time") as caught:
        power.extend(target(stack="dev").status(), NewDeadline(5), lines.append, clock=sky.clock())
    assert sky.time >= cloud_host_keys.WAIT_SECONDS, "it never waited"
    assert calls_at_sleep[0] == ["arm 1", "arm 5"]
    assert set(caught.value.outcomes) == {ONE, TWO}
    assert any("host keys that the cloud does not show yet" in line for line in lines)


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
    wrong = power.print_status(target(stack="g4dn").status(), lambda _: None)
    assert wrong and wrong.hint.startswith(next_)


# --- What only the machines know ---------------------------------------------------------------

NOBODY, PARTLY, FETCHED = (f"20261127-00000{number}-abcdef" for number in (1, 2, 3))


@pytest.fixture
def of_a_colleague(machines: Machines) -> Iterator[None]:
    """Three runs that another computer has started. Nobody has fetched the results of the first, a
    part of the second is only there, and all of the third was fetched."""
    for name, run_id, fetched in ((ONE, NOBODY, ""), (ONE, FETCHED, "0"), (TWO, PARTLY, "2")):
        folder = machines.hosts[name].home / ".railhead/runs" / run_id
        folder.mkdir(parents=True)
        (folder / "state.json").write_text("{}")
        if fetched:
            (folder / "fetched").write_text(f'{{"left": {fetched}}}')
    yield
    for host in machines.hosts.values():
        shutil.rmtree(host.home / ".railhead/runs")


@pytest.mark.usefixtures("of_a_colleague")
def test_results_that_another_computer_left_are_not_lost_with_the_machines(
    operator: Operator, capsys: pytest.CaptureFixture[str]
) -> None:
    operator.has()
    inventory = replace(operator.machines.inventory, bucket=None)
    assert held.ask(inventory).unfetched == {NOBODY: ONE, PARTLY: TWO}
    with pytest.raises(UsageError, match=f"results of {NOBODY}, {PARTLY} were not") as caught:
        consent.refuse_unfetched(inventory, discard=False, with_bucket=False, ask=held.ask)
    assert caught.value.hint.startswith(f"fab fetch --run {PARTLY} ")
    assert "--discard-results" in caught.value.hint and not capsys.readouterr().out
    consent.refuse_unfetched(inventory, discard=True, with_bucket=False, ask=held.ask)

    operator.has("running", "stopped")
    answers = held.ask(inventory)
    assert answers.unfetched == {NOBODY: ONE} and answers.not_contacted == {TWO: "stopped"}
    assert f"left there: {TWO}: stopped" in "\n".join(answers.describe())


@pytest.mark.usefixtures("of_a_colleague")
def test_a_machine_that_does_not_say_what_it_has_counts_as_not_contacted(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It accepts the login, and then it hangs."""
    operator.has()
    read = held._read

    def hangs(session: Session) -> consent.Held:
        if session.host.name == TWO:
            raise ConnectionLost("no answer")
        return read(session)

    monkeypatch.setattr(held, "_read", hangs)
    answers = held.ask(replace(operator.machines.inventory, bucket=None))
    assert answers.unfetched == {NOBODY: ONE} and answers.not_contacted == {TWO: "no answer"}


@pytest.mark.usefixtures("of_a_colleague")
def test_an_up_replaces_no_machine_that_alone_has_results_of_another_computer(
    operator: Operator,
) -> None:
    """A change of another machine loses nothing."""
    operator.has()
    inventory = replace(operator.machines.inventory, bucket=None)
    answers, ids = held.ask(inventory), {h.name: str(h.id) for h in inventory.hosts}
    consent.refuse_removal(inventory, answers, list)
    with pytest.raises(UsageError, match=f"results of {PARTLY} were not .* {TWO} would be"):
        consent.refuse_removal(inventory, answers, lambda: [ids[TWO]])


@pytest.mark.parametrize("variable", ["RAILHEAD_RUN", "RAILHEAD_ENDPOINT"])
def test_a_change_that_stops_machines_does_not_interrupt_what_is_in_progress(
    operator: Operator, variable: str
) -> None:
    """Whoever has started it. A change that stops none needs no consent."""
    operator.has()
    inventory = operator.machines.inventory
    home = str(operator.machines.hosts[TWO].home)
    marks = {variable: "digits", "RAILHEAD_HOME": home, "HOME": home}
    process = subprocess.Popen(["/bin/sleep", "300"], env=marks)
    try:
        answers = held.ask(inventory)
    finally:
        process.kill()
        process.wait()
    assert answers.in_progress == {"digits": TWO}
    consent.refuse_interruption(inventory, answers, list)
    first = str(inventory.hosts[0].id)
    with pytest.raises(UsageError, match=f"{ONE} would be stopped .* digits .on {TWO}") as caught:
        consent.refuse_interruption(inventory, answers, lambda: [first])
    assert caught.value.hint.startswith("fab up ") and "--yes" in caught.value.hint
    consent.refuse_interruption(inventory, held.ask(inventory), lambda: [first])


def test_a_machine_that_boots_may_refuse_a_login_but_never_shows_another_key() -> None:
    key = paramiko.RSAKey.generate(1024)
    while_it_boots = (
        *(OSError("no route"), TimeoutError(), EOFError()),
        *(AuthenticationException("no such user yet"), SSHException("no banner")),
    )
    for_ever = (
        *(UnknownHostKey("h1", key), ChangedHostKey("h1", key, Path("known_hosts"))),
        *(RailheadError("no such login"), ValueError("not of ssh")),
    )
    assert [power._is_transient(error) for error in while_it_boots] == [True] * 5
    assert [power._is_transient(error) for error in for_ever] == [False] * 4
