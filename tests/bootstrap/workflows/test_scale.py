"""`fab scale`: the gain of more hosts, and the size beyond which they do not pay."""

from __future__ import annotations

from pathlib import Path

import pytest
from standins.options import program, typed
from standins.pulumi_command import PulumiCommand
from standins.runs.run_documents import RUN, run_document
from standins.runs.trained_runs import INVENTORY, Runs, request

from bootstrap.errors import UsageError
from bootstrap.plan.cluster import Options
from bootstrap.report.facts import RunFacts
from bootstrap.report.scaling import (
    efficiency,
    pays_until,
    points_of,
    scaling_page,
    sentence,
    step_at_end,
)
from bootstrap.workflows.series import scale
from bootstrap.workflows.train import TrainOptions
from railhead.documents.carbon.energy import Carbon, Grid
from railhead.documents.cluster import ClusterPrice
from railhead.documents.options.runs import ScaleOptions, StartOptions
from railhead.documents.runs.records import Record
from railhead.documents.runs.result import Result
from railhead.money import host


@pytest.fixture
def hosts(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.chdir(tmp_path)
    return Runs(monkeypatch)


def sized(
    ranks: int, speed: float, price: float | None = None, *, epoch: float = 10.0, kwh: float = 0.0
) -> RunFacts:
    """A run of so many ranks with this throughput, seconds an epoch, and kWh of its hosts in an
    hour."""
    document = run_document(size=ranks, hosts=RUN.hosts * ranks)
    whole = ClusterPrice(price, "USD", "list", "2026") if price else None
    parts = host.read(whole, len(document.hosts))
    grid = Grid(400, 1.0, "X", 2025, "S")
    carbon = Carbon("m", kwh, 0.0, 3600.0 * ranks, ranks, grid) if kwh else None
    result = Result(state="succeeded", carbon=carbon)
    run = RunFacts(f"r{ranks}", Path(), "c", document, result=result, parts=parts)
    epochs = [
        Record("epoch", epoch=e, time=epoch * e, figures={"samples_per_s": speed})
        for e in (1, 2, 3)
    ]
    run.__dict__["records"] = epochs
    return run


def test_efficiency_and_where_more_stops_paying() -> None:
    points = points_of([sized(4, 250, 4.0), sized(1, 100, 1.0), sized(2, 190, 2.0)])
    assert [point.ranks for point in points] == [1, 2, 4]
    assert [round(efficiency(p, points[0]), 3) for p in points] == [1.0, 0.95, 0.625]
    assert points[2].epoch_seconds == 10.0
    assert str(points[2].epoch_cost) == "0.01 USD"  # 4 USD per hour
    last, gain = pays_until(points)
    assert last.ranks == 2 and gain == pytest.approx(0.3)
    assert sentence(points).startswith("More than 2 ranks do not pay: each added rank brings 30 %")
    html = scaling_page(points, Path(), "fab scale --counts 1,2,4")
    assert "63 %" in html or "62 %" in html
    assert "<svg" in html and "0.0111 USD" in html


def test_a_step_has_its_price_for_each_saved_minute_and_its_carbon() -> None:
    """Three sizes: 600, 360 and 300 s of an epoch at 1, 2 and 4 USD per hour: 0.1667, 0.2 and
    0.3333 USD; 60 s are saved at the last step, 240 s at the one before."""
    points = points_of([
        sized(1, 100, 1.0, epoch=600, kwh=1.0),
        sized(2, 170, 2.0, epoch=360, kwh=2.0),
        sized(4, 200, 4.0, epoch=300, kwh=4.0),
    ])  # fmt: skip
    assert step_at_end(points).text == (
        "From 2 to 4 ranks, an epoch takes 1 min less and costs 0.1333 USD more: 0.1333 USD for"
        " each saved minute; 53 gCO2e more."
    )
    html = scaling_page(points, Path(), "")
    for cell in ("0.0083 USD", "0.1333 USD", "67 gCO2e", "80 gCO2e", "130 gCO2e"):
        assert f"<td>{cell}</td>" in html or f">{cell}<" in html, cell
    assert "From 2 to 4 ranks, an epoch takes 1 min less" in html
    all_pay = points_of([sized(1, 100, 1.0, epoch=600), sized(2, 190, 2.0, epoch=310)])
    assert step_at_end(all_pay).text.startswith("From 1 to 2 ranks, an epoch takes 4 min 50 s less")


def test_a_step_that_saves_nothing_has_no_price_for_a_minute_and_an_unknown_price_none() -> None:
    slower = step_at_end(points_of([sized(1, 100, 1.0), sized(2, 90, 2.0, epoch=12)]))
    assert slower.text == "From 1 to 2 ranks, an epoch takes 2.0 s more and costs 0.0039 USD more."
    assert slower.per_minute is None
    unknown = step_at_end(points_of([sized(1, 100, 1.0), sized(2, 150, epoch=6)]))
    assert unknown.text == "From 1 to 2 ranks, an epoch takes 4.0 s less."
    cheaper = step_at_end(points_of([sized(1, 100, 2.0), sized(2, 150, 2.0, epoch=6)]))
    assert cheaper.text.endswith("takes 4.0 s less and costs 0.0022 USD less.")


def test_a_size_has_a_spread_and_few_measurements_are_named() -> None:
    large = sized(2, 190)
    for number, record in enumerate(large.records):
        record.figures["samples_per_s"] = 180.0 + 10 * number  # type: ignore[index]
    points = points_of([sized(1, 100), large])
    assert points[1].speeds == (180.0, 190.0, 200.0) and points[1].speed == 190.0
    html = scaling_page(points, Path(), "fab scale --counts 1,2")
    assert "180 to 200" in html and "fewer than 3" not in html
    assert "h1, h1: CPU" in html and "fab scale --counts 1,2" in html
    large.__dict__["records"] = large.records[:2]
    for cached in ("epochs", "speeds"):
        large.__dict__.pop(cached, None)
    html = scaling_page(points_of([sized(1, 100), large]), Path(), "")
    assert "2 ranks: fewer than 3 measurements" in html


def test_all_sizes_may_pay() -> None:
    assert sentence(points_of([sized(1, 100), sized(2, 190)])) == (
        "Each size up to 2 ranks pays: 190 samples/s, 95 % of linear."
    )


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(UsageError, match="at least two sizes"):
        points_of([sized(2, 100), sized(2, 90)])
    with pytest.raises(UsageError, match="has no throughput"):
        points_of([sized(1, 100), RunFacts("r", Path(), "c", run_document(size=2))])


@pytest.mark.parametrize("text", [None, "", "2", "a,b", "0,1", "1,-2", "1,2000"])
def test_counts_are_numbers_of_hosts(text: str | None) -> None:
    with pytest.raises(UsageError, match="--counts"):
        counts = typed(ScaleOptions, counts=text).counts
        scale.run_scale(lambda: INVENTORY, program(preset="digits"), counts, StartOptions(), Path())


def test_each_count_is_trained_on_the_first_hosts(
    hosts: Runs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Path("results").resolve()
    counts = typed(ScaleOptions, counts="2,1").counts
    monkeypatch.setattr(scale, "read_request", lambda _: request(0.5))
    page = scale.run_scale(lambda: INVENTORY, program(), counts, StartOptions(retries=2), results)
    assert "Scaling from 1 to 2 ranks" in page.read_text()
    assert "More than 1 rank does not pay: each added rank slows it down" in capsys.readouterr().out
    with pytest.raises(UsageError, match="--counts 3: there are 2 hosts"):
        scale.scale(INVENTORY, (1, 3), TrainOptions(request(0.5), Options(), results, detach=True))


def test_the_next_size_is_trained_on_a_machine_that_was_created_again(
    hosts: Runs, pulumi: PulumiCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hosts.second_created_again(monkeypatch, pulumi)
    results = Path("results").resolve()
    scale.scale(before, (1, 2), TrainOptions(request(0.5), Options(), results, detach=True))
    assert [*hosts.hosts.values()] == ["h1", "h1 h2"]
