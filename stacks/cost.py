"""What a cluster costs: the config's own figure, else the prices of its cloud. Pure.

An unknown price stays unknown, and is named; it is never guessed from another one.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

from railhead.documents.cluster import ClusterPrice
from railhead.money import host
from railhead.money.amount import Amount
from railhead.money.bill import Price, hours_for
from railhead.money.host import DiskSpec, HostSpec, Part
from railhead.money.table import shipped

from .clouds import CLOUDS
from .config.settings import ClusterConfig
from .next_command import set_
from .rules.validators import ConfigError


def parts(config: ClusterConfig) -> tuple[Part, ...]:
    """What each host is billed for; nothing for a cloud that is free."""
    if config.price_per_hour is not None:
        each = Decimal(str(config.price_per_hour)) / config.count
        source = "the stack's config, price_per_hour"
        return (Part(host.MACHINE, Price("price of the machines", each, each, "h", "", source)),)
    if CLOUDS[config.cloud].free:
        return ()
    return host.parts_of(spec_of(config), config.rates or shipped(config.cloud))


def spec_of(config: ClusterConfig) -> HostSpec:
    """What the price of each host depends on."""
    machine = config.machine
    assert machine
    return HostSpec(
        config.cloud,
        config.region,
        config.machine_type,
        (machine.gpu, machine.gpus) if machine.gpu else None,
        machine.vcpus,
        config.spot,
        DiskSpec(config.disk_gb, config.disk_mbps, config.disk_iops),
    )


def price(config: ClusterConfig, hosts: int | None = None) -> ClusterPrice | None:
    """The price of this number of hosts, otherwise of the whole cluster, for its document; None if
    it is free."""
    billed = parts(config)
    return host.documented(billed, hosts or config.count) if billed else None


def check_budget(config: ClusterConfig) -> None:
    """ConfigError if the budget ends before the deadline of the first start, or if that is unknown.
    Later starts are measured by what is left: `fab` does that."""
    if config.budget is None:
        return
    hourly, budget = host.per_hour(parts(config), config.count), Decimal(str(config.budget))
    hours = hours_for(budget, hourly, Amount())
    if hours is None:
        raise ConfigError(f"budget: it is not known when it is spent; {hourly.text('per hour')}")
    if hours < Decimal(str(config.deadline_hours)):
        most = max(Decimal("0.25"), hours.quantize(Decimal("0.01"), ROUND_DOWN))
        raise ConfigError(
            f"budget: {config.budget:g} USD are spent after {hours:.1f} hours, before the "
            f"deadline: {hourly.text('per hour')}",
            set_("deadline_hours", most),
        )


def whole(config: ClusterConfig) -> str:
    """As `cost`, with what is not included; for `pulumi preview` and `fab doctor`."""
    if CLOUDS[config.cloud].free:
        return cost(config)
    rates = config.rates or shipped(config.cloud)
    return f"{cost(config)}; {host.by_use(config.region, rates, bucket=config.bucket)}"


def cost(config: ClusterConfig) -> str:
    """One phrase for people: what the whole cluster costs per hour, and until its deadline."""
    billed = parts(config)
    if not billed:
        return "it costs nothing: the hosts are on this computer"
    text = host.describe(billed, config.count, config.deadline_hours)
    return text if billed[0].rate.amount.known else f"{text} (pulumi config set price_per_hour ...)"
