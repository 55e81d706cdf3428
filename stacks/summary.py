"""The output `next` of a stack: the next command, the cost, and when the cloud stops it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from railhead.documents.cluster import ClusterDocument

from .config.settings import ClusterConfig
from .cost import cost


def summary(
    config: ClusterConfig, document: ClusterDocument | None, stack: str, gone: Sequence[str] = ()
) -> str:
    """One line of a cluster and its document; the document is None for a quota request. `gone` are
    the ids of its machines that the cloud does not have any more."""
    if document is None:
        return "the quota is requested; once it is granted: pulumi config rm quotas && pulumi up"
    if names := [host.name for host in document.hosts if host.id in gone]:
        up = f"fab up --refresh --stack {shlex.quote(stack)}"
        return f"gone, though in Pulumi's state: {', '.join(names)}; {up}   # creates new ones"
    return "; ".join(["fab train", cost(config), _deadline(document)])


def _deadline(document: ClusterDocument) -> str:
    if not document.deadlines:
        return "nothing stops it by itself: fab teardown"
    if times := sorted(deadline.at for deadline in document.deadlines if deadline.at):
        return f"the cloud stops it at {times[0]}"
    hours = document.deadlines[0].seconds / 3600
    return f"the cloud stops each host {hours:g} hours after its start"
