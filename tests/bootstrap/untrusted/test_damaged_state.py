"""Damaged state files, here and on the chief: a clear error, and the hosts are still reachable."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import RUN, run_json

from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.lifecycle.consent import unfetched
from bootstrap.untrusted.run_files import read_result, read_run_document, read_state
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.runs.result import Culprit, Result
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.runs.state import Machines, RunState

HOSTS = parse_hosts("h1")
TEXTS = ["", "{", "[]", "null", "5", '"x"', "{}", "[" * 5000, '{"schema": 1}', "\x00" * 100]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_damaged_cluster_record_is_named_and_not_taken_for_a_missing_one(text: str) -> None:
    local_state.save_cluster(parse_hosts("h1,h2"))
    name = local_state.clusters()[0]
    record = local_state.cluster_folder(name) / "cluster.json"
    record.write_text(text)
    for _ in range(2):
        with pytest.raises(UsageError, match=f"of cluster {name} is damaged: {record}") as caught:
            local_state.last_cluster()
        assert "--hosts" in caught.value.hint
    assert record.read_text() == text


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"../../x", b"no such"])
def test_a_damaged_name_of_the_last_cluster_is_a_usage_error(home: Path, data: bytes) -> None:
    (home / ".railhead").mkdir()
    (home / ".railhead" / "last").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        local_state.last_cluster()
    assert "--hosts" in caught.value.hint


def test_a_damaged_record_of_the_demo_is_answered_with_how_to_make_it_anew(home: Path) -> None:
    record = local_state.cluster_folder(local_state.DEMO) / "cluster.json"
    record.parent.mkdir(parents=True)
    record.write_text("{")
    with pytest.raises(UsageError) as caught:
        local_state.load_cluster(local_state.DEMO)
    remove = caught.value.hint.partition(" && fab demo ")[0]
    assert shlex.split(remove) == ["rm", "-r", str(record)]


def test_a_record_of_a_run_that_may_not_be_read_is_not_taken_for_a_damaged_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local_state.save_run(RunRecord("r-1", "c", str(Path("/results/r-1"))))

    def forbidden(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patch, pytest.raises(PermissionError):
        patch.setattr(Path, "read_text", forbidden)
        local_state.recorded_run("r-1")
    assert local_state.recorded_run("r-1").results == "/results/r-1"


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def replace_by_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


@pytest.mark.parametrize("spoil", [replace_by_folder, replace_by_loop])
def test_a_state_file_that_cannot_be_read_is_a_usage_error(
    home: Path, spoil: Callable[[Path], None]
) -> None:
    local_state.save_cluster(parse_hosts("h1"))
    name = local_state.clusters()[0]
    spoil(local_state.cluster_folder(name) / "cluster.json")
    with pytest.raises(UsageError, match="is damaged: .*cluster.json"):
        local_state.load_cluster(name)
    spoil(home / ".railhead" / "last")
    with pytest.raises(UsageError, match="last cluster cannot be read") as caught:
        local_state.last_cluster()
    assert "--hosts" in caught.value.hint


@pytest.fixture
def record(home: Path) -> Path:
    """The record of the run r-1 on h1."""
    local_state.save_run(RunRecord("r-1", HOSTS.name, str(home / "elsewhere")))
    return local_state.runs(HOSTS.name)[0]


@pytest.mark.parametrize("first", [replace_by_folder, replace_by_loop, Path.touch])
@pytest.mark.parametrize("second", [replace_by_folder, replace_by_loop])
def test_a_second_damaged_record_is_set_aside_beside_the_first(
    home: Path, record: Path, first: Callable[[Path], None], second: Callable[[Path], None]
) -> None:
    kept = record.with_name("r-1.json.damaged")
    kept.touch()
    first(kept)
    for _ in range(2):
        second(record)
        assert local_state.find_run(HOSTS, None) == ("r-1", home / "results" / "r-1")
    names = {path.name for path in record.parent.iterdir()}
    assert names == {"r-1.json"} | {f"r-1.json.damaged{n}" for n in ("", "1", "2")}


@pytest.mark.parametrize(
    "text", [*TEXTS, '{"results": 5}', '{"results": "a\\u0000b"}'], ids=range(len(TEXTS) + 2)
)
def test_a_damaged_record_of_a_run_keeps_nobody_from_the_run(
    home: Path, record: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    record.write_text(text)
    assert unfetched(HOSTS) == ["r-1"]
    assert "the record of run r-1 was damaged" in capsys.readouterr().out
    assert local_state.find_run(HOSTS, None) == ("r-1", home / "results" / "r-1")
    assert capsys.readouterr().out == ""
    assert record.with_name("r-1.json.damaged").read_text() == text


def test_files_that_are_not_records_of_runs_are_ignored(record: Path) -> None:
    record.with_name("..x y.json").write_text("{}")
    assert local_state.runs(HOSTS.name) == [record]


NUMBERS: list[object] = [10**400, -(10**400), 2**63, 10**12, float("inf"), float("nan"), 1e300]
STATE = {"state": "running", "pid": 77, "heartbeat": 1.5}
BAD_STATES: list[dict[str, object]] = [
    {"pid": 0}, {"pid": 1}, {"pid": -5}, {"pid": "77"}, {"pid": True}, {"state": None},
    {"state": "lost"}, {"heartbeat": "x"}, {"heartbeat": None}, {"machines": []},
    {"begun": {"\x1b[2J": 5}},
    *({key: number} for key in ("pid", "heartbeat") for number in NUMBERS),
]  # fmt: skip


def test_a_whole_state_is_read() -> None:
    assert read_state(json.dumps(STATE)) == RunState(state="running", pid=77, heartbeat=1.5)
    machines = {"phase": "keeping", "results": "fetched"}
    state = read_state(json.dumps({**STATE, "pid": 2, "machines": machines}))
    assert (state.pid, state.machines) == (2, Machines("keeping", "fetched"))


@pytest.mark.parametrize("change", BAD_STATES, ids=lambda change: str(change)[:60])
def test_a_state_with_a_wrong_value_is_refused(change: dict[str, object]) -> None:
    (key,) = change
    with pytest.raises(Hostile, match=f"sent a state.json that is not valid: '?{key}") as caught:
        read_state(json.dumps({**STATE, **change}))
    assert caught.value.message.isprintable()


RESULT = {"state": "failed", "exit_code": 1, "culprit": None, "evaluation": None}
BAD_RESULTS: list[dict[str, object]] = [
    {"state": 1}, {"state": "lost"}, {"exit_code": "1"}, {"evaluation": 3},
    {"culprit": []}, {"culprit": {}},
    {"culprit": {"rank": "x", "host": None, "lines": []}},
    {"culprit": {"rank": None, "host": None, "lines": [{"a": 1}]}},
    {"culprit": {"rank": 0, "host": None, "lines": [], "signal": "\x1b[2J"}},
    {"seconds": "1"}, {"swept": {"h1": 5}}, {"swept": {"h1": {"ended": 1}}},
     {"why": 5}, {"ended": "yesterday"}, {"ended": "2026-11-22T10:22:43"},
    *({key: number} for key in ("exit_code", "seconds") for number in NUMBERS),
    {"culprit": {"rank": 0, "host": None, "lines": "x"}},
]  # fmt: skip


def test_a_whole_result_is_read() -> None:
    assert read_result(json.dumps(RESULT)) == Result(state="failed", exit_code=1)


@pytest.mark.parametrize("number", [10**400, 2**63, float("inf"), float("nan")])
def test_a_number_without_end_that_may_be_missing_is_missing(number: float) -> None:
    culprit: dict[str, object] = {"rank": number, "host": None, "lines": []}
    result = read_result(json.dumps({**RESULT, "size": number, "culprit": culprit}))
    assert (result.size, result.culprit) == (None, Culprit(None, None, ()))


@pytest.mark.parametrize("change", BAD_RESULTS, ids=lambda change: str(change)[:60])
def test_a_result_with_a_wrong_value_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(Hostile, match="sent a result.json that is not valid: "):
        read_result(json.dumps({**RESULT, **change}))


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_what_is_not_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(Hostile, match="sent a result.json that is not valid"):
        read_result(text)
    with pytest.raises(Hostile, match="sent a state.json that is not valid"):
        read_state(text)
    with pytest.raises(Hostile, match="sent a run.json that is not valid"):
        read_run_document(text)


BAD_RUNS: list[dict[str, Any]] = [
    *({"stop": {"argv": [None], "keep_minutes": n}} for n in ("5", -1, 10**7, 10**400, None)),
    *({"hosts": [change]} for change in (
        {"slots": 0}, {"slots": 10**400}, {"slots": "1"}, {"name": "../h"}, {"name": "\x1b[2J"},
    )),
    *({"stop": stop} for stop in (5, {}, {"keep_minutes": 5})),
    {"schema": 1}, {"schema": 3}, {"run_id": "../.."}, {"size": 0}, {"keras": 4}, {"env": {"A": 1}},
    {"program": {"kind": "other"}}, {"roles": [{"type": "evaluator", "index": 0}]},
]  # fmt: skip


@pytest.mark.parametrize("change", BAD_RUNS, ids=lambda change: str(change)[:60])
def test_a_run_document_with_a_wrong_value_is_refused(change: dict[str, object]) -> None:
    assert read_run_document(json.dumps(run_json())) == RUN
    with pytest.raises(Hostile, match="sent a run.json that is not valid: "):
        read_run_document(json.dumps(run_json(**change)))
