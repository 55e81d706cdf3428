"""The commands that people type, with the decisions of the product: which machines a command
names, whose they are, what it may end."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from standins.pulumi_command import on_aws

from bootstrap.clouds.areas import MACHINE, Lists, Resource
from bootstrap.clouds.machines import Machine
from bootstrap.inventory.stack_state import StackState, read_state
from bootstrap.leaks.living import Living
from bootstrap.leaks.report import Judge
from bootstrap.lifecycle import stack_machines
from bootstrap.lifecycle.stack_machines import StackMachines
from campaigns.launches.scenario import REGIONS, STACK, TYPES
from campaigns.launches.world import Running, World, machine_name


@dataclass
class State:
    """What Pulumi's state has of a stack."""

    cluster_id: str = ""
    region: str = ""
    cluster: str = ""
    machines: list[str] = field(default_factory=list)


@dataclass
class Person:
    """A person with a backend, one stack in it, and the stack's config."""

    name: str
    world: World
    state: State | None = None
    region: str = REGIONS[0]
    cluster: str = STACK
    spot: bool = False
    type: str = TYPES[0]

    def up(
        self, *, kill: str = "", stocked: bool = True, refused: bool = False, denied: bool = False
    ) -> bool:
        """`fab up`, or `pulumi up` if it is killed; whether it succeeded. `denied`: a policy of the
        account forbids launches."""
        if kill == "early" or refused:
            return False
        state = self.state = self.state or State()
        if not state.cluster_id:
            state.cluster_id, state.region = secrets.token_hex(6), self.region
        elif state.region != self.region and self._own(state.region):
            return False  # the place is refused while something exists in the recorded one
        state.region, state.cluster = self.region, self.cluster
        machines = self.world.machines
        there = {machine.id for machine in self.world.exists()}
        state.machines = [key for key in state.machines if key in there]
        if not kill and not self._end_strays():
            return False
        changed = [key for key in state.machines if self._is_replaced(machines[key])]
        if any(machines[key].results for key in changed):
            return False  # before anything is changed
        self.world.end(changed, "gone")
        state.machines = [key for key in state.machines if key not in changed]
        if state.machines:
            self.world.rename(state.machines, self.cluster)
            for key in state.machines:  # in place: what was stopped is stopped again
                machines[key].type = self.type
                machines[key].right = True
            return True
        if self._is_name_taken() or not stocked or denied or (kill and self._is_there()):
            return False
        created = self.world.create(self.region, state.cluster_id, self.cluster, STACK, self.name)
        machines[created].spot, machines[created].type = self.spot, self.type
        if kill == "unrecorded":
            return False
        state.machines.append(created)
        return kill != "recorded"

    def _is_replaced(self, machine: Running) -> bool:
        """Whether EC2 does not change this machine to what the config has."""
        family = machine.type.partition(".")[0] != self.type.partition(".")[0]
        return machine.spot != self.spot or family or (self.spot and machine.type != self.type)

    def _end_strays(self) -> bool:
        """End the machines that a killed `up` left in no state, as the product finds them; whether
        none is left."""
        self.world.end([stray.id for stray in self._strays()], "gone")
        return not self._strays()

    def _is_there(self) -> bool:
        """Whether the program refuses a second machine of a number: it ends none."""
        return bool(self._strays())

    def _strays(self) -> tuple[Machine, ...]:
        merged = self.merged()
        return merged.strays if merged else ()

    def _is_name_taken(self) -> bool:
        """Whether machines of another stack have the name."""
        return any(m.cluster == self.cluster for m in self.world.exists(self.region))

    def _own(self, region: str) -> list[str]:
        assert self.state
        own_id = self.state.cluster_id
        return [m.id for m in self.world.exists(region) if m.cluster_id == own_id]

    def merged(self) -> StackMachines | None:
        """All machines of the stack, as the product merges state and cloud; None without a
        state."""
        state = self._read()
        if state is None:
            return None
        return stack_machines.merge(state, None, self.world.list(state.region))

    def _read(self) -> StackState | None:
        if not self.state or not self.state.cluster_id:
            return None
        state = self.state
        resources = on_aws(
            *state.machines, cluster=state.cluster, cluster_id=state.cluster_id, region=state.region
        )
        return read_state(STACK, {"deployment": {"resources": resources}})

    def named(self) -> set[str]:
        """The machines that `fab status` names as the stack's own."""
        merged = self.merged()
        hosts = merged.inventory.hosts if merged and merged.inventory else ()
        return {str(host.id) for host in hosts}

    def end(self, state: str) -> bool:
        """`fab stop` or `fab teardown --destroy`; whether all was verified."""
        ids = self.named() & set(self.world.machines)
        self.world.end(sorted(ids), state)
        ended = ("gone",) if state == "gone" else ("gone", "stopped")
        verified = all(self.world.machines[key].state in ended for key in ids)
        if verified and state == "gone":
            self.state = None
        return verified

    def lose_state(self) -> None:
        """`pulumi stack rm --force`, or the folder is gone."""
        self.state = None

    def leaks(self) -> dict[str, str]:
        """The status of each machine in `fab leaks`, by id."""
        return {key: status for key, (status, _) in self._judged().items()}

    def end_leaks(self) -> None:
        """`fab leaks --end --yes`."""
        self.world.end(sorted(key for key, (_, may) in self._judged().items() if may), "gone")

    def _judged(self) -> dict[str, tuple[str, bool]]:
        state = self._read()
        stacks = {}
        if state and state.cluster_id:
            stacks = {state.cluster_id: STACK, **{m.id: STACK for m in state.machines}}
        judge = Judge(Living(stacks), self.name)
        judged = {}
        for machine in self.world.exists():
            resource = Resource(
                MACHINE,
                machine.id,
                machine.region,
                "",
                "",
                lambda _: None,
                cluster=machine.cluster,
                cluster_id=machine.cluster_id,
                stack=machine.stack,
                owner=machine.owner,
            )
            ((leak, _),) = judge.leaks(Region(machine.region), [resource])
            judged[machine.id] = (leak.status, judge.may_end(leak))
        return judged


@dataclass(frozen=True)
class Region:
    """An area with machines."""

    name: str
    cloud: str = "aws"
    expected: bool = True

    def lists(self) -> Lists:
        """Nothing: the machines are passed to the judge."""
        return {}


class PersonOnGoogle(Person):
    """Google Cloud has each name of a machine once in a zone, and never changes it."""

    def _is_name_taken(self) -> bool:
        names = {machine.name for machine in self.world.exists(self.region)}
        return machine_name(self.cluster) in names

    def _is_there(self) -> bool:
        """Its program has no token and cannot look, as a user's may; Compute refuses the name."""
        return False


class PlainPerson(Person):
    """Somebody who types `pulumi up` and `pulumi destroy` alone: what is in no state is not
    ended."""

    def _end_strays(self) -> bool:
        """`pulumi up` is refused while such a machine exists."""
        return not self._strays()

    def named(self) -> set[str]:
        """The machines in Pulumi's state."""
        return set(self.state.machines) if self.state else set()

    def end_leaks(self) -> None:
        """There is no such command."""
