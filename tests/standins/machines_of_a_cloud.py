"""A cloud whose machines are two SSH hosts of this machine, and a person with a stack there."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import pytest
from places import CASES
from standins import registered_cloud
from standins.pulumi_command import PulumiCommand

from bootstrap.clouds import base
from bootstrap.clouds.base import Deadline, InstanceState, Refused
from bootstrap.clouds.local import host as local_host
from bootstrap.clouds.local import processes
from bootstrap.clouds.local.host import LocalHost
from bootstrap.console.wait import Clock
from bootstrap.errors import Command
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import Inventory

GOLDEN = from_document(json.loads((CASES / "documents/cluster-aws.json").read_text()))
ONE, TWO = "aws-g4dn-1", "aws-g4dn-2"


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
        for name, (due, state) in self.due.items():
            if self.time >= due:
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

    def terminate(self) -> None:
        self.calls.append("terminate")
        for name in self.states:
            self.states[name], self.due[name] = "stopping", (self.time + self.takes, "gone")

    def cannot_stop(self) -> list[str]:
        return self.spot

    def deadlines(self) -> dict[str, Deadline]:
        return dict.fromkeys((ONE, TWO), self.armed) if self.armed else {}

    def set_deadline(self, hours: float) -> None:
        self.calls.append(f"arm {hours:g}")
        ends = datetime.now(timezone.utc) + timedelta(hours=hours)
        self.armed = Deadline("scheduled-stop", ends, "armed", "Sky")

    def costs(self) -> list[base.Cost]:
        return [base.Cost("disk vol-1, 100 GB", 0.26, Command("teardown", destroy=True))]

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
