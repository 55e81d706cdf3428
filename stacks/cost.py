"""What a cluster costs per hour: the config's own figure, else the cloud's price list. Pure.

A price list holds for one region, on demand. For another region, and for spot, the price is
unknown.
"""

from __future__ import annotations

from dataclasses import replace

from railhead.documents.cluster import Price

from .clouds import CLOUDS
from .config.settings import ClusterConfig


def price(config: ClusterConfig) -> Price | None:
    """The price of the whole cluster; None where it is unknown."""
    if config.price_per_hour is not None:
        return Price(config.price_per_hour, "USD", "the stack's config, price_per_hour", "")
    prices, machine = CLOUDS[config.cloud].prices, config.machine
    if prices is None or machine is None or machine.usd_per_hour is None:
        return None
    if config.region != prices.region or config.spot:
        return None
    per_hour = round(machine.usd_per_hour * config.count, 4)
    return Price(per_hour, "USD", prices.source, prices.date_of(machine.name))


def price_per_machine(config: ClusterConfig) -> Price | None:
    """As `price`, of one machine."""
    found = price(config)
    return found and replace(found, per_hour=round(found.per_hour / config.count, 4))


def cost(config: ClusterConfig) -> str:
    """One phrase for people: what the whole cluster costs per hour, as far as that is known. Both
    price lists are those of machines: clouds bill disks and public addresses besides."""
    if CLOUDS[config.cloud].free:
        return "it costs nothing: the hosts are on this computer"
    found = price(config)
    if found is None:
        return "its cost per hour is not in our table (pulumi config set price_per_hour ...)"
    dated = f" of {found.date}" if found.date else ""
    text = f"{found.per_hour:.2f} {found.currency} per hour ({found.source}{dated})"
    return text if config.price_per_hour is not None else f"{text}, disks and addresses apart"
