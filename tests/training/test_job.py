"""A rank's job from the run document and its environment, and its share of the machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from standins.runs.run_documents import run_json

from railhead.documents.codec import decode
from railhead.documents.runs.run import RunDocument
from training import job
from training.config import ConfigError
from training.data.uri import DataSource


def run_document(**changes: Any) -> dict[str, Any]:
    """A run over two local hosts, with the parts that a training reads."""
    hosts = [
        {"name": "h1", "peer_address": "127.77.0.1", "slots": 2},
        {"name": "h2", "peer_address": "127.77.0.2", "slots": 1},
    ]
    program = {"kind": "training", "settings": {"epochs": 3}}
    return run_json(**{"program": program, "hosts": hosts, "size": 3, **changes})


def environment(folder: Path, document: dict[str, Any], **more: str) -> dict[str, str]:
    path = folder / "run.json"
    path.write_text(json.dumps(document))
    return {"RAILHEAD_RUN_FILE": str(path), "RAILHEAD_RESULTS": str(folder / "results"), **more}


def test_a_job_comes_from_the_run_document(tmp_path: Path) -> None:
    parsed = job.from_run(
        environment(
            tmp_path, run_document(), RAILHEAD_HOST="h1", RAILHEAD_LOCAL_RANK="1", RAILHEAD_SIZE="3"
        )
    )
    assert (parsed.strategy, parsed.config.epochs) == ("horovod", 3)
    assert (parsed.local_rank, parsed.processes) == (1, 3)
    assert parsed.results == tmp_path / "results"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"strategy": "ring"}, "unknown strategy 'ring'"),
        (
            {"program": {"kind": "script", "path": "a.py"}},
            "unknown program.kind 'script'. Choices: training",
        ),
        ({"program": {"kind": "training", "settings": {"x": 1}}}, "unknown setting 'x'"),
    ],
)
def test_a_wrong_run_document_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        job.from_run(environment(tmp_path, run_document(**changes)))


HOST = {"name": "a", "peer_address": "10.0.0.1", "slots": 4}
OTHER = {"name": "b", "peer_address": "10.0.0.2", "slots": 4}


@pytest.mark.parametrize(
    ("changes", "host", "ranks"),
    [
        ({}, "h1", 3),  # loopback hosts are one machine
        ({}, "h2", 3),
        ({"hosts": [HOST, OTHER]}, "a", 4),
        ({}, "", 1),
    ],
)
def test_ranks_on_one_machine_are_counted(changes: dict[str, Any], host: str, ranks: int) -> None:
    document = decode(RunDocument, run_document(**changes))
    assert job.ranks_on_this_machine(document, host) == ranks


def test_cores_are_shared_evenly_and_nobody_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)), raising=False)
    assert [job.share_of_cores(ranks) for ranks in (1, 2, 3, 4, 9)] == [4, 2, 1, 1, 1]


def test_threads_are_what_the_settings_report() -> None:
    assert job.from_command_line(None, None, ["threads=7"], {}).threads == 7


def test_data_and_checkpoints_come_from_the_environment(tmp_path: Path) -> None:
    more = {"RAILHEAD_DATA_TRAIN": "/data/a", "RAILHEAD_CHECKPOINT_DIR": "/kept"}
    parsed = job.from_run(environment(tmp_path, run_document(), **more))
    assert (parsed.data, parsed.checkpoints) == ({"train": DataSource("/data/a")}, Path("/kept"))
    assert parsed.resume == "auto" and not parsed.alone
    parsed = job.from_run(environment(tmp_path, run_document()))
    assert (parsed.data, parsed.checkpoints) == ({}, tmp_path / "results/checkpoints")


def test_data_on_the_command_line_wins() -> None:
    more = {"RAILHEAD_DATA_TRAIN": "/data/a", "RAILHEAD_DATA_TEST": "/data/t"}
    parsed = job.from_command_line("mnist", None, [], more, data=["train=b", "validation=c=d"])
    expected = {"train": "b", "validation": "c=d", "test": "/data/t"}
    assert parsed.data == {name: DataSource(folder) for name, folder in expected.items()}
    parsed = job.from_command_line("mnist", None, [], more, data=["train=s3://bkt/x,stream"])
    assert parsed.data["train"] == DataSource("s3://bkt/x", "stream")
    assert parsed.resume == "refuse" and parsed.alone


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("train", r"data is given as NAME=URI\[,file\|stream\], not 'train'"),
        ("train=", r"data is given as NAME=URI\[,file\|stream\], not 'train='"),
        ("trian=x", "unknown data name 'trian'. Did you mean train?"),
        ("train=ftp://b/x", "unknown scheme. Choices: a folder, s3://"),
        ("train=s3://,stream", "write s3://BUCKET"),
    ],
)
def test_wrong_data_is_refused(value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        job.from_command_line(None, None, [], {}, data=[value])
