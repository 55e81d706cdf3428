"""Runs a scenario in the model, types what the messages name afterwards, and checks the outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from campaigns.launches.people import Person
from campaigns.launches.scenario import PEOPLE, Step
from campaigns.launches.world import World

ROUNDS = 4  # of the commands that the messages name, until nothing is left
ENDING = ("stop", "destroy", "lying-stop", "hours")  # spot machines are gone at their deadline


@dataclass
class Outcome:
    """What is wrong after a scenario; all empty or zero when it is right.

    Attributes:
        unnamed: running machines that neither `fab status` nor `fab leaks` of their owner named.
        touched: machines that were ended by a command of somebody else.
        left: machines that ran after everything that the messages name was typed.
        hours: machine-hours beyond a deadline.
        earlier: machines whose deadline a command moved back, and that it kept.
        lost: machines that an `up` removed with the only results of a run.
        regions: where machines exist after each step, by owner; compared with the engine's.
    """

    unnamed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    hours: float = 0.0
    earlier: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    regions: list[dict[str, tuple[str, ...]]] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        wrong = self.unnamed or self.touched or self.left or self.hours
        return not (wrong or self.earlier or self.lost)


def play(steps: Sequence[Step], kind: type[Person] = Person) -> Outcome:
    """The outcome of these events."""
    world, outcome = World(), Outcome()
    people = {name: kind(name, world) for name in PEOPLE}
    for step in steps:
        before = {m.id: (m.ends, m.results) for m in world.exists()}
        alone(world, people[step.person], outcome, partial(carry_out, people[step.person], step))
        check_kept(world, before, step, outcome)
        check_named(world, people, outcome)
        outcome.regions.append({name: existing(world, name) for name in PEOPLE})
    for _ in range(ROUNDS):
        for person in people.values():
            alone(world, person, outcome, partial(person.end, "gone"))
            alone(world, person, outcome, person.end_leaks)
    outcome.left = {machine.id for machine in world.running()}
    world.wait(100)
    for machine in world.machines.values():
        outcome.hours += max(0.0, (machine.ran_until or 0.0) - machine.ends)
    return outcome


def existing(world: World, owner: str) -> tuple[str, ...]:
    """The region of each machine of an owner."""
    return tuple(sorted(m.region for m in world.exists() if m.owner == owner))


def carry_out(person: Person, step: Step) -> None:
    """One event."""
    commands: dict[str, Callable[[], object]] = {
        "up": person.up,
        "killed-up": lambda: person.up(kill=step.value),
        "stock-out": lambda: person.up(stocked=False),
        "throttled": lambda: person.up(refused=True),
        "expired-login": lambda: None,  # whatever the command was, the cloud refuses all calls
        "region": lambda: setattr(person, "region", step.value),
        "rename": lambda: setattr(person, "cluster", step.value),
        "lose-state": person.lose_state,
        "stop": lambda: person.end("stopped"),
        "destroy": lambda: person.end("gone"),
        "lying-stop": lambda: lie(person),
        "hours": lambda: person.world.wait(float(step.value)),
        "spot": lambda: setattr(person, "spot", step.value == "true"),
        "type": lambda: setattr(person, "type", step.value),
        "extend": lambda: person.world.extend(sorted(person.named()), float(step.value)),
        "no-right": lambda: mark(person, right=False),
        "results": lambda: mark(person, results=True),
        "denied-up": lambda: person.up(denied=True),
    }
    commands[step.verb]()


def mark(person: Person, **values: bool) -> None:
    """Something happens to the machines of a stack; a run is on none that is in no state."""
    for machine_id in person.state.machines if person.state else ():
        vars(person.world.machines[machine_id]).update(values)


def lie(person: Person) -> None:
    """The cloud accepts the next request to end a machine and does nothing."""
    person.world.lies = 1
    person.end("gone")
    person.world.lies = 0


def alone(world: World, person: Person, outcome: Outcome, command: Callable[[], object]) -> None:
    """Carry out a command; it may change only machines of the person who typed it."""
    machines, hour = world.machines, world.now
    before = {key: machine.state for key, machine in machines.items()}
    command()
    if world.now == hour:  # otherwise deadlines may have stopped machines
        changed = {key for key, state in before.items() if machines[key].state != state}
        outcome.touched |= {key for key in changed if machines[key].owner != person.name}


def check_kept(
    world: World, before: dict[str, tuple[float, bool]], step: Step, outcome: Outcome
) -> None:
    """No command but `fab stop` and a destroy ends a machine with the only results before its
    deadline, and none moves a deadline back."""
    for machine_id, (ends, results) in before.items():
        machine = world.machines[machine_id]
        if machine.state != "gone" and machine.ends < ends:
            outcome.earlier.add(machine_id)
        if results and machine.state == "gone" and step.verb not in ENDING:
            outcome.lost.add(machine_id)


def check_named(world: World, people: dict[str, Person], outcome: Outcome) -> None:
    """Each running machine is named to its owner by `fab status` or `fab leaks`."""
    for machine in world.running():
        owner = people[machine.owner]
        if machine.id not in owner.named() and machine.id not in owner.leaks():
            outcome.unnamed.add(machine.id)
