"""Decides to whom each resource belongs, and describes all of them for people. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from railhead.documents.lazy import dataclass
from railhead.documents.leaks import (
    LEAKED,
    LIVING,
    OK,
    OTHERS,
    RECORDED,
    UNKNOWN,
    Leak,
    LeakArea,
    LeakReport,
)
from railhead.documents.names import COMMON_LOGINS, login_name, owner_name

from ..clouds.areas import BUCKET, MACHINE, Area, Resource
from ..console.text import count
from ..errors import Command, Hint, RailheadError
from .living import Living

SCHEMA = 1
# A resource without tags belongs to the first of these that its cluster has.
BY_LIFE = (LIVING, RECORDED, OTHERS, UNKNOWN, LEAKED)
TITLES = {
    LEAKED: "leaked, in no stack of this Pulumi backend, and in no record of this computer",
    UNKNOWN: "not known, because not all stacks could be read",
    OTHERS: "of other owners, in no stack of this Pulumi backend; `--end` never removes these",
    RECORDED: "in no stack of this Pulumi backend, but in a record of this computer",
    LIVING: "of living stacks",
}


@dataclass(frozen=True)
class Judge:
    """Decides whether resources leak.

    Attributes:
        owner: who asks.
        owners: the owner of each cluster id. Some resources of Google Cloud have an id, and no
            labels: they belong to the owner of the others with the same id.
    """

    living: Living
    owner: str
    owners: Mapping[str, str] = field(default_factory=dict)

    def knowing(self, resources: Iterable[Resource]) -> Judge:
        """The same judge with the owners that these resources have in their tags."""
        owners: dict[str, set[str]] = {}
        for resource in resources:
            if resource.cluster_id and resource.owner:
                owners.setdefault(resource.cluster_id, set()).add(resource.owner)
        return replace(self, owners={i: min(of) for i, of in owners.items() if len(of) == 1})

    def leaks(self, area: Area, resources: Iterable[Resource]) -> list[tuple[Leak, Resource]]:
        """The resources of an area with their rows."""
        owners = self.owners
        owned = [replace(r, owner=r.owner or owners.get(r.cluster_id or "")) for r in resources]
        by_cluster: dict[str | None, set[str]] = {}
        for resource in owned:
            if resource.owner:
                by_cluster.setdefault(resource.cluster, set()).add(self._status(resource))
        return [(_leak(area, r, self._of_cluster(r, by_cluster), self._stack(r)), r) for r in owned]

    def may_end(self, leak: Leak) -> bool:
        """Whether --end may remove it: it leaked, and is this owner's."""
        return leak.status == LEAKED and leak.owner == self.owner

    def _status(self, resource: Resource) -> str:
        """The status of a resource by its id, its cluster's id and its owner."""
        if self._stack(resource):
            return LIVING
        if resource.cluster_id in self.living.recorded:
            return RECORDED
        if resource.owner and resource.owner != self.owner:
            return OTHERS
        return UNKNOWN if self.living.unread else LEAKED

    def _of_cluster(
        self, resource: Resource, by_cluster: Mapping[str | None, Collection[str]]
    ) -> str:
        """The status of a resource; of one without owner and id, such as a network of Google
        Cloud, that of the other resources of a cluster of its name."""
        status = self._status(resource)
        if resource.owner or resource.cluster_id or status == LIVING:
            return status
        others = by_cluster.get(resource.cluster, ())
        return next((s for s in BY_LIFE if s in others), status)

    def _stack(self, resource: Resource) -> str | None:
        stacks = self.living.stacks
        return stacks.get(resource.cluster_id or "") or stacks.get(resource.id)


def _leak(area: Area, resource: Resource, status: str, stack: str | None) -> Leak:
    return Leak(
        area.cloud,
        area.name,
        resource.place,
        resource.kind,
        resource.id,
        resource.details,
        status,
        resource.cluster,
        resource.cluster_id,
        stack or resource.stack,
        resource.owner,
        resource.since or None,
        None if resource.usd_per_day is None else round(resource.usd_per_day, 4),
        str(Command("teardown", destroy=True, stack=stack)) if stack else resource.end,
    )


def describe(report: LeakReport) -> Iterator[str]:
    """The report as lines of text: areas first, what leaked last."""
    yield from _areas(report.areas)
    yield from (f"not read: {why}" for why in report.unread)
    for status in reversed(TITLES):
        leaks = [leak for leak in report.resources if leak.status == status]
        if leaks:
            yield f"{TITLES[status]}: {_cost(leaks)}"
            yield from _clusters(leaks)


