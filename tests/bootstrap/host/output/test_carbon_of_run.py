"""The carbon of a run in its result, from the records of its hosts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_document
from standins.runs.supervised_run import HEAD, Run, needs_mpirun, says, with_script

from bootstrap.host.output.rank_output import CARBON, RunOutput, WriteErrors
from railhead.documents.carbon.energy import Carbon, Grid, carbon_of
from railhead.documents.codec import decode, encode

HOST = run_document().hosts[0]
MACHINE = {"cpu": [6, 85, 7], "vcpus": 4, "load": 0.5, "memory_gib": 16.0, "gpus": 1}
GRID = {"g_per_kwh": 100, "pue": 1.1, "place": "X", "year": 2025, "source": "S"}


def record(since: float, seconds: float, joules: float, **more: Any) -> str:
    """What the helper of the first rank of a host prints."""
    gpu = {"gpu_counter": joules, "gpu_power": joules}
    measured = {"boot": "b", "since": since, "seconds": seconds, **MACHINE, **gpu, **more}
    return "@railhead " + json.dumps({"kind": "energy", **measured})


def test_the_last_measurement_of_each_host_counts(home: Path) -> None:
    first = says(0, record(1e9, 60, 3.6e6, boot="b0"))
    later = says(0, "in a line" + record(1e9, 120, 7.2e6, boot="b0"))
    other = says(1, record(1e9, 120, 3.6e6, boot="b1"))
    wrong = says(1, record(1e9, -1, 9e9, boot="b1"))
    run = Run(home, "; ".join((first, later, other, wrong)), grid=GRID)
    carbon = run.result()["carbon"]
    assert carbon["gpu_kwh"] == pytest.approx(3 * 1.1) and carbon["seconds"] == 240
    assert carbon["grid"] == GRID and carbon["method"].startswith("railhead ")
    assert 0 < carbon["other_kwh"] < 0.01
    assert run.log("rank-0") == "in a line\n"
    assert not (run.folder / "results/metrics.jsonl").read_text(), "it is in the result alone"


def test_a_run_without_a_measurement_has_no_carbon(home: Path) -> None:
    assert "carbon" not in Run(home, says(0, "ok"), grid=GRID).result()


def test_a_measurement_is_no_progress(tmp_path: Path) -> None:
    for name in ("results", "logs"):
        (tmp_path / name).mkdir()
    output = RunOutput(str(tmp_path), run_document(), (), WriteErrors())
    output.progress.look(0.0)
    output.progress.look(1.0)
    output.add_line(0, record(1e9, 60, 1.0).encode())
    assert output.energy and output.progress.printed == 0.0
    output.add_line(0, b"a line")
    assert output.progress.printed == 1.0


def test_the_carbon_so_far_is_a_record_when_the_first_host_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not at once, of all hosts, and without gCO2e where the grid is not known."""
    for name in ("results", "logs"):
        (tmp_path / name).mkdir()
    document = run_document(hosts=tuple(replace(HOST, name=name) for name in ("a", "b")), size=2)
    first, second = (host.name for host in document.hosts[:2])
    output = RunOutput(str(tmp_path), document, (), WriteErrors())
    records = []
    monkeypatch.setattr(output.metrics, "add", lambda text: records.append(json.loads(text)))
    rank_of = {output.host_of(rank): rank for rank in reversed(range(document.size))}
    output.add_line(rank_of[first], record(2, 1, 3.6e6, boot=first).encode())
    assert records == []
    output.carbon_added -= CARBON
    for name, since, joules in ((second, 1, 3.6e6), (first, 2, 3.6e6), (first, 2, 7.2e6)):
        output.add_line(rank_of[name], record(since, 60, joules, boot=name).encode())
    assert [(record["kind"], record["host"], record["gco2e"]) for record in records] == [
        ("carbon", first, None)
    ]
    output.carbon_added -= CARBON
    output.add_line(rank_of[first], record(2, 60, 7.2e6, boot=first).encode())
    assert [round(record["kwh"]) for record in records] == [2, 3]


MOST = {"vcpus": 100_000, "load": 1, "cpu": [6, 85, 4], "memory_gib": 1e5, "gpus": 1000}


def test_no_measurement_makes_a_result_unreadable(tmp_path: Path) -> None:
    """The largest values that a host may send, again and again, on the dirtiest grid."""
    for name in ("results", "logs"):
        (tmp_path / name).mkdir()
    output = RunOutput(str(tmp_path), run_document(), (), WriteErrors())
    wrong = (record(1, 1e9, 1), record(2, 1, 1e13), record(3, 1, 1, memory_gib=1e6))
    for line in (*wrong, *(record(1e9 + n, 1e8, 1e12, **MOST) for n in range(1200))):
        output.add_line(0, line.encode())
    assert [since for _, since in output.energy] == [1e9 + n for n in range(1000)]
    assert '"energy"' not in (tmp_path / "results/metrics.jsonl").read_text()
    output.add_line(0, record(1e9, 9, 1).encode())
    assert {measured.since for measured in output.energy.values() if measured.seconds == 9} == {1e9}
    carbon = carbon_of(output.energy.values(), Grid(10_000, 10, "X", 2025, "S"))
    assert carbon and decode(Carbon, json.loads(json.dumps(encode(carbon)))) == carbon


@needs_mpirun
def test_real_ranks_measure_their_machine_once(home: Path) -> None:
    """Two ranks of one host: only the first one has a helper that measures."""
    hosts = [{"name": "a", "slots": 2}]
    run = with_script(Run(home, "", hosts=hosts, grid=GRID), f"{HEAD}time.sleep(1.5)\n")
    result = run.result()
    assert result["state"] == "succeeded" and not result["swept"]["a"].get("ended")
    carbon = result["carbon"]
    assert 1.5 <= carbon["seconds"] < result["seconds"] and carbon["other_kwh"] > 0
