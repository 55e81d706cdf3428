"""docs/config.md: the keys of a stack, and the machines of each cloud with prices and zones."""

from __future__ import annotations

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.rule import Rule
from railhead.money.bill import Price
from railhead.money.table import shipped
from stacks.config.schema import KEYS, Key
from stacks.machine_types import aws, gcp

from .marked import table


def parts() -> dict[str, str]:
    """The generated parts of docs/config.md."""
    return {
        "keys": keys(),
        "machines-aws": machines_aws(),
        "machines-gcp": machines_gcp(),
        "zones": zones(),
    }


def keys() -> str:
    """The keys of `pulumi config`."""
    rows = [(f"`{key.name}`", ", ".join(key.clouds), _default(key), _meaning(key)) for key in KEYS]
    return table(("key", "clouds", "default", "meaning"), rows)


def _meaning(key: Key) -> str:
    bounds = key.value.bounds if isinstance(key.value, Rule) else ""
    return "; ".join(text for text in (key.doc, bounds) if text)


def _default(key: Key) -> str:
    each = ", ".join(f"{cloud}: `{text}`" for cloud, text in key.defaults.items())
    if key.default is not None:
        return f"`{key.default}`"
    return each or ("must be set" if key.required else "")


def machines_aws() -> str:
    """The machine types of AWS."""
    rows = [
        (f"`{m.name}`", m.vcpus, f"{m.gpus} {m.gpu}" if m.gpu else "none", *_price("aws", m.name))
        for m in aws.TYPES.values()
    ]
    return table(("type", "vCPUs", "GPUs", "USD per hour", "on"), rows)


def machines_gcp() -> str:
    """The machine types of Google Cloud with built-in GPUs."""
    rows = [
        (f"`{name}`", vcpus, f"{count} {gpu}", *_price("gcp", name))
        for name, (vcpus, gpu, count) in gcp.WITH_GPUS.items()
    ]
    return table(("type", "vCPUs", "GPUs", "USD per hour", "on"), rows)


def _price(cloud: str, name: str) -> tuple[str, str]:
    """USD per hour on demand in the cloud's default region, and the day."""
    rate = shipped(cloud).machine(name, COMMON_FACTS[cloud].default_region, spot=False)
    return (f"{rate.low.normalize():f}", rate.day) if isinstance(rate, Price) else ("unknown", "")


def zones() -> str:
    """The zones of Google Cloud that have GPUs."""
    rows = [
        (gpu, region, ", ".join(gcp.zones_with(gpu, region)))
        for gpu, regions in gcp.ZONES.items()
        for region in regions
    ]
    return table(("GPU type", "region", "zones"), rows)
