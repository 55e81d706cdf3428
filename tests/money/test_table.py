"""The price tables that are shipped, and how a price is found in one."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

import pytest
from places import CASES

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.machine_types import GOOGLE
from railhead.money import host
from railhead.money.bill import Price, UnknownPrice
from railhead.money.host import DiskSpec, HostSpec
from railhead.money.table import ON_DEMAND, SPOT, Rates, Row, shipped, sources

CLOUDS = ("aws", "gcp")
ROW = Row("machine", "g4dn.xlarge", "us-east-1", ON_DEMAND, "0.526", "", "h", "2026-07-20", "list")
OTHER = replace(ROW, usd="0.53", source="page")
OLDEST = timedelta(days=366)


@pytest.mark.parametrize("cloud", CLOUDS)
def test_every_row_is_of_one_price(cloud: str) -> None:
    """Two rows for one thing would make its price unknown."""
    for row in (rates := shipped(cloud)).rows:
        rate = rates.rate(row.kind, row.item, row.region, spot=row.market == SPOT)
        assert isinstance(rate, Price) and 0 <= rate.low <= rate.high and rate.high > 0


@pytest.mark.parametrize("cloud", CLOUDS)
def test_no_row_is_older_than_a_year(cloud: str) -> None:
    """Once this fails: read the prices again, and give them the day."""
    old = [str(row) for row in shipped(cloud).rows if date.today() - day_of(row) > OLDEST]
    assert old == []


def day_of(row: Row) -> date:
    """The last day that it may mean: 2026-07 is 2026-07-31."""
    year, month, day = (list(map(int, row.day.split("-"))) + [0, 0])[:3]
    if day:
        return date(year, month, day)
    following = date(year, month + 1, 1) if 0 < month < 12 else date(year + 1, 1, 1)
    return following - timedelta(days=1)


def second_readings() -> list[dict[str, str]]:
    """AWS's list as Karpenter had it half a year earlier; Google's as Kubernetes' autoscaler has it
    (github.com/kubernetes/autoscaler, Apache-2.0), and for g2, whose prices there are older than
    Google's, as gcosts has it."""
    with (CASES / "prices/second.csv").open(newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("second", second_readings(), ids=lambda one: one["item"])
def test_two_dated_sources_say_the_same(second: dict[str, str]) -> None:
    """Google's pages round to five digits."""
    rates, region = shipped(second["cloud"]), second["region"]
    (row,) = [r for r in rates.rows if r.is_for(second["kind"], second["item"], region, ON_DEMAND)]
    assert float(row.usd) == pytest.approx(float(second["usd"]), rel=2e-4)
    assert row.day != second["day"]


def test_every_machine_of_a_default_region_has_two_sources() -> None:
    second = {
        (reading["cloud"], reading["region"], reading["item"]) for reading in second_readings()
    }
    alone = {
        (cloud, row.item)
        for cloud in CLOUDS
        for row in on_demand(cloud)
        if row.region == COMMON_FACTS[cloud].default_region
        if (cloud, row.region, row.item) not in second
    }
    assert alone == set()


def on_demand(cloud: str) -> list[Row]:
    kinds = ("machine", "vcpu", "gpu")
    return [r for r in shipped(cloud).rows if r.kind in kinds and r.market == ON_DEMAND]


@pytest.mark.parametrize("cloud", CLOUDS)
def test_a_table_has_ten_regions(cloud: str) -> None:
    assert len({row.region for row in on_demand(cloud)}) >= 10


@pytest.mark.parametrize("region", sorted({row.region for row in on_demand("gcp")}))
def test_google_has_machines_and_all_around_them_in_each_region(region: str) -> None:
    """Traffic out of Tokyo alone is unknown: the source has its steps in no order."""
    spec = HostSpec("gcp", region, "n1-standard-8", ("nvidia-tesla-t4", 2), disk=DiskSpec(200))
    assert all(isinstance(part.rate, Price) for part in host.parts_of(spec, shipped("gcp")))
    rates = shipped("gcp")
    assert isinstance(rates.rate("objects", "standard", region), Price)
    assert isinstance(rates.rate("traffic", "out", region), Price) == (region != "asia-northeast1")


@pytest.mark.parametrize("item", ["g2-standard-24", "g2-standard-48", "g2-standard-96"])
def test_google_prices_of_g2_are_those_of_as_many_parts(item: str) -> None:
    """Google sells vCPUs, memory and GPUs, each by the piece: a slip of a digit would show."""
    assert_parts(item, "g2-standard-12")
    for region in regions_of("g2-standard-4"):
        four, eight, sixteen, most = (usd(f"g2-standard-{n}", region) for n in (4, 8, 16, 32))
        assert sixteen - eight == pytest.approx(2 * (eight - four), rel=1e-3)
        assert most - sixteen == pytest.approx(4 * (eight - four), rel=1e-3)


@pytest.mark.parametrize("family", ["a2-highgpu", "a2-ultragpu"])
@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_google_prices_of_a2_are_those_of_as_many_parts(family: str, gpus: int) -> None:
    assert_parts(f"{family}-{gpus}g", f"{family}-1g")


def assert_parts(item: str, part: str) -> None:
    """Each has prices in the same regions, in proportion to its vCPUs."""
    assert regions_of(item) == regions_of(part) != set()
    times = GOOGLE[item][0] / GOOGLE[part][0]
    for region in regions_of(item):
        assert usd(item, region) == pytest.approx(times * usd(part, region), rel=1e-4)


def regions_of(item: str) -> set[str]:
    return {row.region for row in on_demand("gcp") if row.item == item}


def usd(item: str, region: str) -> float:
    (row,) = [r for r in on_demand("gcp") if (r.item, r.region) == (item, region)]
    return float(row.usd)


def test_a_day_may_be_a_month_or_a_year() -> None:
    days = {"2026": (12, 31), "2026-07": (7, 31), "2026-12": (12, 31), "2026-07-20": (7, 20)}
    assert {day: day_of(replace(ROW, day=day)) for day in days} == {
        day: date(2026, *parts) for day, parts in days.items()
    }


def test_every_source_has_a_licence_and_an_address() -> None:
    used = {row.source for cloud in CLOUDS for row in shipped(cloud).rows}
    assert used == {source["name"] for source in sources().values()}
    assert all(
        entry["licence"] and entry["address"].startswith("https://") for entry in sources().values()
    )


def test_a_price_that_two_rows_have_is_refused_with_both() -> None:
    rate = Rates((ROW, OTHER)).rate("machine", "g4dn.xlarge", "us-east-1")
    assert isinstance(rate, UnknownPrice)
    assert rate.why.startswith("2 rows match: ") and "(list, " in rate.why and "(page, " in rate.why


def test_an_answer_of_the_cloud_comes_before_the_table() -> None:
    rates = Rates((OTHER,), Rates((ROW, replace(ROW, region="us-west-2"))))
    assert rates.rate("machine", "g4dn.xlarge", "us-east-1").amount.exact == Decimal("0.53")
    assert rates.rate("machine", "g4dn.xlarge", "us-west-2").amount.exact == Decimal("0.526")


def test_two_answers_of_the_cloud_are_not_mended_by_the_table() -> None:
    rate = Rates((OTHER, OTHER), Rates((ROW,))).rate("machine", "g4dn.xlarge", "us-east-1")
    assert isinstance(rate, UnknownPrice)


@pytest.mark.parametrize(
    ("cloud", "machine", "region", "gpus", "spot", "usd"),
    [
        ("aws", "g4dn.xlarge", "us-east-1", None, False, "0.526"),
        ("aws", "g4dn.xlarge", "eu-north-1", None, False, "0.558"),
        ("aws", "g5.xlarge", "eu-north-1", None, False, None),
        ("aws", "g4dn.xlarge", None, None, False, None),
        ("aws", "g4dn.2xlarge", "us-east-1", None, True, None),
        ("gcp", "n1-standard-4", "us-central1", ("nvidia-tesla-t4", 1), False, "0.5399992"),
        ("gcp", "n1-standard-4", "us-central1", ("nvidia-tesla-p4", 1), False, None),
        ("gcp", "n1-standard-4", "europe-west4", ("nvidia-tesla-t4", 1), False, "0.576668"),
        ("gcp", "n1-standard-4", "europe-west2", ("nvidia-tesla-v100", 1), False, None),
        ("gcp", "n1-standard-4", "europe-west6", ("nvidia-tesla-t4", 1), False, None),
        ("gcp", "a2-highgpu-1g", "europe-west2", None, False, None),
        ("gcp", "g2-standard-4", "us-central1", None, False, "0.70683"),
        ("gcp", "n1-standard-4", "us-central1", ("nvidia-tesla-t4", 1), True, None),
    ],
)
def test_prices_of_machines(
    cloud: str, machine: str, region: str | None, gpus: tuple[str, int], spot: bool, usd: str | None
) -> None:
    rate = shipped(cloud).machine(machine, region, gpus, spot=spot)
    assert rate.amount.exact == (None if usd is None else Decimal(usd))


def test_a_price_comes_back_from_the_cluster_document() -> None:
    """With a range, and with an unknown price and why."""
    for price in (
        HostSpec("aws", "us-east-1", "g4dn.xlarge", spot=True, disk=DiskSpec(250)),
        HostSpec("aws", "eu-west-3", "g4dn.xlarge"),
    ):
        parts = host.parts_of(price, shipped("aws"))
        assert host.read(host.documented(parts, 3), 3) == parts


def test_a_stopped_host_is_billed_for_its_disk_alone() -> None:
    parts = host.parts_of(
        HostSpec("aws", "us-east-1", "g4dn.xlarge", disk=DiskSpec(100, 250, 4000)), shipped("aws")
    )
    assert [part.what for part in host.stopped(parts)] == ["disk", "throughput", "iops"]


@pytest.mark.parametrize(
    ("cloud", "mbps", "iops", "usd"),
    [
        ("aws", 125, 3000, "8.00"),  # 100 x 0.08: both are included
        ("aws", 250, 3000, "13.00"),  # 125 x 0.04 more
        ("aws", 1000, 4000, "48.00"),  # 875 x 0.04, and 1000 x 0.005
        ("gcp", 250, 3000, "10.00"),  # they follow from the size
    ],
)
def test_a_disk_costs_more_for_speed_beyond_what_it_includes(
    cloud: str, mbps: int, iops: int, usd: str
) -> None:
    """For a month of 730 hours."""
    facts = COMMON_FACTS[cloud]
    parts = host.disk_parts(
        DiskSpec(100, mbps, iops), cloud, facts.disk_type, facts.default_region, shipped(cloud)
    )
    assert str(host.per_hour(parts, 1) * 730) == f"{usd} USD"


def test_a_speed_without_a_price_is_named() -> None:
    rows = tuple(row for row in shipped("aws").rows if row.kind != "throughput")
    parts = host.disk_parts(DiskSpec(100, 250, 3000), "aws", "gp3", "us-east-1", Rates(rows))
    assert str(host.per_hour(parts, 1) * 730) == (
        "at least 8.00 USD; unknown: price of throughput of a gp3 disk in us-east-1"
    )


def test_a_price_in_another_currency_is_not_added_up() -> None:
    parts = host.parts_of(HostSpec("aws", "us-east-1", "g4dn.xlarge"), shipped("aws"))
    euros = replace(host.documented(parts, 2), currency="EUR")
    assert str(host.per_hour(host.read(euros, 2), 2)) == "unknown: a price in EUR"
