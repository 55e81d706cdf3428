"""What is removed first, and what stays: a cloud that takes its time, or refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from bootstrap.clouds.areas import Lists, Resource
from bootstrap.clouds.base import Refused
from bootstrap.leaks import end
from bootstrap.leaks.end import Ending
from bootstrap.leaks.living import Living
from bootstrap.leaks.report import Judge
from bootstrap.leaks.survey import Listing, Survey, again
from railhead.documents.leaks import LEAKED, LIVING

KINDS = ("machine", "schedule", "role")


@dataclass
class SlowArea:
    """An area with a machine, its schedule and the schedule's role, or some of these `kinds`. A
    machine is gone `takes` lists after its removal; `refused` are kinds that the cloud does not
    remove."""

    takes: int = 3
    kinds: tuple[str, ...] = KINDS
    refused: tuple[str, ...] = ()
    removed: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)  # removed while the machine existed
    left: int | None = None
    starts: str | None = None  # a cluster of which a machine appears after the first list
    machines_owner: str = "ann"
    lists_fail: int = 0  # the number of lists, after the first, that fail after that
    listed: int = 0
    cloud: str = "aws"
    name: str = "here"
    expected: bool = True

    def lists(self) -> Lists:
        return {"all": self._all}

    def _all(self) -> Iterator[Resource]:
        self.listed += 1
        if 1 < self.listed <= 1 + self.lists_fail:
            yield from [self._one("role")] * ("role" not in self.removed)
            raise Refused("no right", "x")
        if self.starts and self.listed > 1:
            new = partial(self._end, "new machine")
            yield Resource(
                "machine", "new", "a", "", "", new, cluster_id=self.starts, owner="ann"
            )  # fmt: skip
        if self.left is not None:
            self.left -= 1
        for kind in self.kinds:
            gone = kind in self.removed and (
                kind != "machine" or self.left is not None and self.left <= 0
            )
            if not gone:
                yield self._one(kind)

    def _one(self, kind: str) -> Resource:
        return Resource(
            kind, f"{kind}-1", "a", "", f"end {kind}", partial(self._end, kind), cluster="gpu",
            cluster_id="aa", owner=self.machines_owner if kind == "machine" else "ann",
        )  # fmt: skip

    def _end(self, kind: str, _with_content: bool) -> None:
        if kind in self.refused:
            raise Refused(f"{kind} is protected", "x")
        if kind == "machine":
            self.left = self.takes if self.left is None else self.left
        elif self.left is None or self.left > 0:
            self.early.append(kind)
        if kind not in self.removed:
            self.removed.append(kind)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end, "EVERY", 0.0)


def run(*areas: SlowArea, owner: str = "ann") -> tuple[list[str], list[str]]:
    """The ids that are gone, and the lines that were printed."""
    lines: list[str] = []
    survey: Survey = again([Listing(area) for area in areas])
    ended = Ending(Judge(Living(), owner), lines.append, with_bucket=False).end(survey)
    return ended, lines


def test_the_rest_is_removed_when_the_machine_is_gone() -> None:
    area = SlowArea()
    ended, lines = run(area)
    assert area.removed == ["machine", "schedule", "role"] and area.early == []
    assert ended == ["machine-1", "schedule-1", "role-1"]
    assert any("end schedule" in line for line in lines)


def test_a_machine_that_stays_keeps_its_deadline() -> None:
    area = SlowArea(refused=("machine",))
    ended, lines = run(area)
    assert ended == [] and area.removed == []
    assert "machine is protected" in next(line for line in lines if "machine-1" in line)


def test_what_the_cloud_refuses_stays_and_is_named() -> None:
    area = SlowArea(refused=("role",))
    ended, lines = run(area)
    assert ended == ["machine-1", "schedule-1"]
    assert any("NOT REMOVED role role-1: role is protected" in line for line in lines)


def test_nothing_of_another_owner_is_removed() -> None:
    area = SlowArea()
    assert run(area, owner="bob") == ([], []) and area.removed == []


def test_a_machine_that_appears_meanwhile_is_not_removed() -> None:
    """`fab up` of a new stack began after the states of all stacks were read."""
    area = SlowArea(starts="bb")
    ended, _ = run(area)
    assert ended == ["machine-1", "schedule-1", "role-1"]
    assert area.removed == ["machine", "schedule", "role"]


def test_what_stops_the_machine_of_another_owner_stays() -> None:
    """A machine whose tags were changed, or a second one with the same id."""
    area = SlowArea(machines_owner="bob")
    ended, lines = run(area)
    assert ended == [] and area.removed == []
    assert any("NOT REMOVED schedule schedule-1: kept" in line for line in lines)


def test_a_machine_keeps_its_role_while_its_area_is_not_listed() -> None:
    area = SlowArea(lists_fail=3)
    run(area)
    assert area.early == [] and area.removed == ["machine", "schedule", "role"]


def test_what_stops_a_machine_in_another_area_stays() -> None:
    """Nothing of that area is removed, so it is not listed again."""
    there = SlowArea(kinds=("machine",), machines_owner="bob", name="there")
    here = SlowArea(kinds=("schedule", "role"))
    ended, _ = run(there, here)
    assert ended == [] and here.removed == []


def test_what_has_no_owner_is_that_of_its_id_if_the_id_has_one() -> None:
    area = SlowArea()
    owners = (["ann"], ["ann", "bob"], ["bob"])
    role = Resource("role", "r", "a", "", "", lambda _: None, cluster_id="aa")
    ended = []
    for names in owners:
        judge = Judge(Living(), "ann").knowing(replace(role, owner=name) for name in names)
        [(leak, _)] = judge.leaks(area, [role])
        ended.append(judge.may_end(leak))
    assert ended == [True, False, False]


def test_what_has_no_tags_may_be_of_the_living_one_of_two_clusters_of_its_name() -> None:
    machine = Resource(
        "machine", "m", "a", "", "", lambda _: None, cluster="gpu", cluster_id="aa", owner="ann"
    )
    lost = replace(machine, id="n", cluster_id="bb")
    network = replace(machine, kind="network", id="net", cluster_id=None, owner=None)
    judge = Judge(Living(stacks={"aa": "dev"}), "ann")
    for resources in ([machine, lost, network], [network, lost, machine]):
        statuses = {leak.id: leak.status for leak, _ in judge.leaks(SlowArea(), resources)}
        assert statuses == {"m": LIVING, "n": LEAKED, "net": LIVING}
    statuses = {leak.id: leak.status for leak, _ in judge.leaks(SlowArea(), [lost, network])}
    assert statuses == {"n": LEAKED, "net": LEAKED}
