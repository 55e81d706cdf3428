"""A cloud of two machines that are stopped or terminated, as it behaves or does not.

Its time passes by waiting alone: a cloud that takes 90 seconds takes none here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bootstrap.clouds.base import Cost, Deadline, InstanceState, Refused
from bootstrap.console.wait import Clock
from bootstrap.errors import Command
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from railhead.documents.runs.run_record import RunRecord

HOSTS = (Host("m1", "10.0.0.1", id="i-1"), Host("m2", "10.0.0.2", id="i-2"))
OURS = Inventory("dev", HOSTS, cloud="aws", region="us-east-1", stack="dev")
DISK = Cost("disk vol-1 of m1, 100 GB", 0.26, Command("teardown", destroy=True))
States = Callable[[str, float], str]


@dataclass
class StoppingCloud:
    """A cloud whose machines' states are a function of the seconds since they were stopped."""

    states: States
    costs_now: list[Cost] | None = field(default_factory=lambda: [DISK])  # None: refused
    refuses: bool = False
    time: float = 0.0
    stop_requested: float | None = None
    terminated: bool = False
    queried: Callable[[float], None] = lambda since: None  # seconds since the stop, -1 before it

    def instance_states(self) -> dict[str, InstanceState]:
        since = -1.0 if self.stop_requested is None else self.time - self.stop_requested
        self.queried(since)
        return {
            h.name: InstanceState(self.states(h.name, since), None, "EC2 X", f"at {self.time:.0f}")
            for h in HOSTS
        }

    def start(self) -> None:
        raise AssertionError("machines are not started at their end")

    def stop(self) -> None:
        if self.refuses:
            raise Refused(
                "AWS refuses stop_instances: UnauthorizedOperation", "UnauthorizedOperation"
            )
        self.stop_requested = self.time

    def terminate(self) -> None:
        self.stop()
        self.terminated = True

    def cannot_stop(self) -> list[str]:
        return []

    def deadlines(self) -> dict[str, Deadline]:
        return {}

    def set_deadline(self, hours: float) -> None:
        raise AssertionError("no deadline is armed at their end")

    def allowed_cidrs(self) -> tuple[str, ...]:
        raise AssertionError("the firewall's rules are not read at their end")

    def costs(self) -> list[Cost]:
        if self.costs_now is None:
            raise Refused("AWS refuses describe_volumes", "UnauthorizedOperation")
        return self.costs_now

    def account(self) -> str:
        return "account 1"

    def host_keys(self) -> dict[str, tuple[str, ...]]:
        return {}

    def clock(self) -> Clock:
        def sleep(seconds: float) -> None:
            self.time += seconds

        return Clock(lambda: self.time, sleep)


def takes(seconds: float) -> States:
    return lambda _, t: "running" if t < 0 else "stopping" if t < seconds else "stopped"


def never(name: str, t: float) -> str:
    return "stopped" if name == "m1" and t > 30 else "stopping" if t >= 0 else "running"


def wakes(name: str, t: float) -> str:
    """Says stopped once, and then runs."""
    return "stopped" if 20 <= t < 25 or (name == "m1" and t > 20) else "running"


def save_run(run_id: str = "r1") -> None:
    local_state.save_run(RunRecord(run_id, "dev", str(local_state.home() / "nowhere")))
