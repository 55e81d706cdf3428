"""The short outputs of a stack: what to type next, the hosts, when the cloud stops them. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from railhead.documents.cluster import ClusterDocument
from railhead.installation import PROGRAM

from .config.settings import ClusterConfig
from .cost import cost
from .next_command import UP, rm, typed


@dataclass(frozen=True)
class Summary:
    """`next`: the next command, and the cost. `hosts`: the address of each, by its name.
    `deadline`: when the cloud stops the first of them; `idle`: when one stops earlier."""

    next: str
    hosts: dict[str, str] | None = None
    deadline: str | None = None
    idle: str | None = None


def summary(
    config: ClusterConfig, document: ClusterDocument | None, stack: str, gone: Sequence[str] = ()
) -> Summary:
    """The summary of a cluster document, which is None for a quota request. `gone` are the ids of
    its machines that the cloud does not have any more: they have no address and no deadline."""
    if document is None:
        granted = typed((rm("quotas"), "&&", UP), stack)
        return Summary(f"the quota is requested; once it is granted: {granted}")
    hosts = {host.name: host.address for host in document.hosts if host.id not in gone}
    names = [host.name for host in document.hosts if host.name not in hosts]
    up = f"{PROGRAM} up --refresh --stack {shlex.quote(stack)}"
    creates = f"gone, though in Pulumi's state: {', '.join(names)}; {up}   # creates new ones"
    after = creates if names else f"{PROGRAM} train; {cost(config)}"
    return Summary(after, hosts, _deadline(document, hosts), _idle(config))


def _idle(config: ClusterConfig) -> str | None:
    if not config.idle_minutes:
        return None
    minutes = f"{config.idle_minutes} minutes without use (idle_minutes; 0: never)"
    return f"a new machine powers itself off after {minutes}"


def _deadline(document: ClusterDocument, hosts: dict[str, str]) -> str | None:
    deadlines = [deadline for deadline in document.deadlines if deadline.host in hosts]
    if times := sorted(deadline.at for deadline in deadlines if deadline.at):
        return times[0]
    if deadlines:
        return f"{deadlines[0].seconds / 3600:g} hours after each start of a host"
    return f"none: nothing stops it by itself but {PROGRAM} teardown" if hosts else None
