"""Removes what leaked: machines first, and the rest of a cluster when its machines are gone.

A cloud removes a machine minutes after it has accepted that, and a network after its machines. So
the areas are listed again until nothing is left, or nothing changes any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import field

from railhead.documents.lazy import dataclass
from railhead.documents.leaks import Leak

from ..clouds.areas import MACHINE, Resource
from ..console.output import Reporter
from ..console.wait import Clock, wait_until
from ..errors import RailheadError
from .report import Judge
from .survey import Listing, Survey, again

SECONDS = 900.0
EVERY = 5.0
ROUNDS = 12  # in which the clouds refuse to remove what remains, until it counts as kept
HAS_MACHINE = "kept: a machine of its cluster exists"
UNLISTED = "kept: another area of its cloud could not be listed, and may have its machines"
Key = tuple[str, str, str]  # area, kind and id
Cluster = tuple[str | None, ...]  # what tells the machines of one cluster from those of others


@dataclass
class Ending:
    """The removal of what a judge lets it remove.

    Attributes:
        incomplete: clouds of which not all areas were listed: of those only machines are removed,
            because the rest may be what stops a machine.
        unchanging: clusters with machines in areas that are not listed again.
        refusals: why the clouds did not remove something, at the last attempt.
    """

    judge: Judge
    report: Reporter
    with_bucket: bool
    incomplete: Collection[str] = ()
    unchanging: Collection[Cluster] = ()
    refusals: dict[Key, str] = field(default_factory=dict)

    def end(self, survey: Survey, clock: Clock | None = None) -> list[str]:
        """Remove what leaked; the ids of what is gone. Nothing else is removed that appears
        meanwhile: it may be of a stack whose first `up` has begun since."""
        self.incomplete = incomplete = {area.cloud for area in survey.areas if area.is_missing}
        leaked = [*self._endable(survey.listings)]
        remaining, unchanged = leaked, 0
        areas = {area for area, _, _ in leaked}
        listings = [listing for listing in survey.listings if listing.area.name in areas]
        others = (listing for listing in survey.listings if listing.area.name not in areas)
        self.unchanging = self._with_machines(others)

        def settled() -> bool:
            nonlocal listings, remaining, unchanged
            self._request(listings, leaked)
            now = again(listings)
            exist = {(row.area.name, r.kind, r.id) for row in now.listings for r in row.resources}
            missing = {area.name for area in now.areas if area.is_missing}
            self.incomplete = incomplete | {a.cloud for a in now.areas if a.is_missing}
            before, remaining = remaining, [k for k in leaked if k in exist or k[0] in missing]
            listings = list(now.listings)
            stuck = before == remaining and (missing or self.refusals.keys() >= {*remaining})
            unchanged = unchanged + 1 if stuck else 0
            return not remaining or unchanged == ROUNDS

        if leaked:
            wait_until(settled, seconds=SECONDS, every=EVERY, clock=clock)
        for key in remaining:
            why = self.refusals.get(key, "the cloud has not confirmed that it is gone")
            self.report(f"NOT REMOVED {key[1]} {key[2]}: {why}")
        return [key[2] for key in leaked if key not in remaining]

    def _endable(self, listings: Sequence[Listing]) -> dict[Key, tuple[Leak, Resource]]:
        return {
            (listing.area.name, leak.kind, leak.id): (leak, resource)
            for listing in listings
            for leak, resource in self.judge.leaks(listing.area, listing.resources)
            if self.judge.may_end(leak)
        }

    def _with_machines(self, listings: Iterable[Listing]) -> set[Cluster]:
        """The clusters that have machines, whoever they belong to."""
        rows = (row for each in listings for row in self.judge.leaks(each.area, each.resources))
        return {_cluster(leak) for leak, _ in rows if leak.kind == MACHINE}

    def _request(self, listings: Sequence[Listing], leaked: Collection[Key]) -> None:
        """Let the clouds remove what can be removed now."""
        with_machines = {*self._with_machines(listings), *self.unchanging}
        for key, (leak, resource) in self._endable(listings).items():
            if key not in leaked:
                continue
            if leak.kind == MACHINE:
                self._remove(key, resource)
            elif leak.cloud in self.incomplete:
                self.refusals[key] = UNLISTED
            elif _cluster(leak) in with_machines:
                self.refusals[key] = HAS_MACHINE
            else:
                self._remove(key, resource)

    def _remove(self, key: Key, resource: Resource) -> None:
        try:
            resource.remove(self.with_bucket)
        except RailheadError as error:
            self.refusals[key] = error.message
            return
        self.refusals.pop(key, None)
        self.report(f"removing {resource.kind} {resource.id}: {resource.end}")


def _cluster(leak: Leak) -> Cluster:
    return (leak.cluster_id,) if leak.cluster_id else (leak.cluster, leak.stack)
