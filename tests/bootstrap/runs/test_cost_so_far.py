"""The line of a run has what its hosts have cost."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from standins.runs.run_documents import run_document

from bootstrap.runs.metrics.cost import CostSoFar, carbon_command, carbon_lines
from bootstrap.runs.run import Run
from bootstrap.ssh.local_session import local_session
from railhead.documents.runs.run import RunDocument
from railhead.money import host
from railhead.money.host import HostSpec
from railhead.money.table import shipped

RUN = run_document()
SINCE = "2026-11-21T11:00:00Z"


def priced(region: str = "us-east-1", hosts: int = 2) -> RunDocument:
    parts = host.parts_of(HostSpec("aws", region, "g4dn.xlarge"), shipped("aws"))
    prices = host.documented(parts, hosts).parts
    return replace(RUN, created=SINCE, prices=prices, hosts=(RUN.hosts[0],) * hosts)


def at(seconds: float) -> float:
    return datetime.fromisoformat(SINCE.replace("Z", "+00:00")).timestamp() + seconds


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (7200, ", 2.17 USD"),  # 2 x 2 x (0.526 + 0.010959 + 0.005)
        (0, ""),
        (-60, ""),  # the host's clock is behind
        (1, ", less than 0.01 USD"),
    ],
)
def test_the_cost_grows_with_the_time_of_the_records(seconds: float, text: str) -> None:
    assert CostSoFar(priced()).at(at(seconds)) == text


def test_an_unknown_price_is_named_in_the_line() -> None:
    text = CostSoFar(priced("eu-west-3")).at(at(7200))
    assert text.startswith(", at least 0.02 USD; unknown: price of g4dn.xlarge in eu-west-3")
    prices = tuple(part for part in priced("eu-west-3").prices if part.usd is None)
    alone = CostSoFar(replace(priced(), prices=prices)).at(at(7200))
    assert "unknown: price of g4dn.xlarge in eu-west-3" in alone


def test_hosts_without_a_price_have_no_cost() -> None:
    assert CostSoFar(replace(priced(), prices=())).at(at(7200)) == ""
    assert CostSoFar(priced()).at(None) == ""


def test_status_has_the_energy_of_the_last_record_of_it(home: Path) -> None:
    run = Run("r1", home / "results")
    records = home / ".railhead/runs/r1/results/metrics.jsonl"
    carbon = [{"kind": "carbon", "kwh": kwh, "gco2e": None} for kwh in (0.25, 0.5)]
    others = [{"kind": "progress", "text": '{"kind": "carbon", "kwh": 9}'}]
    with local_session() as chief:

        def shown() -> list[str]:
            return carbon_lines(chief.shell(carbon_command(run))[0])

        assert shown() == [], "the run is gone"
        records.parent.mkdir(parents=True)
        assert shown() == [], "nothing is measured yet"
        records.write_text("".join(f"{json.dumps(one)}\n" for one in (*others, *carbon, *others)))
        assert shown() == ["energy so far: 0.5 kWh"]
