"""AWS's own prices: answers as its models have them; Stubber of botocore checks both sides."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

pytest.importorskip("boto3", reason="scripts/setup --stacks installs it")

from botocore.awsrequest import AWSResponse  # noqa: E402
from botocore.stub import ANY, Stubber  # noqa: E402

from bootstrap.clouds.aws import client as aws  # noqa: E402
from bootstrap.clouds.aws import prices  # noqa: E402
from bootstrap.clouds.base import SpotOffer  # noqa: E402
from bootstrap.errors import RailheadError  # noqa: E402
from bootstrap.host.buckets import repeats  # noqa: E402
from bootstrap.host.buckets.s3 import boto_client  # noqa: E402
from railhead.money.bill import Rate  # noqa: E402
from railhead.money.table import Rates  # noqa: E402

NOW = datetime(2026, 11, 1, 12, tzinfo=timezone.utc)
REGION, TYPES = "eu-west-1", ("g4dn.xlarge", "g5.xlarge")
ATTRIBUTES = {**prices.COMPUTE, "regionCode": REGION}
DISK = {"volumeApiName": "gp3", "regionCode": REGION}


def entry(
    attributes: Mapping[str, str], *tiers: Mapping[str, Any], family: str = "Compute Instance"
) -> str:
    """A text of PriceList; a tier has `usd`, and what differs from a price per hour."""
    dimensions = {
        f"X.{number}": {
            "unit": tier.get("unit", "Hrs"),
            "beginRange": tier.get("begin", "0"),
            "endRange": tier.get("end", "Inf"),
            "pricePerUnit": {tier.get("currency", "USD"): tier["usd"]},
            "description": "$ per unit",
        }
        for number, tier in enumerate(tiers)
    }
    product = {"productFamily": family, "attributes": attributes, "sku": "X"}
    terms = {"OnDemand": {"X.J": {"sku": "X", "priceDimensions": dimensions}}}
    return json.dumps({"product": product, "serviceCode": "AmazonEC2", "terms": terms})


def g4dn(usd: str, **others: str) -> str:
    return entry({**ATTRIBUTES, "instanceType": "g4dn.xlarge", **others}, {"usd": usd})


DISKS = (  # what AWS lists of gp3: its IOPS and its throughput have prices of their own
    entry(DISK, {"usd": "0.0055000000", "unit": "IOPS-Mo"}, family="System Operation"),
    entry(DISK, {"usd": "0.0880000000", "unit": "GB-Mo"}, family="Storage"),
    entry(DISK, {"usd": "45.0560000000", "unit": "GiBps-mo"}, family="Provisioned Throughput"),
    entry(DISK, {"usd": "0.0400000000", "unit": "Quantity"}, family="Another family"),
)


class Clients:
    """Stubbed clients of pricing and EC2, in place of those of `connect`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "x")
        self.clients = {name: boto_client(name, "us-east-1") for name in ("pricing", "ec2")}
        self.stubs = {name: Stubber(client) for name, client in self.clients.items()}
        monkeypatch.setattr(prices, "connect", lambda region: self.call)
        self.spot: list[dict[str, Any]] = []
        self.more_spot: list[list[dict[str, Any]]] = []  # further pages

    def call(self, service: str, operation: str, **parameters: Any) -> Any:
        return aws._call(self.clients.__getitem__, service, operation, parameters)

    def machines(self, *entries: str, more: str = "", after: str = "") -> None:
        """A page with these entries; `after` it another one."""
        values: dict[str, Any] = {"ServiceCode": "AmazonEC2", "Filters": ANY}
        requested = {**values, "FormatVersion": "aws_v1", **({"NextToken": more} if more else {})}
        page = {"PriceList": list(entries), **({"NextToken": after} if after else {})}
        self.stubs["pricing"].add_response("get_products", page, requested)

    def rates(self) -> Rates:
        """The prices; after those of machines, AWS answers about disks and spot prices."""
        self.machines(*DISKS)
        values = {"InstanceTypes": sorted(TYPES), "ProductDescriptions": ["Linux/UNIX"]}
        requested: dict[str, Any] = {**values, "StartTime": NOW}
        for number, page in enumerate([self.spot, *self.more_spot]):
            more = {"NextToken": f"page {number + 1}" if number < len(self.more_spot) else ""}
            answer = {"SpotPriceHistory": page, **more}  # EC2's last page has an empty one
            self.stubs["ec2"].add_response("describe_spot_price_history", answer, requested)
            requested = {**requested, **more}
        for stub in self.stubs.values():
            stub.activate()
        return Rates(tuple(prices.rows(REGION, TYPES, NOW)))

    def rate(self, *, spot: bool = False, name: str = "g4dn.xlarge") -> Rate:
        return self.rates().machine(name, REGION, spot=spot)


