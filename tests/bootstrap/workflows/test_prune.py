"""`fab prune` removes old runs, but none that is needed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, Inventory, parse_hosts
from bootstrap.lifecycle import reach
from bootstrap.ssh.connect import Sessions
from bootstrap.workflows import prune
from bootstrap.workflows.prune import old_runs
from railhead.documents.runs.run_record import RunRecord

IDS = [f"2026112{day}-101500-00{day}f" for day in range(1, 6)]

CASES = {
    "the newest stay": (IDS, 2, (), IDS[:3]),
    "all": (IDS, 0, (), IDS),
    "fewer than are kept": (IDS, 9, (), []),
    "exactly as many": (IDS, 5, (), []),
    "in any order": (IDS[::-1], 4, (), IDS[:1]),
    "a needed one stays": (IDS, 2, (IDS[1],), [IDS[0], IDS[2]]),
    "other names stay": (["health", "..", "-rf", "a b", *IDS], 4, (), IDS[:1]),
}


@pytest.mark.parametrize("names, keep, needed, removed", CASES.values(), ids=CASES)
def test_only_old_runs_that_nobody_needs_are_removed(
    names: list[str], keep: int, needed: tuple[str, ...], removed: list[str]
) -> None:
    assert old_runs(names, keep, needed) == removed


class Chief:
    """Stands for the session of a host with all runs; `busy` is going on, or has its standby
    there."""

    def __init__(self, busy: str = "", *, standby: bool = False) -> None:
        self.host, self.busy, self.standby = Host("h1", "h1"), busy, standby
        self.typed: list[str] = []

    def facts(self) -> Any:
        processes = [] if self.standby else [SimpleNamespace(run_id=self.busy)]
        standbys = frozenset({self.busy} if self.standby else ())
        return SimpleNamespace(run_processes=processes, standbys=standbys)

    def shell(self, command: str) -> tuple[list[str], int]:
        self.typed.append(command)
        return IDS, 0


@pytest.mark.parametrize("standby", [False, True])
def test_a_run_in_progress_keeps_its_folder(standby: bool) -> None:
    chief: Any = Chief(busy=IDS[1], standby=standby)
    assert prune._prune_host(chief, 2, [IDS[2]]) == ([IDS[0]], [])
    assert chief.typed[1].endswith(f"rm -rf -- {IDS[0]}")


def test_a_run_that_is_not_all_here_keeps_its_folder(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of these runs was never fetched, of the second some files were too large."""
    inventory, chief = parse_hosts("h1"), Chief()
    for number, run_id in enumerate(IDS):
        local_state.save_run(RunRecord(run_id, inventory.name, str(tmp_path / run_id)))
        (tmp_path / run_id).mkdir()
        if number != 0:
            (tmp_path / run_id / "result.json").write_text("{}")
        if number < 2:
            (tmp_path / run_id / "left-on-host.txt").write_text("2.0 GB  work/model.bin\n")

    @contextmanager
    def opened(inventory: Inventory) -> Iterator[Sessions]:
        yield Sessions(inventory, {"h1": chief})  # type: ignore[dict-item]

    monkeypatch.setattr(reach, "sessions", opened)
    prune.prune(inventory, 1)
    assert chief.typed[1].endswith(f"rm -rf -- {IDS[2]} {IDS[3]}")
    kept = f"kept, because their results are not all here: {IDS[0]}, {IDS[1]}"
    assert kept in capsys.readouterr().out.splitlines()


class ShellChief(Chief):
    """A host whose commands run here, in `home`."""

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.home = home

    def shell(self, command: str) -> tuple[list[str], int]:
        argv, env = ["sh", "-c", command], {**os.environ, "HOME": str(self.home)}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
        return done.stdout.splitlines(), done.returncode


def test_results_that_only_the_chief_has_are_kept_whoever_typed_the_hosts(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--hosts a,b` and `--hosts b,a` are two clusters, and a colleague has no records at all."""
    unfetched, partly, fetched, by_bucket, of_worker, newest = runs = [*IDS, "20261126-101500-006f"]
    folder = tmp_path / "host/.railhead/runs"
    for run_id in runs:
        (folder / run_id).mkdir(parents=True)
        if run_id != of_worker:
            (folder / run_id / "state.json").write_text("{}")
    (folder / partly / "fetched").write_text('{"left": 2}')
    (folder / fetched / "fetched").write_text('{"left": 0}')
    local_state.save_run(RunRecord(by_bucket, "hosts-1", str(tmp_path / by_bucket)))
    (tmp_path / by_bucket).mkdir()
    (tmp_path / by_bucket / "result.json").write_text("{}")

    @contextmanager
    def opened(inventory: Inventory) -> Iterator[Sessions]:
        yield Sessions(inventory, {"h1": ShellChief(tmp_path / "host")})  # type: ignore[dict-item]

    monkeypatch.setattr(reach, "sessions", opened)
    prune.prune(parse_hosts("h1"), 1)
    assert sorted(path.name for path in folder.iterdir()) == [unfetched, partly, newest]
    assert f"{unfetched}, {partly}" in capsys.readouterr().out
