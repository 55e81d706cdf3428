"""The timer of a machine's user data, on hosts that boot a real systemd and a real cloud-init.

Only the interval between two checks is shorter than on a machine.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from draws import drawn
from e2e.local_hosts import wait_until
from hosts.network import Network
from hosts.systemd import SystemdHost
from standins import registered_cloud

from bootstrap.cli import status
from bootstrap.clouds.base import MISSING, Deadline
from bootstrap.errors import HostsFailed
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import deadlines, timer
from bootstrap.lifecycle.deadlines import NewDeadline
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.lifecycle.stop_policy import within_budget
from bootstrap.runs.launch import StopPolicy
from bootstrap.ssh import connect
from railhead.documents.cluster import ClusterPrice
from stacks.aws.user_data import cloud_config
from stacks.timer.deadline import IDLE_TOOL, TOOL, install_script

pytestmark = [pytest.mark.root, pytest.mark.slow]

OFTEN = "[Timer]\nOnUnitInactiveSec=\nOnActiveSec=1\nOnUnitInactiveSec=1\n"
FILE = "/var/lib/railhead/deadline"
Start = Callable[..., SystemdHost]


@pytest.fixture
def machine(network: Network, cloud_image: Path) -> Iterator[Start]:
    """Start a machine as a cloud creates it: `machine("m1", user_data=...)`."""
    hosts: list[SystemdHost] = []

    def start(name: str, user_data: str = "") -> SystemdHost:
        host = SystemdHost(network, name, base=cloud_image)
        hosts.append(host)
        host.write("/etc/systemd/system/railhead-deadline.timer.d/often.conf", OFTEN)
        if user_data:
            host.write("/var/lib/cloud/seed/nocloud/user-data", user_data)
            host.write("/var/lib/cloud/seed/nocloud/meta-data", f"instance-id: i-{name}\n")
        else:
            host.write("/etc/cloud/cloud-init.disabled", "")
        host.start()
        return host

    yield start
    for host in hosts:
        host.remove()


def shown(host: SystemdHost) -> dict[str, str]:
    """The output of the tool, once its timer runs."""
    wait_until(lambda: "timer=active" in host.exec(TOOL, "show").stdout, 30, "the timer runs")
    return dict(word.split("=") for word in host.exec(TOOL, "show").stdout.split())


def inventory_of(host: SystemdHost, user: str = "rail") -> Inventory:
    """A cloud machine, as `fab` knows it."""
    named = Host(host.name, host.address, user=user)
    return Inventory("c", (named,), cloud="aws", key_file=str(host.network.key))


def trust(home: Path, host: SystemdHost) -> None:
    (home / ".ssh").mkdir(mode=0o700, exist_ok=True)
    (home / ".ssh/known_hosts").write_text(host.known_hosts_line())


def run_again(host: SystemdHost) -> None:
    """As Google's guest agent does at each boot."""
    host.write("/startup-script", install_script(8))
    done = host.exec("sh", "/startup-script")
    assert done.returncode == 0, done.stderr


def test_user_data_powers_the_machine_off_at_its_time_also_after_a_reboot(machine: Start) -> None:
    """cloud-init runs what EC2 gives it, at the first boot only; the deadline is a time on the
    disk. Nobody is connected when it comes."""
    host = machine("m1", cloud_config(8, 0))
    first = shown(host)
    stops = int(first["stops"])
    assert 28700 < stops - int(first["now"]) <= 28800 and first["late"] == "no"
    host.write(FILE, f"{stops - 3600}\n")
    before = host.boot_id()
    host.exec("systemctl", "reboot")
    host.wait_for_reboot(before)
    assert int(shown(host)["stops"]) == stops - 3600, "user data wrote another deadline"
    host.write(FILE, f"{int(time.time()) + 3}\n")
    host.wait_for_power_off()


def test_googles_startup_script_runs_at_each_boot_and_moves_nothing(machine: Start) -> None:
    host = machine("m1")
    run_again(host)
    stops = shown(host)["stops"]
    time.sleep(1.1)  # a deadline written now would differ
    run_again(host)
    assert shown(host)["stops"] == stops
    host.write(FILE, f"{int(time.time()) + 3}\n")
    host.wait_for_power_off()


def test_a_late_start_gives_a_quarter_of_an_hour(machine: Start) -> None:
    host = machine("m1")
    run_again(host)
    shown(host)
    host.stop()
    host.write(FILE, f"{int(time.time()) - 3600}\n")
    host.start()
    late = shown(host)
    left = int(late["stops"]) - int(late["now"])
    assert late["late"] == "yes" and 840 < left <= 900
    # The same with 5 s instead of 900.
    text = host.read(TOOL)
    assert text.count("LATE=900\n") == 1
    host.write(TOOL, text.replace("LATE=900\n", "LATE=5\n"))
    host.wait_for_power_off()


