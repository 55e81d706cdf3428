"""docs/config.md has every key, machine and zone that the code has, and no other; Pulumi.yaml has
every default that does not depend on the cloud."""

from __future__ import annotations

import re
from typing import Any

import yaml
from places import ROOT

from stacks.aws import machine_types as aws
from stacks.config import validators
from stacks.config.schema import KEYS, Key
from stacks.gcp import machine_types as gcp

PAGE = (ROOT / "docs" / "config.md").read_text()


def default(key: Key) -> str:
    each = ", ".join(f"{cloud}: `{text}`" for cloud, text in key.defaults.items())
    if key.default is not None:
        return f"`{key.default}`"
    return each or ("must be set" if key.required else "none")


def test_every_key_has_its_row() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| [a-z]", PAGE, re.MULTILINE)
    assert rows == [key.name for key in KEYS]
    for key in KEYS:
        row = f"| `{key.name}` | {', '.join(key.clouds)} | {default(key)} | {key.doc} |"
        assert row in PAGE, row


def declared(key: Key, default: str) -> dict[str, Any]:
    """The key in `config:` of Pulumi.yaml."""
    if key.read is validators.switch:
        return {"type": "boolean", "default": default == "true"}
    if key.read in (validators.count, validators.disk_gb, validators.disk_mbps):
        return {"type": "integer", "default": int(default)}
    return {"type": "string", "default": default}


def test_pulumi_has_the_types_and_defaults_of_the_keys() -> None:
    """Not those that depend on the cloud or the user: a default of Pulumi.yaml is for all."""
    config = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())["config"]
    same = [key for key in KEYS if key.default and "{" not in key.default and not key.defaults]
    assert config == {key.name: declared(key, str(key.default)) for key in same}


def test_every_machine_type_is_listed_with_its_price() -> None:
    rows = re.findall(r"^\| `([a-z0-9.]+)` \| (\d+) \| ([^|]+) \| (\S+) \|$", PAGE, re.MULTILINE)
    has = [
        (m.name, str(m.vcpus), f"{m.gpus} {m.gpu}" if m.gpu else "none", str(m.usd_per_hour))
        for m in aws.TYPES.values()
    ]
    assert rows == has
    for date in {aws.PRICES.date, *aws.PRICES.dates.values()}:
        assert date in PAGE


def test_every_machine_type_of_google_is_listed() -> None:
    form = r"^\| `([a-z0-9-]+)` \| (\d+) \| (\d+) (\S+) \| (\S+) \|$"
    has = [
        (name, str(vcpus), str(count), gpu, str(gcp.PRICES.machines[name]))
        for name, (vcpus, gpu, count) in gcp.WITH_GPUS.items()
    ]
    assert re.findall(form, PAGE, re.MULTILINE) == has
    for date in {gcp.PRICES.date, *gcp.PRICES.dates.values()}:
        assert date in PAGE
    for start in ("n1", "e2", "n2"):
        (sizes,) = re.findall(rf"^\| {start} \| `{start}-standard-` ([^|]+) \|", PAGE, re.MULTILINE)
        names = [f"{start}-standard-{size}" for size in re.findall(r"\d+", sizes)]
        assert names == [name for name in gcp.NAMES if name.startswith(start)]
        (one,) = re.findall(rf"^\| {start} \| .* \| (\S+) per vCPU", PAGE, re.MULTILINE)
        gpus = f"{one} per vCPU, 0.35 per nvidia-tesla-t4, 2.48 per nvidia-tesla-v100 |"
        assert start != "n1" or gpus in PAGE
        machine = gcp.machine_type(f"{start}-standard-8", "nvidia-tesla-t4", 2)
        assert machine.usd_per_hour == round(8 * float(one) + machine.gpus * 0.35, 5)


def test_every_zone_with_gpus_is_listed() -> None:
    rows = re.findall(r"^\| (nvidia-\S+) \| (\S+) \| (\S+-[a-z].*) \|$", PAGE, re.MULTILINE)
    has = [
        (gpu, region, ", ".join(gcp.zones_with(gpu, region)))
        for gpu, regions in gcp.ZONES.items()
        for region in regions
    ]
    assert rows == has