def _areas(areas: Collection[LeakArea]) -> Iterator[str]:
    for cloud in dict.fromkeys(area.cloud for area in areas):
        names = [area.name for area in areas if area.cloud == cloud and area.state == OK]
        if names:
            yield f"{cloud}, ok: {', '.join(names)}"
        for area in areas:
            if area.cloud == cloud and area.state != OK:
                yield f"{' '.join(filter(None, (cloud, area.name)))}, {area.state}: {area.reason}"


def _clusters(leaks: Collection[Leak]) -> Iterator[str]:
    by_cluster: dict[tuple[str | None, ...], list[Leak]] = {}
    for leak in leaks:
        key = (leak.cluster, leak.cluster_id, leak.stack, leak.owner)
        by_cluster.setdefault(key, []).append(leak)
    for tags, of_cluster in by_cluster.items():
        names = zip(("cluster", "id", "stack", "owner"), tags, strict=True)
        listed = ", ".join(f"{key} {value or 'unknown'}" for key, value in names)
        yield f"  {listed}: {_cost(of_cluster)}"
        ends = {leak.end for leak in of_cluster}
        for leak in of_cluster:
            yield f"    {_line(leak)}"
            if len(ends) > 1:
                yield f"      {leak.end}"
        if len(ends) == 1:
            yield f"    ends: {of_cluster[0].end}"


def _line(leak: Leak) -> str:
    details = f" ({leak.details})" if leak.details else ""
    since = f", since {leak.since}" if leak.since else ""
    return f"{leak.kind} {leak.id}{details}, {leak.place}{since}: {_price(leak.usd_per_day)}"


def _price(usd_per_day: float | None) -> str:
    if usd_per_day is None:
        return "price unknown"
    if usd_per_day == 0:
        return "free"
    return f"{'less than 0.01' if usd_per_day < 0.005 else f'{usd_per_day:.2f}'} USD per day"


def _cost(leaks: Collection[Leak]) -> str:
    """How many resources, and what they cost as far as it is known."""
    total = sum(leak.usd_per_day or 0.0 for leak in leaks)
    unknown = sum(leak.usd_per_day is None for leak in leaks)
    more = f", and {unknown} of unknown price" if unknown else ""
    return f"{count(len(leaks), 'resource')}, {_price(total)}{more}"


def check(report: LeakReport, lost: Collection[str] = (), following: str = "") -> None:
    """RailheadError if something leaks, if a machine of a lost stack (by its cluster's id) runs, or
    if it is not known of some area or stack; `following` is what to do where no stack was read."""
    leaked = [leak for leak in report.resources if leak.status == LEAKED]
    running = [leak for leak in report.resources if _runs_for_nobody(leak, report.owner, lost)]
    missing = [area for area in report.areas if area.is_missing]
    failures = [f"leaked: {_cost(leaked)}"] if leaked else []
    failures += [f"running, in no stack: {_cost(running)}"] if running else []
    failures += [f"{area.cloud} {area.name} {area.state}".replace("  ", " ") for area in missing]
    not_read = report.unread[0] if following else f"{count(len(report.unread), 'stack')} not read"
    failures += [not_read] if report.unread else []
    if not failures:
        return
    hint = Hint(following) if following else _next(leaked, running, report.owner)
    raise RailheadError("; ".join(failures), hint=hint)


def _runs_for_nobody(leak: Leak, owner: str, lost: Collection[str]) -> bool:
    """Whether it is a machine of this owner that costs money and that only a record knows."""
    runs = leak.kind == MACHINE and leak.usd_per_day != 0
    return (
        runs and leak.status == RECORDED and leak.cluster_id in lost and leak.owner in (owner, None)
    )


def _next(leaked: Collection[Leak], running: Sequence[Leak], owner: str) -> Hint:
    login = login_name()
    named = None if owner == owner_name(login) and login not in COMMON_LOGINS else owner
    if endable := [leak for leak in leaked if leak.owner == owner]:
        end = Command("leaks", end=True, yes=True, owner=named)
        hint = Hint(end, f"   # removes the {len(endable)} of {owner}")
        if any(leak.kind == BUCKET for leak in endable):
            return Hint(hint, "; with the content of buckets: ", end.plus(with_bucket=True))
        return hint
    if leaked:
        return Hint("the commands above; if they are yours: ", Command("leaks", owner="NAME"))
    if running:
        adopt = Command("adopt", running[0].cluster_id)
        return Hint(adopt, "   # then it can be stopped and terminated")
    return Hint(Command("leaks", owner=named), "   # again")