IDLE, IDLE_FILE = "/run/railhead-idle.json", "/var/lib/railhead/idle-minutes"
USES = {
    "a login": None,
    "a run": "env RAILHEAD_RUN=r sleep 600",
    "Railhead": "bash -c 'exec -a /home/rail/.railhead/envs/7a/bin/python sleep 600'",
    "packages": "bash -c 'exec -a apt-get sleep 600'",
}


def seen(host: SystemdHost) -> dict[str, Any]:
    """What the last look has kept; nobody uses a machine before the first."""
    done = host.exec("cat", IDLE)
    return json.loads(done.stdout) if done.returncode == 0 else {"looked": 0.0, "uses": []}


def begin(host: SystemdHost, use: str) -> Callable[[], object]:
    """Use the machine; what ends it."""
    if command := USES[use]:
        file = f"/user-{use.replace(' ', '-')}"
        inside = ["setsid", "-f", "sh", "-c", f"echo $$ >{file}; exec {command} >/dev/null 2>&1"]
        assert host.exec(*inside).returncode == 0
        return lambda: host.exec("sh", "-c", f"kill $(cat {file})")
    quiet = "-o StrictHostKeyChecking=no -o BatchMode=yes -o UserKnownHostsFile=/dev/null"
    ssh = ["ssh", "-i", str(host.network.key), *quiet.split(), f"rail@{host.address}", "sleep 600"]
    login = subprocess.Popen(ssh, stdin=subprocess.DEVNULL)

    def log_out() -> None:
        login.kill()
        login.wait()

    return log_out


def test_a_machine_that_nobody_uses_powers_itself_off_and_one_in_use_does_not(
    machine: Start,
) -> None:
    """Each use is seen; the last one keeps the machine on. Six seconds stand for half an hour. The
    load of the machine that the tests run on does not count here."""
    last_use = drawn([*USES])
    host = machine("m1", cloud_config(8, 30))
    shown(host)
    assert host.read(IDLE_FILE) == "30\n"
    text = host.read(IDLE_TOOL)
    assert text.count("LOAD = 0.05") == 1
    ends = {use: begin(host, use) for use in USES}
    wait_until(lambda: {*USES} <= {*seen(host)["uses"]}, 30, "the uses are seen")
    for use in {*USES} - {last_use}:
        ends[use]()
    host.write(IDLE_TOOL, text.replace("LOAD = 0.05", "LOAD = 2"))
    host.write(IDLE_FILE, "0.1\n")
    begun = seen(host)["looked"]
    wait_until(lambda: seen(host)["looked"] > begun + 8, 60, "it looks again")
    last = seen(host)
    assert last["since"] == last["looked"] and last["uses"] == [last_use] and host.is_on
    ends[last_use]()
    host.wait_for_power_off()


def test_where_the_look_fails_a_machine_stays_on_until_its_deadline(machine: Start) -> None:
    host = machine("m1", cloud_config(8, 30))
    shown(host)
    host.write(IDLE_FILE, "0.001\n")
    looks = "import pathlib; p = pathlib.Path('/looks'); p.write_text(p.read_text() + 'x')\n"
    host.write("/looks", "")
    host.write(IDLE_TOOL, looks + "1 / 0\n")
    wait_until(lambda: len(host.read("/looks")) > 2, 30, "it looks three times")
    assert host.is_on
    host.write(FILE, f"{int(time.time()) + 3}\n")
    host.wait_for_power_off()


class Scheduler:
    """A cloud with the deadline of the last call."""

    def __init__(self) -> None:
        self.at = datetime.now(timezone.utc) + timedelta(hours=1)

    def deadlines(self) -> dict[str, Deadline]:
        return {"m1": Deadline("scheduled-stop", self.at, "armed", "here")}

    def set_deadline(self, hours: float) -> None:
        self.at = datetime.now(timezone.utc) + timedelta(hours=hours)


def test_extend_moves_it_by_sudo_also_after_a_late_start(machine: Start, home: Path) -> None:
    host = machine("m1")
    run_again(host)
    host.write(FILE, f"{int(time.time()) - 3600}\n")
    host.restart()
    assert shown(host)["late"] == "yes"
    trust(home, host)
    inventory, printed = inventory_of(host), list[str]()
    deadlines.extend(inventory, Scheduler(), NewDeadline(2), printed.append)  # type: ignore[arg-type]
    found = shown(host)
    # Minutes for a busy machine; a late start has 15 minutes.
    assert found["late"] == "no" and 6900 < int(found["stops"]) - int(found["now"]) <= 7200
    assert "the machines power themselves off at" in printed[-1]
    assert host.is_on
    # As `fab start` does it: the time of the cloud's deadline.
    deadlines.arm_timers(inventory, Scheduler(), None, printed.append)  # type: ignore[arg-type]
    found = shown(host)
    assert 3300 < int(found["stops"]) - int(found["now"]) <= 3600


