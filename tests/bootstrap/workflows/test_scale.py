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
from bootstrap.report.scaling import efficiency, pays_until, points_of, scaling_page, sentence
from bootstrap.workflows.series import scale
from railhead.documents.cluster import ClusterPrice
from railhead.documents.options.runs import ScaleOptions, StartOptions
from railhead.documents.runs.records import Record
from railhead.documents.runs.result import Result
from railhead.money import host


@pytest.fixture
def hosts(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runs:
    monkeypatch.chdir(tmp_path)
    return Runs(monkeypatch)


def sized(ranks: int, speed: float, price: float | None = None) -> RunFacts:
    """A run of so many ranks with this throughput, and 10 seconds an epoch."""
    document = run_document(size=ranks, hosts=RUN.hosts * ranks)
    whole = ClusterPrice(price, "USD", "list", "2026") if price else None
    parts = host.read(whole, len(document.hosts))
    run = RunFacts(
        f"r{ranks}", Path(), "c", document, result=Result(state="succeeded"), parts=parts
    )
    epochs = [
        Record("epoch", epoch=e, time=10.0 * e, figures={"samples_per_s": speed}) for e in (1, 2, 3)
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
        scale.scale(INVENTORY, scale.Scale(request(0.5), Options(), (1, 3), results))


def test_the_next_size_is_trained_on_a_machine_that_was_created_again(
    hosts: Runs, pulumi: PulumiCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = hosts.second_created_again(monkeypatch, pulumi)
    scale.scale(before, scale.Scale(request(0.5), Options(), (1, 2), Path("results").resolve()))
    assert [*hosts.hosts.values()] == ["h1", "h1 h2"]
