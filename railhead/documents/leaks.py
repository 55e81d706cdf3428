"""The report of `fab leaks`: what has Railhead's tags in the clouds, and to whom it belongs."""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

LIVING, RECORDED, OTHERS, LEAKED, UNKNOWN = "living", "recorded", "others", "leaked", "unknown"
OK, FAILED, UNREACHABLE, SKIPPED = "ok", "failed", "unreachable", "skipped"


@dataclass(frozen=True)
class Leak:
    """One resource. `status`: `living` belongs to a stack of the Pulumi backend, `recorded` to a
    cluster that this computer has recorded, `others` to another owner, `leaked` to none of these;
    `unknown` if a stack could not be read.

    `usd_per_day` is null if it is not known, 0 if it costs nothing. `end` is the command
    that ends it.
    """

    cloud: str
    area: str
    place: str
    kind: str
    id: str
    details: str
    status: str = key(choices=(LIVING, RECORDED, OTHERS, LEAKED, UNKNOWN))
    cluster: str | None = None
    cluster_id: str | None = None
    stack: str | None = None
    owner: str | None = None
    since: str | None = None
    usd_per_day: float | None = None
    end: str = ""


@dataclass(frozen=True)
class LeakArea:
    """A region of AWS, its global services, or a project of Google Cloud, and whether all kinds of
    resources were listed there. `skipped`: without credentials, or without rights in a region or a
    project that nothing here names."""

    cloud: str
    name: str
    state: str = key(choices=(OK, FAILED, UNREACHABLE, SKIPPED))
    reason: str = ""

    @property
    def is_missing(self) -> bool:
        """Whether something in it may not be listed."""
        return self.state in (FAILED, UNREACHABLE)


@dataclass(frozen=True)
class LeakReport:
    """The report. `owner` is whose resources count as leaked. `unread`: stacks whose state could
    not be read, and why. `ended`: the ids that --end removed."""

    schema: int
    at: str
    owner: str
    areas: tuple[LeakArea, ...]
    resources: tuple[Leak, ...]
    unread: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
