"""Facts about the system and the cards: what tools print becomes what we know.

The outputs stand in tests/cases/outputs.json, each with where it comes from.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from places import CASES

from bootstrap.facts import gpu, system
from bootstrap.facts.gpu import ARCHES, CARDS
from bootstrap.facts.host import FACTS, HostFacts

OUTPUTS = json.loads((CASES / "outputs.json").read_text())


def plain(value: Any) -> Any:
    """A parser's answer as JSON has it."""
    return json.loads(json.dumps(value, default=vars))


@pytest.mark.parametrize("case", OUTPUTS, ids=[f"{c['fact']}: {c['what']}" for c in OUTPUTS])
def test_an_output_becomes_a_fact(case: dict[str, Any]) -> None:
    _, parser = FACTS[case["fact"]]
    value = parser("\n".join(case["output"]))
    assert plain(sorted(value) if isinstance(value, frozenset) else value) == case["value"]
    assert case["source"]


def test_every_kind_of_fact_has_outputs() -> None:
    plainly = {"kernel", "headers", "home_on"}
    request = {*system.FACTS, *gpu.FACTS} - plainly
    assert request <= {case["fact"] for case in OUTPUTS}


def test_cloud_init_is_never_waited_for() -> None:
    command, _ = FACTS["cloud_init"]
    assert "cloud-init status" in command and "wait" not in command and " -w" not in command


@pytest.mark.parametrize(
    ("kernel", "flavour"),
    [
        ("6.8.0-1043-aws", "aws"),
        ("6.14.0-1021-gcp", "gcp"),
        ("6.8.0-87-generic", "generic"),
        ("5.15.0-1052-azure", "azure"),
        ("6.1.0-28-cloud-amd64", "cloud-amd64"),
        ("6.1.0-28-amd64", "amd64"),
        ("6.12.38+deb13-cloud-amd64", "cloud-amd64"),
        ("6.12.12+bpo-cloud-amd64", "bpo-cloud-amd64"),
        ("6.18.44", ""),
    ],
)
def test_a_kernel_is_of_a_kind(debian: HostFacts, kernel: str, flavour: str) -> None:
    assert replace(debian.system, kernel=kernel).flavour == flavour


def test_every_card_of_the_table_is_of_a_known_generation() -> None:
    for number, name in CARDS.items():
        arch = next(arch for arch, first, last in ARCHES if first <= number <= last)
        values = {"V100": "volta", "T4": "turing", "A10": "ampere", "L4": "ada"}
        values |= {"H100": "hopper", "H200": "hopper"}
        assert any(
            prefix in name and arch == generation for prefix, generation in values.items()
        ), name
