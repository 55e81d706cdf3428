"""The cost of a run in its result, from the prices in its document."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from standins.runs.supervised_run import Run, says

from railhead.documents.cluster import PricePart
from railhead.documents.codec import decode, encode
from railhead.documents.runs.result import RunCost
from railhead.money import host
from railhead.money.host import HostSpec
from railhead.money.table import shipped


def prices(region: str, machine: str = "g4dn.xlarge", *, spot: bool = False) -> Any:
    host_spec = HostSpec("aws", region, machine, spot=spot)
    return encode(host.documented(host.parts_of(host_spec, shipped("aws")), 1).parts)


def test_the_result_has_the_price_of_the_hosts_for_its_seconds(home: Path) -> None:
    """Two hosts, each 24.48 + 100 x 0.08 / 730 + 0.005 per hour: also 0.1 s cost something."""
    result = Run(home, says(0, "ok"), prices=prices("us-east-1", "p3.16xlarge")).result()
    hours = Decimal(str(result["seconds"])) / 3600
    each = Decimal("24.485") + Decimal(8) / 730
    assert result["cost"] == {"usd": f"{2 * hours * each:.4f}"} != {"usd": "0.0000"}


def test_a_spot_price_is_a_range() -> None:
    parts = decode(tuple[PricePart, ...], prices("us-east-1", spot=True))
    cost = host.of_run(parts, 4, 9000)
    assert cost == RunCost("2.1596", "2.3196")  # 4 x 2.5 x 0.215959 and 0.231959


def test_what_has_no_price_is_named(home: Path) -> None:
    cost = Run(home, says(0, "ok"), prices=prices("eu-west-3")).result()["cost"]
    assert cost["unknown"][0] == "price of g4dn.xlarge in eu-west-3"


def test_a_run_without_prices_has_no_cost(home: Path) -> None:
    assert "cost" not in Run(home, says(0, "ok")).result()
