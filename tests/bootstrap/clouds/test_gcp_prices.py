"""Google's own prices, from a catalogue of the real one's shape, with its traps in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

requests = pytest.importorskip("requests", reason="scripts/setup --stacks installs it")
pytest.importorskip("googleapiclient", reason="scripts/setup --dev installs it")

from standins.gcp.discovery import _Body, document  # noqa: E402
from standins.gcp.server import Answer, Call, address, error, start  # noqa: E402

from bootstrap.clouds.gcp import prices  # noqa: E402
from bootstrap.clouds.gcp.client import GoogleClient  # noqa: E402
from bootstrap.clouds.gcp.prices import Catalogue, Sku, price  # noqa: E402
from bootstrap.errors import RailheadError  # noqa: E402
from bootstrap.host.buckets import repeats  # noqa: E402
from railhead.documents.codec import decode  # noqa: E402
from railhead.money import host  # noqa: E402
from railhead.money.bill import UnknownPrice  # noqa: E402
from railhead.money.host import DiskSpec, HostSpec  # noqa: E402
from railhead.money.table import SPOT, Rates  # noqa: E402

REGION, OTHER = "us-central1", "europe-west3"
HERE = [REGION, "us-east1", "us-west1"]
T4 = "nvidia-tesla-t4"


def sku(
    description: str, unit: str, *tiers: tuple[float, str], regions: list[str] = HERE, **others: Any
) -> dict[str, Any]:
    """A SKU as Google writes it: without what is zero."""
    rates = [{"startUsageAmount": at_least, "unitPrice": money(usd)} for at_least, usd in tiers]
    expression = {"usageUnit": unit, "displayQuantity": 1.0, "tieredRates": rates}
    info = {"effectiveTime": "2026-11-01T00:00:00Z", "pricingExpression": expression}
    category = {"usageType": "OnDemand", "resourceFamily": "Compute"}
    return {
        "description": description,
        "category": category | others.pop("category", {}),
        "serviceRegions": regions,
        "pricingInfo": [info],
        **others,
    }


def money(usd: str) -> dict[str, Any]:
    whole, nanos = int(Decimal(usd)), int(Decimal(usd) % 1 * 10**9)
    parts = {"units": str(whole) if whole else "", "nanos": nanos}
    return {"currencyCode": "USD", **{name: value for name, value in parts.items() if value}}


ON_T4 = "Nvidia Tesla T4 GPU"
SPOT_ADDRESS = "External IP Charge on a Spot Preemptible VM"
PREEMPTIBLE: dict[str, Any] = {"category": {"usageType": "Preemptible"}}
SPOT_T4 = "Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas"
SKUS = [
    sku("N1 Predefined Instance Core running in Americas", "h", (0, "0.031611")),
    sku("N1 Predefined Instance Ram running in Americas", "GiBy.h", (0, "0.004237")),
    sku(
        "Spot Preemptible N1 Predefined Instance Core running in Americas",
        "h",
        (0, "0.006655"),
        **PREEMPTIBLE,
    ),
    sku(
        "Spot Preemptible N1 Predefined Instance Ram running in Americas",
        "GiBy.h",
        (0, "0.000892"),
        **PREEMPTIBLE,
    ),
    sku(
        "Commitment v1: N1 Predefined Instance Core running in Americas for 1 Year",
        "h",
        (0, "0.019915"),
        category={"usageType": "Commit1Yr"},
    ),
    sku("N1 Predefined Instance Core running in Frankfurt", "h", (0, "0.04073"), regions=[OTHER]),
    sku("Nvidia Tesla T4 GPU running in Americas", "h", (0, "0.35")),
    sku(SPOT_T4, "h", (0, "0.175"), **PREEMPTIBLE),
    sku(f"{ON_T4} attached to DWS Defined Duration VMs running in Americas", "h", (0, "0.21")),
    sku("A2 Instance Core running in Americas", "h", (0, "0.031611")),
    sku("A2 Instance Ram running in Americas", "GiBy.h", (0, "0.004237")),
    sku("Nvidia Tesla A100 GPU running in Americas", "h", (0, "2.933908")),
    sku("Nvidia Tesla A100 80GB GPU running in Americas", "h", (0, "3.93")),
    sku("Balanced PD Capacity", "GiBy.mo", (0, "0.10")),
    sku("Regional Balanced PD Capacity", "GiBy.mo", (0, "0.20")),
    sku("Balanced PD Capacity in Frankfurt", "GiBy.mo", (0, "0.12"), regions=[OTHER]),
    sku("Storage PD Capacity", "GiBy.mo", (0, "0"), (30, "0.04")),
    sku("External IP Charge on a Standard VM", "h", (0, "0"), (744, "0.005"), regions=["global"]),
    sku(SPOT_ADDRESS, "h", (0, "0"), (744, "0.0025"), regions=["global"]),
]  # fmt: skip


def rates(*more: dict[str, Any], region: str = REGION) -> Rates:
    skus = tuple(decode(Sku, entry) for entry in (*SKUS, *more))
    return Rates(tuple(Catalogue(skus, "2026-11-01").rows(region)))


def per_hour(rates: Rates, *, spot: bool) -> str:
    """n1-standard-4 with a T4, 200 GB and an address."""
    spec = HostSpec("gcp", REGION, "n1-standard-4", (T4, 1), 4, spot, DiskSpec(200))
    return str(host.per_hour(host.parts_of(spec, rates), 1).text(digits=4))


def test_the_catalogue_of_these_tests_has_the_real_ones_shape() -> None:
    api = document("cloudbilling")
    for entry in SKUS:
        _Body(api, "").check(entry, api.schemas["Sku"], "sku")


def test_a_machine_is_the_sum_of_what_it_is_sold_as() -> None:
    """4 x 0.031611 + 15 x 0.004237 + 0.35 + 200 x 0.10 / 730 + 0.005; spot in the same way."""
    assert per_hour(rates(), spot=False) == "0.5724 USD"
    assert per_hour(rates(), spot=True) == "0.2449 USD"


def test_a100_is_not_the_one_with_80_gb_and_a2_has_its_memory() -> None:
    """12 x 0.031611 + 85 x 0.004237 + 2.933908 = 3.673385, as Google's own page says."""
    price = rates().machine("a2-highgpu-1g", REGION, ("nvidia-a100", 1), 12, spot=False)
    assert price.amount.text(digits=6) == "3.673385 USD"


