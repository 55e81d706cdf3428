"""The command that stops cloud machines, `sudo -n systemctl poweroff`, on hosts with a systemd.

The real supervisor on the first host runs a shell command as mpirun. Then it runs stop_machines, as
after every run: that powers off the other host over ssh, and its own host last.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.local_hosts import wait_until
from hosts.network import Network
from hosts.systemd import SystemdHost
from standins import programs
from standins.runs.run_documents import run_json
from standins.runs.supervised_run import ENDS

from bootstrap.host.base.programs import NAME, SUPERVISOR
from stacks.outputs import POWER_OFF

pytestmark = [pytest.mark.root, pytest.mark.slow]

HOME, RUN = "/home/rail", "/home/rail/.railhead/runs/r1"
START = (
    f"cd {RUN} && RAILHEAD_RUN=r1 RAILHEAD_HOME={HOME} HOME={HOME} "
    f"setsid python3 -I -S {RUN}/{NAME} {SUPERVISOR} >logs/supervisor.log 2>&1 </dev/null &"
)
# What cannot be stopped is tried again: here after half a second.
BRIEFLY = ("supervisor/stop_machines.py", "PAUSE = 5.0", "PAUSE = 0.5")


class Machines:
    """Two cloud machines with a run of the user `rail`, who may use sudo."""

    def __init__(self, chief: SystemdHost, other: SystemdHost) -> None:
        self.chief, self.other = chief, other

    def prepare(self, mpirun: str, keep_minutes: float | None) -> None:
        """Create the folder of a run on the chief; `keep_minutes` None: --no-stop."""
        stop = {"argv": [list(POWER_OFF)] * 2, "keep_minutes": keep_minutes}
        run = run_json(
            hosts=[{"name": "m1"}, {"name": "m2"}],
            size=2,
            stop=stop if keep_minutes is not None else None,
        )
        place = self.chief.disk.root / RUN.lstrip("/") / NAME
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(programs.changed_archive(*BRIEFLY))
        for name in ("work", "results", "logs"):
            self.chief.write(f"{RUN}/{name}/.kept", "")
        self.chief.write(f"{RUN}/run.json", json.dumps(run))
        self.chief.write(
            f"{RUN}/mpirun.json", json.dumps(["sh", "-c", f"trap '{ENDS}' EXIT; {mpirun}"])
        )
        self._let_the_chief_in()
        self.chief.exec("chown", "-R", "rail:rail", HOME)

    def _let_the_chief_in(self) -> None:
        key = self.chief.key.read_text()
        self.chief.write(f"{RUN}/key", key)
        (self.chief.disk.root / RUN.lstrip("/") / "key").chmod(0o600)
        self.chief.write(f"{RUN}/known_hosts", self.other.known_hosts_line())
        self.chief.write(
            f"{RUN}/ssh_config",
            f"Host railhead-2\n  HostName {self.other.address}\n  User rail\n"
            f"  IdentityFile {RUN}/key\n  UserKnownHostsFile {RUN}/known_hosts\n  BatchMode yes\n",
        )

    def start(self) -> None:
        self.as_rail(START)

    def as_rail(self, command: str) -> str:
        return self.chief.exec("sh", "-c", command, user="rail").stdout

    def phase(self) -> str:
        """The phase of the machines in state.json; before that, the state of the run."""
        path = self.chief.disk.root / RUN.lstrip("/") / "state.json"
        try:
            state = json.loads(path.read_text())
        except (OSError, ValueError):
            return ""
        return str(state.get("machines", state).get("phase", state["state"]))

    def result(self) -> Any:
        return json.loads(self.chief.read(f"{RUN}/results/result.json"))

    def power_off(self) -> None:
        """Wait until both have powered themselves off, the other one first."""
        self.other.wait_for_power_off()
        self.chief.wait_for_power_off()


@pytest.fixture
def machines(network: Network, cloud_image: Path) -> Iterator[Callable[..., Machines]]:
    """Start both and a run on them: `machines("exit 0", keep_minutes=20)`."""
    hosts: list[SystemdHost] = []

    def start(mpirun: str, *, keep_minutes: float | None) -> Machines:
        for name in ("m1", "m2"):
            host = SystemdHost(network, name, base=cloud_image)
            hosts.append(host)
            host.write("/etc/cloud/cloud-init.disabled", "")
            host.start(wait=False)
        for host in hosts:
            host.wait()
        both = Machines(*hosts)
        both.prepare(mpirun, keep_minutes)
        both.start()
        return both

    yield start
    for host in hosts:
        host.remove()


def test_after_a_success_all_machines_power_off(machines: Callable[..., Machines]) -> None:
    both = machines("exit 0", keep_minutes=20)
    both.power_off()
    assert both.result()["state"] == "succeeded"


@pytest.mark.parametrize("how", ["failure", "cancel"])
def test_after_a_failure_and_a_cancel_they_power_off_when_they_were_kept(
    machines: Callable[..., Machines], how: str
) -> None:
    both = machines("exit 7" if how == "failure" else "sleep 600", keep_minutes=0.1)
    if how == "cancel":
        wait_until(lambda: both.phase() == "running", 20, "the run has begun")
        both.as_rail("pkill -TERM -f '[s]upervisor.supervisor'")
    wait_until(lambda: both.phase() == "keeping", 20, "the machines are kept")
    assert both.chief.is_on and both.other.is_on
    both.power_off()
    assert both.result()["state"] == ("failed" if how == "failure" else "cancelled")


def test_kept_machines_power_off_at_once_with_keep_0(machines: Callable[..., Machines]) -> None:
    both = machines("exit 7", keep_minutes=0)
    both.power_off()
    assert both.result()["state"] == "failed"


def test_no_stop_leaves_them_on(machines: Callable[..., Machines]) -> None:
    both = machines("exit 0", keep_minutes=None)
    wait_until(
        lambda: not both.as_rail("pgrep -f '[s]upervisor.supervisor'"),
        20,
        "the supervisor has ended",
    )
    assert not both.as_rail("pgrep -f '[s]upervisor.stop_machines'")
    assert both.result()["state"] == "succeeded" and both.chief.is_on and both.other.is_on


def test_without_the_right_to_power_off_the_chief_says_so(
    machines: Callable[..., Machines],
) -> None:
    both = machines("while [ ! -e /tmp/go ]; do sleep 0.1; done", keep_minutes=20)
    for host in (both.chief, both.other):
        host.exec("rm", "/etc/sudoers.d/rail")
    both.chief.exec("touch", "/tmp/go")
    wait_until(
        lambda: not both.as_rail("pgrep -f '[s]upervisor.supervisor|[s]upervisor.stop_machines'"),
        60,
        "it has ended",
    )
    stopped = json.loads(both.chief.read(f"{RUN}/state.json"))["machines"]["stopped"]
    assert set(stopped) == {"m1", "m2"} and all("sudo" in why for why in stopped.values())
    assert both.chief.is_on and both.other.is_on
