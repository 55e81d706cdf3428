"""What `pulumi up` says at its end: what comes next, what it costs, when it stops. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stacks import prices
from stacks.settings import ClusterConfig


def told(config: ClusterConfig, document: Mapping[str, Any] | None) -> str:
    """One line for people, of a cluster and its document; None: only a quota was asked for."""
    if document is None:
        return "the quota was asked for; once it is granted: pulumi config rm quotas && pulumi up"
    return "; ".join(["fab train", cost(config), _deadline(config, document)])


def cost(config: ClusterConfig) -> str:
    """What the whole cluster costs per hour, as far as that is known."""
    if config.cloud == "local":
        return "it costs nothing: the hosts are on this machine"
    price = prices.price(config)
    if price is None:
        return "its cost per hour is not in our table (pulumi config set price_per_hour ...)"
    dated = f" of {price['date']}" if price["date"] else ""
    return f"{price['per_hour']:.2f} {price['currency']} per hour ({price['source']}{dated})"


def _deadline(config: ClusterConfig, document: Mapping[str, Any]) -> str:
    for deadline in document["deadlines"]:
        if "at" in deadline:
            return f"the cloud stops it at {deadline['at']}"
        return f"the cloud stops each host {deadline['seconds'] / 3600:g} hours after its start"
    return "nothing stops it by itself: fab teardown"
