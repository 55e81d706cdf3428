"""What is removed first, and what stays: a cloud that takes its time, or refuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

import pytest

from bootstrap.clouds.areas import Lists, Resource
from bootstrap.clouds.base import Refused
from bootstrap.leaks import end
from bootstrap.leaks.end import Ending
from bootstrap.leaks.living import Living
from bootstrap.leaks.report import Judge
from bootstrap.leaks.survey import Listing, Survey, again

KINDS = ("machine", "schedule", "role")


@dataclass
class SlowArea:
    """An area with a machine, its schedule and the schedule's role. A machine is gone `takes` lists
    after its removal; `refused` are kinds that the cloud does not remove."""

    takes: int = 3
    refused: tuple[str, ...] = ()
    removed: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)  # removed while the machine existed
    left: int | None = None
    cloud: str = "aws"
    name: str = "here"
    expected: bool = True

    def lists(self) -> Lists:
        return {"all": self._all}

    def _all(self) -> Iterator[Resource]:
        if self.left is not None:
            self.left -= 1
        for kind in KINDS:
            gone = kind in self.removed and (
                kind != "machine" or self.left is not None and self.left <= 0
            )
            if not gone:
                yield Resource(
                    kind, f"{kind}-1", "a", "", f"end {kind}", partial(self._end, kind),
                    cluster="gpu", cluster_id="aa", owner="ann",
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


def run(area: SlowArea, owner: str = "ann") -> tuple[list[str], list[str]]:
    """The ids that are gone, and the lines that were printed."""
    lines: list[str] = []
    survey: Survey = again([Listing(area)])
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