def test_a_regional_disk_is_not_the_price_of_a_disk() -> None:
    assert rates().rate("disk", "pd-balanced", REGION).amount.exact == Decimal("0.1")


def test_the_highest_tier_counts_not_the_free_one() -> None:
    assert rates().rate("disk", "pd-standard", REGION).amount.exact == Decimal("0.04")
    assert rates().rate("address", "public", REGION).amount.exact == Decimal("0.005")


def test_a_price_of_another_region_is_not_used() -> None:
    frankfurt = rates(region=OTHER)
    assert frankfurt.rate("disk", "pd-balanced", OTHER).amount.exact == Decimal("0.12")
    assert not frankfurt.machine("n1-standard-4", OTHER, None, 4, spot=False).amount.known  # no Ram


def test_a_commitment_is_not_a_price_on_demand() -> None:
    same = sku("N1 Predefined Instance Core running in Americas", "h", (0, "0.02"))
    same["category"]["usageType"] = "Commit3Yr"
    assert per_hour(rates(same), spot=False) == "0.5724 USD"


def test_two_skus_that_fit_are_refused_with_both() -> None:
    again = sku("Nvidia Tesla T4 GPU running in Iowa", "h", (0, "0.36"))
    rate = rates(again).machine("n1-standard-4", REGION, (T4, 1), spot=False)
    assert isinstance(rate, UnknownPrice) and rate.why.startswith("2 rows match: ")
    assert "0.35 USD" in rate.why and "0.36 USD" in rate.why


