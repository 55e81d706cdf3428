"""The output `next` of a stack: the next command, the cost, and when the cloud stops it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stacks.config.settings import ClusterConfig
from stacks.cost import cost


def summary(config: ClusterConfig, document: Mapping[str, Any] | None) -> str:
    """One line of a cluster and its document; the document is None for a quota request."""
    if document is None:
        return "the quota is requested; once it is granted: pulumi config rm quotas && pulumi up"
    return "; ".join(["fab train", cost(config), _deadline(document)])


def _deadline(document: Mapping[str, Any]) -> str:
    deadlines = document["deadlines"]
    if not deadlines:
        return "nothing stops it by itself: fab teardown"
    if times := sorted(deadline["at"] for deadline in deadlines if "at" in deadline):
        return f"the cloud stops it at {times[0]}"
    return f"the cloud stops each host {deadlines[0]['seconds'] / 3600:g} hours after its start"
