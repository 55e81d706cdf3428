"""The clouds' own prices are kept for a day, and come before the tables."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from places import ROOT

from bootstrap.clouds import base, prices
from bootstrap.errors import RailheadError
from railhead.money.table import ON_DEMAND, Rates, Row, shipped

ROW = Row("machine", "g4dn.xlarge", "us-east-1", ON_DEMAND, "0.6", "", "h", "2026-11-01", "AWS")


class Cloud:
    """Answers with the rows, or does not; `requested` has the regions and types."""

    def __init__(self) -> None:
        self.requested: list[tuple[str, tuple[str, ...]]] = []
        self.fails = False

    def rows(self, region: str, types: Collection[str]) -> list[Row]:
        self.requested.append((region, tuple(types)))
        if self.fails:
            raise RailheadError("AWS refuses get_products: AccessDeniedException")
        return [replace(ROW, region=region)]


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cloud:
    found = Cloud()
    monkeypatch.setattr(base, "load", lambda name: found.rows)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return found


def usd(rates: Rates, region: str = "us-east-1") -> Decimal | None:
    return rates.machine("g4dn.xlarge", region, spot=False).amount.exact


def test_an_answer_is_kept_for_a_day(cloud: Cloud) -> None:
    for now in (0.0, 86_399.0, 86_400.0, 86_401.0):
        prices_ = prices.find("aws", "us-east-1", ["g4dn.xlarge"], now)
        assert usd(prices_.rates) == Decimal("0.6") and not prices_.why
    assert len(cloud.requested) == 2


def test_regions_are_kept_apart(cloud: Cloud) -> None:
    for region in ("us-east-1", "eu-west-1"):
        assert usd(prices.find("aws", region, ["g4dn.xlarge"], 0.0).rates, region) == Decimal("0.6")
    assert [region for region, _ in cloud.requested] == ["us-east-1", "eu-west-1"]


def test_another_type_is_read_with_those_before(cloud: Cloud) -> None:
    for types in (["a"], ["b"], ["a", "b"]):
        prices.find("aws", "us-east-1", types, 0.0)
    assert [types for _, types in cloud.requested] == [("a",), ("a", "b")]


def test_a_clock_that_went_back_asks_again(cloud: Cloud) -> None:
    prices.find("aws", "us-east-1", ["a"], 1000.0)
    prices.find("aws", "us-east-1", ["a"], 0.0)
    assert len(cloud.requested) == 2


def test_without_an_answer_the_table_counts_and_why_is_known(cloud: Cloud) -> None:
    cloud.fails = True
    found = prices.find("aws", "us-east-1", ["g4dn.xlarge"], 0.0)
    assert usd(found.rates) == Decimal("0.526") and "AccessDenied" in found.why
    assert found.rates == shipped("aws")


def test_a_damaged_file_is_read_again(cloud: Cloud, tmp_path: Path) -> None:
    path = tmp_path / "railhead/prices/aws-us-east-1.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"types": ["g4dn.xlarge"], "read": 0, "rows": [{}]}')
    prices.find("aws", "us-east-1", ["g4dn.xlarge"], 0.0)
    assert len(cloud.requested) == 1 and json.loads(path.read_text())["rows"][0]["usd"] == "0.6"


@pytest.mark.parametrize("taken", ["railhead", "railhead/prices"])
def test_an_answer_that_cannot_be_kept_counts(cloud: Cloud, tmp_path: Path, taken: str) -> None:
    """A file where a folder belongs refuses root, too."""
    path = tmp_path / taken
    path.parent.mkdir(exist_ok=True)
    path.touch()
    found = prices.find("aws", "us-east-1", ["g4dn.xlarge"], 0.0)
    assert usd(found.rates) == Decimal("0.6") and not found.why


def test_the_program_prints_the_rows_for_the_stacks(cloud: Cloud, tmp_path: Path) -> None:
    prices.find("aws", "us-east-1", ["g4dn.xlarge"])
    argv = [sys.executable, "-m", "bootstrap.clouds.prices", "aws", "us-east-1", "g4dn.xlarge"]
    process = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert [row["usd"] for row in json.loads(process.stdout)] == ["0.6"]
    argv[3] = "local"
    process = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 1 and "have no prices" in process.stderr
