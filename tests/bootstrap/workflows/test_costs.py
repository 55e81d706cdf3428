"""`fab costs`, from the ledgers and the runs of this computer."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.clouds import base
from bootstrap.clouds.base import InstanceState, SpotOffer
from bootstrap.console.output import json_output
from bootstrap.costs.ledger import BilledMachine, Ledger, Start
from bootstrap.errors import RailheadError, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.clouds import CLOUDS
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.lifecycle import power
from bootstrap.lifecycle.power import ClusterStatus
from bootstrap.report.listing import RunRow, known_runs
from bootstrap.workflows.machines import costs
from railhead.documents.codec import encode
from railhead.documents.options.runs import CostsOptions
from railhead.documents.runs.run_record import RunRecord
from railhead.money import host
from railhead.money.amount import Amount
from railhead.money.bill import Price, Step
from railhead.money.host import HostSpec
from railhead.money.table import shipped

H = 3600.0
NOW = 1_795_000_000.0
PARTS = host.documented(
    host.parts_of(HostSpec("aws", "us-east-1", "g4dn.xlarge"), shipped("aws")), 1
).parts


def machine(name: str, since: float, until: float | None, **changes: Any) -> BilledMachine:
    """Times in hours before now."""
    end = None if until is None else NOW - until * H
    start = Start(NOW - since * H, NOW - since * H, end)
    return replace(BilledMachine(name, start.at, end, (start,), PARTS), **changes)


def keep(
    own_id: str, stack: str, *machines: BilledMachine, owner: str = "ann", cloud: str = "aws"
) -> None:
    each = {f"{own_id}-{m.name}": m for m in machines}
    one = Ledger(f"cluster-{stack}", stack, cloud, owner, each, "us-east-1")
    atomic_write(local_state.home() / f"costs/{own_id}.json", json.dumps(encode(one)))


def run(run_id: str, cluster: str, since: float, until: float, name: str = "") -> None:
    """A run on the host h1 of a cluster, fetched; times in hours before now."""
    folder = Path("results").absolute() / run_id
    folder.mkdir(parents=True)
    times = [
        f"{datetime.fromtimestamp(NOW - t * H, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
        for t in (since, until)
    ]
    document = run_document(
        run_id=run_id, cluster=cluster, prices=PARTS, name=name, created=times[0]
    )
    result = {
        "run_id": run_id,
        "state": "succeeded",
        "started": times[0],
        "ended": times[1],
        "seconds": (since - until) * H,
    }
    (folder / "result.json").write_text(json.dumps(result))
    (folder / "run.json").write_text(json.dumps(encode(document)))
    local_state.save_run(RunRecord(run_id, cluster, str(folder), document=encode(document)))


def shown(capsys: pytest.CaptureFixture[str], **options: Any) -> list[list[str]]:
    """The lines of the table, as words."""
    costs.costs(CostsOptions(**options), NOW)
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def document(capsys: pytest.CaptureFixture[str], **options: Any) -> Any:
    with json_output(True):
        costs.costs(CostsOptions(**options), NOW)
    return json.loads(capsys.readouterr().out)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_stacks_have_their_cost_and_their_time_without_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """10 h of 0.541959 USD; a run for 8.6 of them."""
    keep("c-1", "gpu", machine("h1", 20, 10))
    keep("c-2", "lab", machine("h1", 4, 2), machine("h2", 4, 2))
    run("20261101-000000-aaaa", "cluster-gpu", 18.6, 10)
    head, gpu, lab, whole = shown(capsys)
    assert gpu == ["gpu", "5.42", "USD", "10.0", "14", "%"]
    assert lab == ["lab", "2.17", "USD", "4.0", "100", "%"]
    assert whole == ["all", "7.59", "USD", "14.0", "39", "%"] and head[0] == "stack"


def test_a_run_uses_only_the_machines_of_its_own_cluster(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those of another stack have the same names, and run at the same time."""
    keep("c-1", "gpu", machine("h1", 20, 10), machine("h2", 20, 10))
    keep("c-2", "lab", machine("h1", 20, 10))
    run("20261101-000000-aaaa", "cluster-gpu", 20, 10)
    rows = {row["name"]: row for row in document(capsys)["rows"]}
    assert (rows["gpu"]["idle"], rows["lab"]["idle"]) == (0.5, 1.0)


def test_people_pay_for_their_stacks(capsys: pytest.CaptureFixture[str]) -> None:
    keep("c-1", "gpu", machine("h1", 20, 10))
    keep("c-2", "lab", machine("h1", 4, 2), owner="bob")
    keep("c-3", "old", machine("h1", 6, 4))
    rows = {row["name"]: row for row in document(capsys, by="person")["rows"]}
    assert {name: row["machine_hours"] for name, row in rows.items()} == {"ann": 12, "bob": 2}
    assert rows["ann"]["usd"] == pytest.approx(12 * 0.541959, abs=1e-3)


