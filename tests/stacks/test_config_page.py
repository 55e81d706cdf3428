"""docs/config.md has every key, machine and zone that the code has, and no other; Pulumi.yaml has
every default that does not depend on the cloud."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
import yaml
from places import ROOT

from pages import config as config_page
from pages.marked import filled
from railhead.money.table import shipped
from stacks.config import settings
from stacks.config.schema import KEYS, Key
from stacks.machine_types import gcp
from stacks.rules import validators

SET_BY_ALL = ("cloud", "region", "machine_type", "ssh_cidrs")
PAGE = (ROOT / "docs" / "config.md").read_text()


def declared(key: Key, default: str) -> dict[str, Any]:
    """The key in `config:` of Pulumi.yaml."""
    kind = getattr(key.value, "kind", str)
    if kind is bool:
        return {"type": "boolean", "default": default == "true"}
    if kind is int:
        return {"type": "integer", "default": int(default)}
    return {"type": "string", "default": default}


def test_pulumi_has_the_types_and_defaults_of_the_keys() -> None:
    """Not those that depend on the cloud or the user: a default of Pulumi.yaml is for all. What
    everybody sets has its type there, with no value."""
    same = [key for key in KEYS if key.default and "{" not in key.default and not key.defaults]
    expected = {key.name: declared(key, str(key.default)) for key in same}
    expected |= dict.fromkeys(SET_BY_ALL, {"type": "string", "default": ""})
    for path in (ROOT / "Pulumi.yaml", ROOT / "railhead/project/Pulumi.yaml"):
        assert yaml.safe_load(path.read_text())["config"] == expected


def test_an_empty_text_is_no_value() -> None:
    """Also of a key that the stack's cloud does not have."""
    empty = dict.fromkeys(SET_BY_ALL, "")
    local = settings.read({**empty, "cloud": "local"}, stack="s")
    assert (local.region, local.machine_type, local.ssh_cidrs) == (None, "", ())
    with pytest.raises(validators.ConfigError, match="ssh_cidrs: not set"):
        settings.read({**empty, "cloud": "aws"}, stack="s")


def test_the_tables_are_those_of_the_code() -> None:
    """`make generate` writes them; the dates of the prices stand in the text."""
    assert filled(PAGE, config_page.parts()) == PAGE
    machines = [row for row in shipped("aws").rows if row.kind == "machine"]
    assert all(row.day in PAGE for row in machines if row.region == "us-east-1")


def test_every_machine_type_of_google_is_listed() -> None:
    here = [row for row in shipped("gcp").rows if row.region == "us-central1"]
    assert all(row.day in PAGE for row in here if row.kind in ("machine", "vcpu"))
    for start in ("n1", "e2", "n2"):
        (sizes,) = re.findall(rf"^\| {start} \| `{start}-standard-` ([^|]+) \|", PAGE, re.MULTILINE)
        names = [f"{start}-standard-{size}" for size in re.findall(r"\d+", sizes)]
        assert names == [name for name in gcp.NAMES if name.startswith(start)]
        (per_vcpu,) = re.findall(rf"^\| {start} \| .* \| (\S+) per vCPU", PAGE, re.MULTILINE)
        gpus = f"{per_vcpu} per vCPU, 0.35 per nvidia-tesla-t4, 2.48 per nvidia-tesla-v100 |"
        assert start != "n1" or gpus in PAGE
        gpu = ("nvidia-tesla-t4", 2)
        rate = shipped("gcp").machine(f"{start}-standard-8", "us-central1", gpu, spot=False)
        assert rate.amount.exact == 8 * Decimal(per_vcpu) + 2 * Decimal("0.35")


def test_google_prices_are_of_regions_that_have_the_gpu() -> None:
    """Its interface also has prices of what no zone has."""
    gpus = {name: gpu for name, (_, gpu, _) in gcp.WITH_GPUS.items()}
    for row in shipped("gcp").rows:
        gpu = row.item if row.kind == "gpu" else gpus.get(row.item)
        assert gpu not in gcp.ZONES or row.region in gcp.ZONES[gpu]