@pytest.fixture
def clients(monkeypatch: pytest.MonkeyPatch) -> Clients:
    return Clients(monkeypatch)


def spot(zone: str, usd: str, time: datetime = NOW, name: str = "g4dn.xlarge") -> dict[str, Any]:
    return {
        "AvailabilityZone": f"{REGION}{zone}",
        "InstanceType": name,
        "ProductDescription": "Linux/UNIX",
        "SpotPrice": usd,
        "Timestamp": time - timedelta(hours=2),
    }


def test_the_price_of_each_type_and_of_disks(clients: Clients) -> None:
    other = entry({**ATTRIBUTES, "instanceType": "g5.xlarge"}, {"usd": "1.1230000000"})
    clients.machines(g4dn("0.5870000000"), other)
    rates = clients.rates()
    usd = [rates.machine(name, REGION, spot=False).amount.exact for name in TYPES]
    assert usd == [Decimal("0.587"), Decimal("1.123")]
    disk = rates.rate("disk", "gp3", REGION)
    assert str(disk) == "0.088 USD per GB-month (AWS price list, 2026-11-01)"
    speed = [str(rates.rate(kind, "gp3", REGION)).split(" (")[0] for kind in ("throughput", "iops")]
    assert speed == ["0.044 USD per MiBps-month", "0.0055 USD per IOPS-month"]


def test_one_call_requests_all_types_of_the_one_offer(clients: Clients) -> None:
    requested: list[Any] = []
    events = clients.clients["pricing"].meta.events
    events.register("provide-client-params", lambda params, **_: requested.append(params))
    clients.machines()
    clients.rates()
    machines, disks = requested
    values = {
        filter_["Field"]: (filter_["Type"], filter_["Value"]) for filter_ in machines["Filters"]
    }
    assert values["instanceType"] == ("ANY_OF", "g4dn.xlarge,g5.xlarge")
    assert values["marketoption"] == ("TERM_MATCH", "OnDemand")
    assert values["regionCode"][1] == REGION and len(disks["Filters"]) == 2


def test_a_capacity_block_and_another_system_are_not_the_price(clients: Clients) -> None:
    """GPU types have these entries too; with 0.00 USD per hour the first would win."""
    block = g4dn("0.0000000000", marketoption="CapacityBlock")
    windows = g4dn("0.7710000000", operatingSystem="Windows")
    clients.machines(block, windows, g4dn("0.5870000000"))
    assert clients.rate().amount.exact == Decimal("0.587")


def test_two_entries_for_a_type_are_refused_with_both(clients: Clients) -> None:
    clients.machines(g4dn("0.5870000000"), g4dn("0.5900000000"))
    text = str(clients.rate())
    assert text.startswith("2 rows match: ") and "0.587 USD" in text and "0.59 USD" in text


def test_no_entry_is_an_unknown_price(clients: Clients) -> None:
    clients.machines()
    assert not clients.rate().amount.known


def test_the_second_page_counts_too(clients: Clients) -> None:
    clients.machines(after="2")
    clients.machines(g4dn("0.5870000000"), more="2")
    assert clients.rate().amount.exact == Decimal("0.587")


def test_half_a_list_is_no_list(clients: Clients) -> None:
    clients.machines(g4dn("0.5870000000"), after="2")
    clients.stubs["pricing"].add_client_error("get_products", "ExpiredNextTokenException")
    with pytest.raises(RailheadError, match="ExpiredNextTokenException"):
        clients.rates()


def test_without_the_right_the_refusal_is_shown(clients: Clients) -> None:
    clients.stubs["pricing"].add_client_error("get_products", "AccessDeniedException", "no")
    with pytest.raises(RailheadError, match="AccessDeniedException: no"):
        clients.rates()


@pytest.mark.parametrize(
    ("tiers", "why"),
    [
        ([{"usd": "0.5", "end": "100"}, {"usd": "0.4", "begin": "100"}], "has 2 tiers"),
        ([{"usd": "0.5", "begin": "10"}], "has 1 tiers"),
        ([], "has 0 tiers"),
        ([{"usd": "3.5", "currency": "CNY"}], "not in USD"),
        ([{"usd": "0.5", "unit": "Quantity"}], "not in USD per hour"),
        ([{"usd": "NaN"}], "'NaN', not a number of USD"),
        ([{"usd": "-1"}], "not a number of USD"),
        ([{"usd": "0,5"}], "not a number of USD"),
    ],
)
def test_a_price_of_another_form_is_refused(clients: Clients, tiers: list[Any], why: str) -> None:
    clients.machines(entry({**ATTRIBUTES, "instanceType": "g4dn.xlarge"}, *tiers))
    with pytest.raises(RailheadError, match=why):
        clients.rates()