def test_runs_have_the_price_of_their_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    run("20261101-000000-aaaa", "cluster-gpu", 18, 10, name="baseline")
    run("20261101-000000-bbbb", "cluster-gpu", 900, 890)
    rows = document(capsys, by="run")["rows"]
    assert [(row["name"], row["machine_hours"]) for row in rows] == [("baseline", 8)]
    assert rows[0]["usd"] == pytest.approx(8 * 0.541959, abs=1e-3)


def measured(run_id: str, grams: float) -> None:
    """Let a run have so many gCO2e."""
    file = Path("results") / run_id / "result.json"
    grid = {"g_per_kwh": 100, "pue": 1.0, "place": "X", "year": 2025, "source": "S"}
    carbon = {"method": "m", "gpu_kwh": grams / 100, "other_kwh": 0.0, "seconds": 1.0}
    carbon |= {"machines": 1, "grid": grid, "notes": []}
    file.write_text(json.dumps({**json.loads(file.read_text()), "carbon": carbon}))


def test_runs_and_stacks_have_the_carbon_of_their_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a run that began before the period, the half that is in it; a run without a measurement
    adds nothing, and a stack without any has none."""
    keep("c-1", "gpu", machine("h1", 30, 15))
    keep("c-3", "gpu", machine("h1", 15, 10))  # the stack was created again, with another id
    keep("c-2", "lab", machine("h1", 4, 2))
    for run_id, since, until, grams in (("a", 26, 22, 200), ("b", 20, 16, 312), ("c", 14, 12, 0)):
        run(run_id, "cluster-gpu", since, until)
        if grams:
            measured(run_id, grams)
    run("d", "cluster-lab", 4, 2)
    rows = {row["name"]: row["gco2e"] for row in document(capsys, since=1)["rows"]}
    assert rows == {"gpu": 410, "lab": None}
    by_run = {row["name"]: row["gco2e"] for row in document(capsys, by="run", since=1)["rows"]}
    assert by_run == {"a": 100, "b": 310, "c": None, "d": None}
    assert ["gpu", "410"] in [[line[0], line[-1]] for line in shown(capsys, since=1)]


def test_only_the_time_since_counts(capsys: pytest.CaptureFixture[str]) -> None:
    keep("c-1", "gpu", machine("h1", 48, 12))
    assert document(capsys, since=1.0)["rows"][0]["machine_hours"] == 12
    assert shown(capsys, since=0.25) == [
        ["nothing", "is", "recorded", "here", "of", "the", "last", "0.25", "days"]
    ]


def test_what_has_no_price_makes_the_sum_at_least(capsys: pytest.CaptureFixture[str]) -> None:
    keep("c-1", "gpu", machine("h1", 20, 10))
    keep("c-2", "lab", machine("h9", 4, 2, parts=()))
    found = document(capsys)
    assert found["total"]["unknown"] == ["price of h9"] and found["total"]["usd"] > 5.4


def test_machines_that_may_run_are_read_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where that fails, the time since they were seen costs nothing or its price."""
    keep("c-1", "gpu", machine("h1", 20, None))
    inventory = Inventory("cluster-gpu", (Host("h1", "a"),), cloud="aws", cluster_id="c-1")

    def refuses(inventory: Any) -> Any:
        raise RailheadError("AWS refuses describe_instances")

    monkeypatch.setattr(local_state, "load_cluster", lambda name: inventory)
    monkeypatch.setattr(power, "cluster_status", refuses)
    costs.costs(CostsOptions(), NOW)
    printed = capsys.readouterr().out
    assert "gpu: not read from its cloud: AWS refuses" in printed
    assert "0.23 to 10.84 USD" in printed  # 20 h of its disk and a minute, or of all


