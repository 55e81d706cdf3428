"""docs/config.md has every key, machine and zone that the code has, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from stacks import machines, prices
from stacks.keys import KEYS, Key

PAGE = (Path(__file__).parents[2] / "docs" / "config.md").read_text()


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


def test_every_machine_stands_there_with_its_price() -> None:
    rows = re.findall(r"^\| `([a-z0-9.]+)` \| (\d+) \| (\d+ \S+) \| (\S+) \|$", PAGE, re.MULTILINE)
    has = [
        (m.name, str(m.vcpus), f"{m.gpus} {m.gpu}", f"{prices.AWS[m.name]:g}")
        for m in machines.AWS.values()
    ]
    assert rows == has
    assert prices.AWS_DATE in PAGE


def test_every_zone_with_cards_stands_there() -> None:
    for region in machines.T4_ZONES:
        zones = ", ".join(machines.zones_with("nvidia-tesla-t4", region))
        assert f"| {region} | {zones} |" in PAGE
