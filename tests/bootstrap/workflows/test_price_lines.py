"""`fab plan` has the price of the hosts, and of an epoch once a run has trained there."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.workflows.plan import price_lines
from railhead.documents.cluster import DocumentDeadline
from railhead.documents.codec import encode
from railhead.documents.runs.run_record import RunRecord
from railhead.money import host
from railhead.money.host import HostSpec
from railhead.money.table import shipped

PARTS = host.parts_of(HostSpec("aws", "us-east-1", "g4dn.xlarge"), shipped("aws"))
ONE = Inventory(
    "gpu",
    (Host("h1", "a"),),
    cloud="aws",
    region="us-east-1",
    price=host.documented(PARTS, 1),
    deadlines=(DocumentDeadline("scheduled-stop", "s", "h1", 4 * 3600),),
)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained(run_id: str, seconds: float, **changes: Any) -> None:
    """A run of three epochs on one host."""
    folder = Path("results").absolute() / run_id
    folder.mkdir(parents=True)
    prices = host.documented(PARTS, 1).parts
    document = run_document(run_id=run_id, cluster="gpu", prices=prices, **changes)
    epochs = [
        {"kind": "epoch", "rank": 0, "host": "h1", "time": 1e9 + n * seconds, "epoch": n}
        for n in (1, 2, 3)
    ]
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in epochs))
    local_state.save_run(RunRecord(run_id, "gpu", str(folder), document=encode(document)))


def test_the_price_is_per_hour_and_until_the_deadline() -> None:
    line, _ = price_lines(ONE)
    assert line.startswith(
        "price: 0.54 USD per hour (1 x machine 0.526, disk 0.011, address 0.005;"
    )
    assert line.endswith("at most 2.17 USD until the deadline of 4 h")


def test_what_has_a_price_by_its_use_is_named_beside_it() -> None:
    assert price_lines(ONE)[1] == "not included: traffic out at 0 to 0.09 USD per GB"
    assert price_lines(replace(ONE, bucket="s3://b"))[1] == (
        "not included: a bucket with its old versions at 0.023 USD per GB-month, "
        "traffic out at 0 to 0.09 USD per GB"
    )
    elsewhere = replace(ONE, bucket="s3://b", region="eu-west-3")
    assert price_lines(elsewhere)[1] == (
        "not included: a bucket with its old versions (unknown), traffic out (unknown)"
    )


def test_an_epoch_has_the_price_of_the_newest_run_on_as_many_hosts() -> None:
    trained("20261101-000000-aaaa", 7200)
    trained("20261102-000000-bbbb", 3600)
    trained("20261103-000000-cccc", 60, hosts=run_document().hosts * 2)
    assert price_lines(ONE)[2:] == ["price of an epoch, as in run 20261102-000000-bbbb: 0.5420 USD"]


def test_hosts_without_a_price_have_no_line() -> None:
    assert price_lines(replace(ONE, price=None)) == []
