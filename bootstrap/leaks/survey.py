"""Lists everything with Railhead's tags, in all areas of all clouds at the same time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from railhead.documents.lazy import dataclass
from railhead.documents.leaks import FAILED, OK, SKIPPED, UNREACHABLE, LeakArea

from ..clouds.areas import Area, Forbidden, Resource, areas, clouds_with_areas
from ..clouds.base import Incomplete, NoCredentials, Refused
from ..clouds.machines import Place
from ..console.threads import all_within
from ..errors import RailheadError, UsageError

CLOUD_SECONDS = 90.0  # until a cloud has answered which areas there are
AREA_SECONDS = 180.0  # until all areas have listed what they have


@dataclass
class Listing:
    """What one area has listed so far, and what it could not list."""

    area: Area
    resources: list[Resource] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    skipped: str = ""
    unreachable: str = ""

    def read(self) -> None:
        """List each kind. A refusal leaves out one kind; without a network none is tried again."""
        for name, resources in self.area.lists().items():
            try:
                for resource in resources():
                    self.resources.append(resource)
            except Forbidden as error:
                self.skipped = error.message
                return
            except Refused as refused:
                if not self.area.expected:
                    self.skipped = refused.message
                    return
                self.failures.append(f"{name}: {refused.message}")
            except Incomplete as error:
                self.failures.append(f"{name}: {error.message}")
            except UsageError as error:
                self.failures.append(error.message)
                return
            except RailheadError as error:
                self.unreachable = f"{name}: {error.message}"
                return

    def state(self, outcome: Exception | None) -> LeakArea:
        """How the area ended; `outcome` is that of its thread."""
        if isinstance(outcome, TimeoutError):
            self.unreachable = f"it has not listed everything within {AREA_SECONDS:.0f} s"
        elif outcome:
            self.failures.append(f"{type(outcome).__name__}: {outcome}")
        reason = self.unreachable or "; ".join(self.failures) or self.skipped
        state = UNREACHABLE if self.unreachable else FAILED if self.failures else SKIPPED
        return LeakArea(self.area.cloud, self.area.name, state if reason else OK, reason)


@dataclass(frozen=True)
class Survey:
    """All areas with their states, and what they list."""

    listings: tuple[Listing, ...]
    areas: tuple[LeakArea, ...]


def survey(known: Collection[Place]) -> Survey:
    """List everything. `known`: the places that stacks and records name."""
    areas_of: dict[str, list[Area]] = {}

    def find(cloud: str) -> None:
        areas_of[cloud] = areas(cloud, [place for place in known if place.cloud == cloud])

    clouds = clouds_with_areas()
    outcomes = dict(zip(clouds, all_within(find, clouds, seconds=CLOUD_SECONDS), strict=True))
    used = {place.cloud for place in known}
    states = [_of_cloud(cloud, why, cloud in used) for cloud, why in outcomes.items() if why]
    answered = [cloud for cloud, outcome in outcomes.items() if not outcome]
    return _listed([area for cloud in answered for area in areas_of[cloud]], states)


def again(listings: Sequence[Listing]) -> Survey:
    """List the same areas again."""
    return _listed([listing.area for listing in listings], [])


def _listed(all_areas: Sequence[Area], states: Sequence[LeakArea]) -> Survey:
    listings = tuple(Listing(area) for area in all_areas)
    outcomes = all_within(Listing.read, listings, seconds=AREA_SECONDS)
    ended = map(Listing.state, listings, outcomes)
    return Survey(listings, (*states, *ended))


def _of_cloud(cloud: str, outcome: Exception, used: bool) -> LeakArea:
    """The state of a cloud that has not answered which areas there are."""
    if isinstance(outcome, TimeoutError):
        reason = f"it has not answered within {CLOUD_SECONDS:.0f} s"
        return LeakArea(cloud, "", UNREACHABLE, reason)
    if isinstance(outcome, NoCredentials) and not used:
        return LeakArea(cloud, "", SKIPPED, outcome.message)
    if isinstance(outcome, RailheadError):
        is_refusal = isinstance(outcome, (Refused, UsageError))
        return LeakArea(cloud, "", FAILED if is_refusal else UNREACHABLE, outcome.message)
    return LeakArea(cloud, "", FAILED, f"{type(outcome).__name__}: {outcome}")