def test_a_stack_that_was_created_again_is_not_counted_twice(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one was destroyed outside fab: its machine may have ended 20 hours ago, or not."""
    keep("c-1", "gpu", machine("h1", 20, None))
    keep("c-2", "gpu", machine("h1", 10, None))
    hosts = (Host("h1", "a", id="c-2-h1"),)
    now = Inventory("cluster-gpu", hosts, cloud="aws", cluster_id="c-2", stack="gpu")
    running = {"h1": InstanceState("running", None, "EC2", "", started=NOW - 10 * H)}
    monkeypatch.setattr(local_state, "load_cluster", lambda name: now)
    monkeypatch.setattr(power, "cluster_status", lambda inventory: ClusterStatus(now, running, ""))
    (row,) = document(capsys)["rows"]
    assert row["machine_hours"] == 30
    assert row["usd"] == pytest.approx(10 * 0.541959 + 0.23, abs=0.01)
    assert row["high"] == pytest.approx(30 * 0.541959, abs=0.01)


def test_a_run_that_works_still_uses_its_machines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hosts are h1 and h2; it began 8 hours ago, and another one has ended. The runs are read
    once: buckets are listed for them."""
    keep("c-1", "gpu", machine("h1", 20, 0))
    run("20261101-000000-aaaa", "cluster-gpu", 18, 16)
    run("20261101-000000-bbbb", "cluster-gpu", 8, 0)
    (Path("results") / "20261101-000000-bbbb" / "result.json").unlink()
    read: list[str] = []

    def counted(sort: str) -> list[RunRow]:
        read.append(sort)
        return known_runs(sort)

    monkeypatch.setattr(costs, "known_runs", counted)
    assert document(capsys)["rows"][0]["idle"] == 0.5
    assert read == ["time"]


Requests = list[tuple[str, int]]  # which function of the registry, for how many days


@pytest.fixture
def bills(monkeypatch: pytest.MonkeyPatch) -> Requests:
    """AWS has billed c-1; Google refuses."""
    sent: Requests = []

    def load(name: str) -> Any:
        def billed(since: Any, until: Any, report: Any) -> dict[str, Amount]:
            sent.append((name.split(".")[-2], (until - since).days))
            report("that costs 0.01 USD")
            if sent[-1][0] == "gcp":
                raise RailheadError("Google refuses", hint="gcloud x")
            return {"c-1": Amount.of("5.61")}

        return billed

    monkeypatch.setattr(base, "load", load)
    return sent


def test_the_clouds_bill_is_beside_ours_and_the_difference_is_explained(
    capsys: pytest.CaptureFixture[str], bills: Requests
) -> None:
    """Google has no stack here, and gets no request."""
    keep("c-1", "gpu", machine("h1", 20, 10))
    keep("c-2", "lab", machine("h1", 4, 2))
    costs.costs(CostsOptions(bill=True), NOW)
    printed = capsys.readouterr().out
    assert "aws: that costs 0.01 USD" in printed and "5.61 USD" in printed
    assert costs.DIFFERENCE in printed and costs.NOT_BILLED in printed
    assert bills == [("aws", 30)]


def test_a_cloud_that_refuses_takes_no_figures_from_the_other(
    capsys: pytest.CaptureFixture[str], bills: Requests
) -> None:
    keep("c-1", "gpu", machine("h1", 20, 10))
    keep("c-2", "lab", machine("h1", 4, 2), cloud="gcp")
    costs.costs(CostsOptions(bill=True), NOW)
    printed = capsys.readouterr().out
    assert "gcp: no figures: Google refuses" in printed and "gcloud x" in printed
    assert "5.61 USD" in printed and [name for name, _ in bills] == ["aws", "gcp"]


def test_the_clouds_get_no_request_for_the_bill_of_runs(bills: Requests) -> None:
    run("20261101-000000-aaaa", "cluster-gpu", 18, 10)
    with pytest.raises(UsageError, match="not of runs"):
        costs.costs(CostsOptions(bill=True, by="run"), NOW)
    assert not bills


def test_each_bill_of_the_registry_is_there() -> None:
    assert {name for name, kind in CLOUDS.items() if kind.bill} == {"aws", "gcp"}
    for kind in CLOUDS.values():
        if kind.bill:
            assert list(inspect.signature(base.load(kind.bill)).parameters)[:3] == [
                "since",
                "until",
                "report",
            ]


def test_spot_machines_cost_the_price_of_each_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 h at 0.2 USD, not at the 0.526 that was noted; the other stack has no spot machine."""
    offer = SpotOffer("g4dn.xlarge", "us-east-1a")
    keep("c-1", "gpu", machine("h1", 20, 10, spot=offer))
    keep("c-2", "lab", machine("h1", 4, 2))
    called: list[Any] = []

    def read(region: str, offers: Any, since: datetime) -> dict[SpotOffer, list[Step]]:
        called.append((region, offers, since.timestamp()))
        price = Price("spot", Decimal("0.2"), Decimal("0.2"), "h", "", "")
        return {offer: [Step(since, price)]}

    monkeypatch.setattr(base, "load", lambda name: read)
    rows = {row["name"]: row for row in document(capsys)["rows"]}
    assert called == [("us-east-1", {offer}, NOW - 20 * H)]
    assert rows["gpu"]["usd"] == rows["gpu"]["high"] == pytest.approx(10 * 0.215959, abs=1e-3)
    assert rows["lab"]["usd"] == pytest.approx(2 * 0.541959, abs=1e-3)


def test_without_an_answer_spot_machines_cost_what_was_noted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(*_: object) -> None:
        raise RailheadError("AWS refuses describe_spot_price_history: UnauthorizedOperation")

    keep("c-1", "gpu", machine("h1", 20, 10, spot=SpotOffer("g4dn.xlarge", "us-east-1a")))
    monkeypatch.setattr(base, "load", lambda name: refuses)
    costs.costs(CostsOptions(), NOW)
    printed = capsys.readouterr().out
    assert "UnauthorizedOperation" in printed and "5.42 USD" in printed


def test_without_the_option_nothing_is_billed_for_the_question(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("c-1", "gpu", machine("h1", 20, 10))
    monkeypatch.setattr(base, "load", lambda name: pytest.fail(name))
    assert document(capsys)["rows"][0]["billed"] is None