@pytest.mark.parametrize("text", ["{", "[]", '{"product": {}}', "1"])
def test_an_entry_that_is_none_is_refused(clients: Clients, text: str) -> None:
    clients.machines(text)
    with pytest.raises(RailheadError, match="an entry of AWS's price list"):
        clients.rates()


def test_spot_prices_are_from_the_lowest_to_the_highest_zone_of_all_pages(clients: Clients) -> None:
    clients.machines()
    clients.spot = [spot("a", "0.321000")]
    clients.more_spot = [[], [spot("b", "0.3152"), spot("c", "0.332")]]
    assert str(clients.rate(spot=True).amount.text(digits=4)) == "0.3152 to 0.3320 USD"


def test_a_spot_price_of_years_ago_is_not_one(clients: Clients) -> None:
    """As moto answers: 0.00001 USD, of 2006."""
    clients.machines()
    clients.spot = [spot("a", "0.00001", datetime(2006, 1, 1, tzinfo=timezone.utc))]
    assert not clients.rate(spot=True).amount.known


OFFER = SpotOffer("g4dn.xlarge", f"{REGION}a")


def history(clients: Clients, since: datetime, *pages: list[dict[str, Any]]) -> list[Any]:
    """The steps of the offer: hours before now, and USD. AWS answers in pages."""
    requested: dict[str, Any] = {
        "InstanceTypes": ["g4dn.xlarge"],
        "ProductDescriptions": ["Linux/UNIX"],
        "Filters": [{"Name": "availability-zone", "Values": [f"{REGION}a"]}],
        "StartTime": max(since, NOW - timedelta(days=90)),
        "EndTime": NOW,
    }
    for number, page in enumerate(pages):
        more = {"NextToken": f"page {number + 1}" if number + 1 < len(pages) else ""}
        answer = {"SpotPriceHistory": page, **more}
        clients.stubs["ec2"].add_response("describe_spot_price_history", answer, requested)
        requested = {**requested, **more}
    clients.stubs["ec2"].activate()
    found = prices.spot_history(REGION, {OFFER}, since, NOW)
    assert {*found} <= {OFFER}
    steps = found.get(OFFER, ())
    return [((NOW - step.start) / timedelta(hours=1), str(step.rate.amount.low)) for step in steps]


def test_the_history_has_the_price_of_its_begin_and_each_change(clients: Clients) -> None:
    """EC2 answers the last change before the begin too; the newest comes first. `spot` is of two
    hours before the time that it gets."""
    rows = [spot("a", usd, NOW - timedelta(hours=h)) for usd, h in (("0.25", 1), ("0.3", 8))]
    others = [spot("b", "0.10"), spot("a", "0.11", name="g5.xlarge")]
    steps = history(clients, NOW - timedelta(hours=6), rows[:1], [*others, *rows[1:]])
    assert steps == [(3, "0.25"), (6, "0.3")]


def test_a_history_begins_ninety_days_ago_at_the_earliest(clients: Clients) -> None:
    old = spot("a", "0.00001", datetime(2006, 1, 1, tzinfo=timezone.utc))
    assert history(clients, NOW - timedelta(days=200), [old]) == []


def test_throttling_is_outlasted(clients: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "sleep", lambda seconds: None)
    good = {"PriceList": [g4dn("0.5870000000")], "FormatVersion": "aws_v1"}
    bad = {"__type": "ThrottlingException", "message": "Rate exceeded"}
    answers = iter([(400, bad), (400, bad), (200, good), *[(200, {"PriceList": []})] * 3])

    class Raw:
        def __init__(self, content: bytes) -> None:
            self.content = content

        def stream(self) -> Any:
            yield self.content

    def send(request: Any, **_: Any) -> AWSResponse:
        status, body = next(answers)
        return AWSResponse(request.url, status, {}, Raw(json.dumps(body).encode()))

    clients.clients["pricing"].meta.events.register("before-send", send)
    rows = list(prices._machines(clients.call, REGION, TYPES, NOW))
    assert [row.usd for row in rows] == ["0.587"]


def test_many_types_are_requested_in_parts() -> None:
    names = [f"g{number}.12xlarge" for number in range(200)]
    parts = list(prices._in_parts(names))
    assert ",".join(parts).split(",") == names and max(map(len, parts)) <= 1024
