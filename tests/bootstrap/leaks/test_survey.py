"""Areas that hang, fail or are not ours: each is named, and what was listed is shown."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pytest

from bootstrap.clouds import areas
from bootstrap.clouds.areas import Lists, Resource
from bootstrap.clouds.base import Incomplete, NoCredentials, Refused
from bootstrap.clouds.machines import Place
from bootstrap.errors import RailheadError, UsageError
from bootstrap.leaks import survey
from railhead.documents.leaks import LeakArea

DISK = Resource("disk", "d-1", "here", "", "end d-1", lambda _: None)


@dataclass(frozen=True)
class OneArea:
    """An area with two lists."""

    first: Callable[[], Iterable[Resource]]
    expected: bool = True
    cloud: str = "aws"
    name: str = "here"

    def lists(self) -> Lists:
        return {"first": self.first, "disk": lambda: [DISK]}


def failing(error: Exception) -> Callable[[], Iterator[Resource]]:
    def listed() -> Iterator[Resource]:
        yield DISK
        raise error

    return listed


def read(monkeypatch: pytest.MonkeyPatch, area: OneArea, *known: Place) -> tuple[LeakArea, int]:
    """The state of an area, and how many resources were listed."""
    monkeypatch.setattr(survey, "clouds_with_areas", lambda: ["aws"])
    monkeypatch.setattr(survey, "areas", lambda cloud, places: [area])
    surveyed = survey.survey(known)
    (state,), (listing,) = surveyed.areas, surveyed.listings
    return state, len(listing.resources)


@pytest.mark.parametrize(
    ("error", "expected", "state", "listed"),
    [
        (Refused("no right", "403"), True, "failed", 2),
        (Refused("no right", "403"), False, "skipped", 1),
        (Incomplete("zone a is not reached"), False, "failed", 2),
        (UsageError("expired"), True, "failed", 1),
        (RailheadError("the network is down"), True, "unreachable", 1),
        (KeyError("a fault of ours"), True, "failed", 1),
    ],
    ids=str,
)
def test_an_area_that_fails_is_named_and_keeps_what_it_listed(
    monkeypatch: pytest.MonkeyPatch, error: Exception, expected: bool, state: str, listed: int
) -> None:
    area, resources = read(monkeypatch, OneArea(failing(error), expected))
    assert (area.state, resources) == (state, listed) and area.reason
    assert area.is_missing == (state != "skipped")


def test_an_area_that_hangs_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "AREA_SECONDS", 0.2)
    free = threading.Event()

    def hang() -> Iterator[Resource]:
        yield DISK
        free.wait(60)

    area, resources = read(monkeypatch, OneArea(hang))
    free.set()
    assert (area.state, resources) == ("unreachable", 1)


@pytest.mark.parametrize(
    ("error", "known", "state"),
    [
        (NoCredentials("none"), False, "skipped"),
        (NoCredentials("none"), True, "failed"),
        (Refused("expired", "ExpiredToken"), False, "failed"),
        (UsageError("the login has expired"), False, "failed"),
        (RailheadError("the network is down"), False, "unreachable"),
    ],
    ids=str,
)
def test_a_cloud_that_does_not_answer_is_named(
    monkeypatch: pytest.MonkeyPatch, error: Exception, known: bool, state: str
) -> None:
    def refuse(cloud: str, places: object) -> list[areas.Area]:
        raise error

    monkeypatch.setattr(survey, "clouds_with_areas", lambda: ["aws"])
    monkeypatch.setattr(survey, "areas", refuse)
    (area,) = survey.survey([Place("aws", "us-east-1")] if known else []).areas
    assert (area.cloud, area.state) == ("aws", state) and area.reason
