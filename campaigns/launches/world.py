"""A cloud: its machines by region, the deadlines that stop them, and what it refuses."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from bootstrap.clouds.machines import Listed, Machine
from campaigns.launches.scenario import TYPES

ACCOUNT = "account 123456789012"
DEADLINE_HOURS = 8.0


def machine_name(cluster: str) -> str:
    """The name of the one machine of a cluster, when it is created."""
    return f"{cluster}-1"


@dataclass
class Running:
    """A machine. `ends`: the hour at which its timer stops it, and its cloud, if the schedule's
    role has the `right`. `results` of a run are on its disk alone."""

    id: str
    name: str
    region: str
    cluster_id: str
    cluster: str
    stack: str
    owner: str
    ends: float
    spot: bool = False
    type: str = TYPES[0]
    right: bool = True
    results: bool = False
    state: str = "running"
    ran_until: float | None = None

    def listed(self) -> Machine:
        """As the cloud lists it."""
        return Machine(
            id=self.id,
            name=self.name,
            state=self.state,
            zone=f"{self.region}a",
            region=self.region,
            type=self.type,
            address=None,
            peer_address=None,
            cluster=self.cluster,
            cluster_id=self.cluster_id,
            stack=self.stack,
            owner=self.owner,
        )


@dataclass
class World:
    """All machines that ever were, and the time in hours."""

    now: float = 0.0
    machines: dict[str, Running] = field(default_factory=dict)
    lies: int = 0  # requests to end a machine that it accepts and does not carry out

    def create(self, region: str, cluster_id: str, cluster: str, stack: str, owner: str) -> str:
        """Start a machine with its deadline; its id."""
        machine_id = f"i-{len(self.machines):017x}"
        name, ends = machine_name(cluster), self.now + DEADLINE_HOURS
        machine = Running(machine_id, name, region, cluster_id, cluster, stack, owner, ends)
        self.machines[machine_id] = machine
        return machine_id

    def extend(self, ids: Collection[str], hours: float) -> None:
        """Move both deadlines of machines that run."""
        for machine_id in ids:
            if self.machines[machine_id].state == "running":
                self.machines[machine_id].ends += hours

    def rename(self, ids: Collection[str], cluster: str) -> None:
        """Change the cluster's name in the tags of machines."""
        for machine_id in ids:
            self.machines[machine_id].cluster = cluster

    def exists(self, region: str | None = None) -> Iterator[Running]:
        """The machines that are not terminated, in one region or in all."""
        for machine in self.machines.values():
            if machine.state != "gone" and region in (None, machine.region):
                yield machine

    def running(self) -> list[Running]:
        """The machines that cost money."""
        return [machine for machine in self.exists() if machine.state == "running"]

    def list(self, region: str | None) -> Listed:
        """As one region answers."""
        return Listed(ACCOUNT, tuple(machine.listed() for machine in self.exists(region)))

    def end(self, ids: Collection[str], state: str) -> None:
        """Stop or terminate machines, unless the cloud lies."""
        for machine_id in ids:
            machine = self.machines[machine_id]
            if self.lies:
                self.lies -= 1
            elif machine.state != "gone":
                machine.ran_until = self.now if machine.state == "running" else machine.ran_until
                machine.state = "gone" if machine.spot else state  # spot machines cannot be stopped

    def wait(self, hours: float) -> None:
        """Let time pass: deadlines stop machines."""
        self.now += hours
        for machine in self.running():
            if machine.ends <= self.now:
                machine.state = "gone" if machine.spot else "stopped"
                machine.ran_until = machine.ends
