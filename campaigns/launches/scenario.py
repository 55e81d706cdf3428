"""What happens, drawn by seed: launches, and what goes wrong before, in and after them."""

from __future__ import annotations

import random
from dataclasses import dataclass

REGIONS = ("us-east-1", "us-west-2")
PEOPLE = ("ann", "bob")
STACK = "gpu"  # of both: they have chosen the same name
TYPES = ("g4dn.xlarge", "g4dn.2xlarge", "g5.xlarge")  # two of one family
KILLS = ("early", "unrecorded", "recorded")  # before anything, after a machine, at the end


@dataclass(frozen=True)
class Step:
    """One event. `person` has a Pulumi backend and two laptops with it."""

    person: str
    verb: str
    value: str = ""
    laptop: int = 0

    def __str__(self) -> str:
        laptop = f" on laptop {self.laptop + 1}" if self.laptop else ""
        return " ".join(filter(None, (self.person, self.verb, self.value))) + laptop


# The weight of each event, and its values.
EVENTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "up": (8, ("",)),
    "killed-up": (5, KILLS),
    "region": (4, REGIONS),
    "rename": (2, ("gpu", "big")),
    "lose-state": (2, ("",)),
    "stop": (1, ("",)),
    "destroy": (2, ("",)),
    "expired-login": (1, ("up", "destroy")),
    "stock-out": (1, ("",)),
    "lying-stop": (1, ("",)),
    "throttled": (1, ("up",)),
    "hours": (2, ("1", "4", "9")),
    "spot": (1, ("true", "false")),
    "type": (2, TYPES),
    "extend": (1, ("4",)),
    "no-right": (1, ("",)),
    "results": (1, ("",)),
    "denied-up": (1, ("",)),
}


def draw(seed: int, length: int = 10) -> tuple[Step, ...]:
    """The events of a seed; the first is a launch."""
    rng = random.Random(seed)
    verbs, weights = list(EVENTS), [weight for weight, _ in EVENTS.values()]
    steps = [Step("ann", rng.choice(("up", "killed-up")))]
    steps[0] = Step("ann", steps[0].verb, rng.choice(EVENTS[steps[0].verb][1]))
    while len(steps) < length:
        (verb,) = rng.choices(verbs, weights)
        value = rng.choice(EVENTS[verb][1])
        person = rng.choices(PEOPLE, (3, 1))[0]
        steps.append(Step(person, verb, value, rng.choices((0, 1), (4, 1))[0]))
    return tuple(steps)
