"""`fab price`: which machines with so many GPUs are the cheapest."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.clouds import prices
from bootstrap.clouds.prices import Found
from bootstrap.console.output import json_output
from bootstrap.errors import UsageError
from bootstrap.report.facts import RunFacts
from bootstrap.workflows.machines import price
from railhead.documents.machine_types import AWS, GOOGLE
from railhead.documents.options.hosts import PriceOptions
from railhead.money.table import ON_DEMAND, Rates, Row, shipped
from stacks.machine_types import aws, gcp


def shown(capsys: pytest.CaptureFixture[str], **options: Any) -> list[list[str]]:
    """The lines, with their cells."""
    price.price(PriceOptions(**options))
    lines = capsys.readouterr().out.splitlines()
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_the_cheapest_is_first_with_its_price_per_gpu_and_for_the_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    head, first, second, *_ = shown(capsys, gpus=8, gpu=("t4", "l4"), hours=5)
    assert head == ["machines", "region", "USD per hour", "per GPU hour", "5 h"]
    assert first == ["8 x g4dn.xlarge", "us-east-1", "4.208", "0.526", "21.04"]
    assert second[:2] == ["8 x g4dn.xlarge", "us-west-2"]


def test_whole_machines_add_up_to_the_number(capsys: pytest.CaptureFixture[str]) -> None:
    rows = shown(capsys, gpus=4, gpu=("a10g",))
    names = {row[0] for row in rows if row[0][:1].isdigit()}
    assert "1 x g5.12xlarge" in names and "4 x g5.2xlarge" in names
    assert not any("g5.48xlarge" in name for name in names)


def test_gpus_are_attached_to_machines_of_google(capsys: pytest.CaptureFixture[str]) -> None:
    """2 x (16 x 0.0474998 + 2 x 0.35)."""
    rows = {tuple(row[:2]): row[2:] for row in shown(capsys, gpus=4, gpu=("t4",))}
    where = ("2 x n1-standard-16 + 2 nvidia-tesla-t4", "us-central1")
    assert rows[where][:2] == ["2.920", "0.730"]


def test_people_see_the_cheapest_and_how_many_more_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = shown(capsys, gpus=1)
    with json_output(True):
        price.price(PriceOptions(gpus=1))
    offers = json.loads(capsys.readouterr().out)["offers"]
    shown_rows = [row[:2] for row in rows if row[0][:4] == "1 x "]
    machines = {(one["machine"], one["region"]) for one in offers[: price.MOST_ROWS]}
    assert {(name.removeprefix("1 x "), region) for name, region in shown_rows} == machines
    assert rows[1 + price.MOST_ROWS][0].split()[0] == str(len(offers) - price.MOST_ROWS)


def test_spot_prices_are_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row for row in shown(capsys, gpus=1, gpu=("t4",), spot=True) if "us-east-1" in row]
    assert rows == [
        ["1 x g4dn.xlarge", "us-east-1", "0.200 to 0.216", "0.200 to 0.216", "0.20 to 0.22"]
    ]


def test_the_clouds_answer_for_regions_that_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    row = Row("machine", "g4dn.xlarge", "eu-west-3", ON_DEMAND, "0.6", "", "h", "2026-11-01", "AWS")
    called: list[tuple[str, str]] = []

    def find(cloud: str, region: str, types: list[str]) -> Found:
        called.append((cloud, region))
        rows = (row, replace(row, region="us-central1", item="g2-standard-4"))
        return Found(Rates(rows, shipped(cloud)), "no right" if cloud == "gcp" else "")

    monkeypatch.setattr(prices, "find", find)
    rows = shown(capsys, gpus=1, region=("eu-west-3", "us-central1"))
    assert sorted(called) == [("aws", "eu-west-3"), ("gcp", "us-central1")]
    assert ["us-central1: prices are those of the table: no right"] in rows
    assert {row[1] for row in rows if row[0].startswith("1 x")} == {"eu-west-3", "us-central1"}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"gpu": ("h200",)}, "--gpu h200: there are a100, a100-80gb, a10g, h100,"),
        ({"gpus": 127}, "at most 16 machines"),
        ({"gpus": 8, "gpu": ("h100",), "spot": True}, "no price is known"),
        ({"region": ("us-east-1", "-")}, "--region -: "),
        ({"region": ("../../x",)}, "--region ../../x: "),
        ({"region": ("europe", "us-east-1a")}, "--region europe, us-east-1a: "),
    ],
)
def test_what_cannot_be_compared_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        price.price(PriceOptions(**options))


@pytest.mark.parametrize(
    ("cloud", "regions"),
    [
        (
            "aws",
            ("us-east-1", "ap-southeast-5", "us-gov-west-1", "us-isob-east-1", "eusc-de-east-1"),
        ),
        ("gcp", ("us-central1", "northamerica-northeast2", "europe-west12")),
    ],
)
def test_the_price_of_a_region_is_that_of_its_own_cloud(
    monkeypatch: pytest.MonkeyPatch, cloud: str, regions: tuple[str, ...]
) -> None:
    called: list[tuple[str, str]] = []

    def find(cloud: str, region: str, types: list[str]) -> Found:
        called.append((cloud, region))
        return Found(Rates((), shipped(cloud)))

    monkeypatch.setattr(prices, "find", find)
    with suppress(UsageError):  # the tables do not have all of them
        price.price(PriceOptions(region=regions))
    assert called == [(cloud, region) for region in regions]


def test_an_epoch_has_the_price_of_a_run_on_as_many_of_these_gpus(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = tuple(replace(run_document().hosts[0], gpus=("Tesla T4",)) for _ in range(2))
    run = RunFacts("r-1", Path(), "c", run_document(hosts=hosts))
    monkeypatch.setattr(price, "epochs", lambda: {("nvidia-t4", 2): (run, 1800.0)})
    rows = shown(capsys, gpus=2, gpu=("t4", "l4"))
    assert rows[0][-1] == "epoch" and rows[1][-1] == "0.5260 USD (r-1)"
    assert all("(r-1)" not in row[-1] for row in rows if "g6.xlarge" in row[0])


def test_the_table_for_programs_has_the_same_figures(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two g4dn.xlarge at 0.526; an epoch of 30 minutes."""
    run = RunFacts("r-1", Path(), "c", run_document())
    monkeypatch.setattr(price, "epochs", lambda: {("nvidia-t4", 2): (run, 1800.0)})
    with json_output(True):
        price.price(PriceOptions(gpus=2, gpu=("t4",), hours=10))
    found = json.loads(capsys.readouterr().out)
    rows = found["offers"]
    assert [row["usd_per_hour"] for row in rows] == sorted(row["usd_per_hour"] for row in rows)
    (row,) = [r for r in rows if (r["machine"], r["region"]) == ("g4dn.xlarge", "us-east-1")]
    assert row == {
        "cloud": "aws", "machine": "g4dn.xlarge", "machines": 2, "gpu": "nvidia-t4",
        "region": "us-east-1", "usd_per_hour": 1.052, "high_per_hour": 1.052,
        "usd_per_gpu_hour": 0.526, "usd": 10.52, "epoch": 0.526, "run_id": "r-1",
        "source": "AWS price list", "day": "2026-07-20",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Tesla T4", "nvidia-t4"),
        ("Tesla V100-SXM2-16GB", "nvidia-v100"),
        ("NVIDIA A10G", "nvidia-a10g"),
        ("NVIDIA A100-SXM4-40GB", "nvidia-a100"),
        ("NVIDIA A100-SXM4-80GB", "nvidia-a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
        ("NVIDIA GeForce RTX 3090", ""),
    ],
)
def test_the_drivers_names_of_gpus_are_known(name: str, kind: str) -> None:
    assert price.kind_of(name) == kind


def test_the_stacks_have_the_same_machines() -> None:
    assert [row[0] for row in AWS] == [*aws.TYPES] and GOOGLE is gcp.WITH_GPUS
    for machine in price.machines_of_clouds():
        if machine.is_n1:
            assert machine.vcpus <= gcp.GPU_LIMITS[machine.cloud_gpu][machine.gpus]
            assert machine.name in gcp.N1
