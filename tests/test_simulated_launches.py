"""Simulated launches: every machine is named, ended by its owner, and by nobody else.

`make campaign-launches SEEDS=0:10` runs 10,000.
"""

from __future__ import annotations

import random

import pytest

from campaigns.launches.model import Outcome, play
from campaigns.launches.people import Person, PersonOnGoogle, PlainPerson
from campaigns.launches.scenario import Step, draw
from campaigns.launches.world import World

FIRST = random.randrange(10**6)


@pytest.mark.parametrize("kind", [Person, PersonOnGoogle])
def test_nothing_runs_unnamed_and_nothing_of_others_is_ended(kind: type[Person]) -> None:
    wrong = {seed: play(draw(seed), kind) for seed in range(FIRST, FIRST + 300)}
    assert {seed: one for seed, one in wrong.items() if not one.is_right} == {}


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [Step("ann", "killed-up", "unrecorded"), Step("ann", "region", "us-west-2")],
            id="another region after a kill",
        ),
        pytest.param([Step("ann", "up"), Step("ann", "lose-state")], id="a lost state"),
        pytest.param([Step("ann", "up"), Step("bob", "up")], id="two people, one name"),
        pytest.param([Step("ann", "up"), Step("ann", "lying-stop")], id="a cloud that lies"),
    ],
)
def test_the_known_ways_to_lose_sight_of_machines_are_closed(steps: list[Step]) -> None:
    outcome = play([*steps, Step("ann", "up")])
    assert outcome.is_right, outcome


def test_plain_pulumi_loses_sight_of_a_machine_after_a_kill() -> None:
    steps = [Step("ann", "killed-up", "unrecorded")]
    assert len(play(steps, PlainPerson).left) == 1 and not play(steps).left


def test_another_region_is_refused_while_a_machine_exists_in_the_first() -> None:
    ann = Person("ann", World())
    ann.up(kill="unrecorded")
    ann.region = "us-west-2"
    assert not ann.up() and [one.region for one in ann.world.exists()] == ["us-east-1"]
    assert ann.end("gone") and ann.up()
    assert [one.region for one in ann.world.exists()] == ["us-west-2"]


@pytest.mark.parametrize(
    ("kind", "succeeds"), [(Person, True), (PersonOnGoogle, True), (PlainPerson, False)]
)
def test_a_machine_that_a_killed_up_left_is_not_created_twice(
    kind: type[Person], succeeds: bool
) -> None:
    """`fab up` ends it first; `pulumi up` alone is refused."""
    ann = kind("ann", World())
    ann.up(kill="unrecorded")
    assert ann.up() == succeeds and len(list(ann.world.exists())) == 1


def test_a_deadline_stops_a_machine_that_nobody_ends() -> None:
    world = World()
    Person("ann", world).up()
    world.wait(7.9)
    assert len(world.running()) == 1
    world.wait(0.2)
    assert not world.running()


def test_an_outcome_with_anything_in_it_is_wrong() -> None:
    assert Outcome().is_right
    for wrong in (Outcome({"i"}), Outcome(touched={"i"}), Outcome(left={"i"}), Outcome(hours=0.1)):
        assert not wrong.is_right