def test_the_budget_of_a_run_ends_the_machine_when_nobody_is_connected(
    machine: Start, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.11 USD at 1 USD per hour are 396 seconds, of which the preparation of the hosts has taken
    all but 70. The machine had 8 hours, and its cloud one."""
    host = machine("m1", cloud_config(8, 0))
    assert int(shown(host)["stops"]) > time.time() + 3600
    trust(home, host)
    cloud, printed = Scheduler(), list[str]()
    registered_cloud.register(monkeypatch, "aws", cloud)
    price = ClusterPrice(1.0, "USD", "the stack's config", "")
    inventory = replace(inventory_of(host), price=price)
    policy = within_budget(inventory, StopPolicy(0, budget=0.11), time.time() - 326)
    assert policy.spent_at
    with connect.open_sessions(inventory) as sessions:
        cluster: Any = SimpleNamespace(inventory=inventory, sessions=sessions)
        deadlines.limit(cluster, policy.spent_at, printed.append)
    late = int(shown(host)["stops"]) - policy.spent_at
    assert -2 <= late <= 60, "the tool takes no time before a minute from now"
    assert abs(cloud.at.timestamp() - policy.spent_at) < 2 and len(printed) == 1
    host.wait_for_power_off(150)
    assert time.time() > policy.spent_at - 2


def test_status_shows_the_timer_of_each_machine(
    machine: Start, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    host = machine("m1")
    run_again(host)
    shown(host)
    trust(home, host)
    inventory = inventory_of(host)
    lost = replace(inventory.hosts[0], name="m2", address="127.0.0.9")
    inventory = replace(inventory, hosts=(*inventory.hosts, lost))
    with connect.open_sessions(inventory) as sessions:
        report = status.StatusReport(ClusterStatus(inventory, {}, "hosts"))
        status._show_timers(sessions, report)
    armed, unknown = capsys.readouterr().out.splitlines()
    assert armed.startswith("[m1] deadline timer: armed, 20")
    assert re.search(r", in (8 h|7 h 5\d min) ", armed), armed
    assert unknown == "[m2] deadline timer: UNKNOWN: the machine cannot be reached"


def test_what_the_tool_cannot_read_counts_from_the_boot(machine: Start) -> None:
    host = machine("m1")
    run_again(host)
    for text in ("", "soon\n", "-5\n", "0\n08\n", "9" * 10, "9" * 40, "1e9\n"):
        host.write(FILE, text)
        found = shown(host)
        left = int(found["stops"]) - int(found["now"])
        assert 28600 < left <= 28800 and found["late"] == "no", text
    for wrong in ("", "0", "59", "-1", "1e3", "999999999", "$(reboot)"):
        assert host.exec(TOOL, "set", wrong).returncode == 2, wrong
    assert host.exec(TOOL).returncode == 2


def test_a_machine_without_a_timer_is_reported_and_one_without_rights_fails(
    machine: Start, home: Path
) -> None:
    host = machine("m1")
    trust(home, host)
    inventory, printed = inventory_of(host), list[str]()
    deadlines.move_timers(inventory, Scheduler().at, printed.append)
    assert printed == [
        "[m1] warning: the machine has no timer, so it does not power itself off; only the "
        "cloud's own deadline stops it"
    ]
    run_again(host)
    shown(host)
    host.exec("systemctl", "stop", "railhead-deadline.timer")
    with connect.open_sessions(inventory) as sessions:
        found = timer.read(sessions.chief)
    assert (found.state, found.reason) == (MISSING, "its systemd timer is inactive")
    deadlines.move_timers(inventory, Scheduler().at, printed.append)
    assert shown(host)["timer"] == "active", "moving it starts it"
    host.exec("rm", "/etc/sudoers.d/rail")
    with pytest.raises(HostsFailed, match="its timer was not moved: sudo"):
        deadlines.move_timers(inventory, Scheduler().at, printed.append)
    with pytest.raises(HostsFailed, match="power off at their old time"):
        gone = replace(inventory, hosts=(replace(inventory.hosts[0], address="127.0.0.9"),))
        deadlines.move_timers(gone, Scheduler().at, printed.append)