def test_whether_a_price_is_spot_is_in_its_description() -> None:
    """Google marks some spot SKUs as OnDemand."""
    skus = [entry for entry in SKUS if entry["description"] != SPOT_T4]
    skus.append(sku(SPOT_T4, "h", (0, "0.1")))  # OnDemand, it says
    decoded = tuple(decode(Sku, entry) for entry in skus)
    rows = [row for row in Catalogue(decoded, "").rows(REGION) if row.item == T4]
    assert [(row.market, row.usd) for row in rows] == [("on demand", "0.35"), (SPOT, "0.1")]


@pytest.mark.parametrize(("units", "nanos", "usd"), [("10", 0, "10"), ("", 500_000_000, "0.5")])
def test_whole_units_and_billionths_are_added(units: str, nanos: int, usd: str) -> None:
    value = {"currencyCode": "USD", **({"units": units} if units else {}), "nanos": nanos}
    entry = sku("x", "h", (0, "1"))
    entry["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"] = value
    assert price(decode(Sku, entry), "h") == Decimal(usd)


def test_the_newest_of_several_prices_counts() -> None:
    entry = sku("x", "h", (0, "1"))
    older = sku("x", "h", (0, "2"))["pricingInfo"][0] | {"effectiveTime": "2026-10-01T00:00:00Z"}
    entry["pricingInfo"].append(older)
    assert price(decode(Sku, entry), "h") == 1


@pytest.mark.parametrize("change", ["currency", "unit", "tiers", "prices"])
def test_a_price_of_another_form_is_refused(change: str) -> None:
    entry = sku("x", "mo" if change == "unit" else "h", *([] if change == "tiers" else [(0, "1")]))
    if change == "currency":
        expression = entry["pricingInfo"][0]["pricingExpression"]
        expression["tieredRates"][0]["unitPrice"]["currencyCode"] = "EUR"
    if change == "prices":
        entry["pricingInfo"] = []
    with pytest.raises(RailheadError, match="is not in USD per h"):
        price(decode(Sku, entry), "h")


class Pages:
    """The catalogue in two pages, served; `missing`: the second one is refused; `throttled`: so
    many requests before it is served."""

    def __init__(self) -> None:
        self.missing, self.throttled = False, 0
        self.requested: list[dict[str, list[str]]] = []

    def answer(self, call: Call) -> Answer:
        query = parse_qs(urlsplit(call.target).query)
        self.requested.append(query)
        assert urlsplit(call.target).path == "/v1/services/6F81-5844-456A/skus"
        assert query.keys() <= {"pageSize", "currencyCode", "pageToken"}
        if self.throttled:
            self.throttled -= 1
            return 429, error(429, "rateLimitExceeded")
        if "pageToken" not in query:
            return 200, {"skus": SKUS[:3], "nextPageToken": "2"}
        return (403, error(403, "forbidden")) if self.missing else (200, {"skus": SKUS[3:]})


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pages]:
    served = Pages()
    server = start(served.answer)
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_CLOUDBILLING", address(server))
    monkeypatch.setattr(prices, "connect", lambda: GoogleClient(requests.Session()))
    yield served
    server.shutdown()
    server.server_close()


def read() -> Rates:
    return Rates(tuple(prices.rows(REGION, (), datetime(2026, 11, 1, tzinfo=timezone.utc))))


def test_all_pages_are_read(pages: Pages) -> None:
    assert per_hour(read(), spot=False) == "0.5724 USD"
    assert [query["currencyCode"] for query in pages.requested] == [["USD"]] * 2


def test_a_catalogue_that_is_throttled_twice_is_read(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeats, "sleep", lambda seconds: None)
    pages.throttled = 2
    assert per_hour(read(), spot=False) == "0.5724 USD" and len(pages.requested) == 4


def test_half_a_catalogue_is_none(pages: Pages) -> None:
    pages.missing = True
    with pytest.raises(RailheadError, match="forbidden"):
        read()


def test_an_answer_of_another_shape_is_refused() -> None:
    wrong = {"description": "x", "pricingInfo": [{"pricingExpression": {"tieredRates": 1}}]}
    with pytest.raises(ValueError, match="tieredRates"):
        decode(Sku, wrong)
