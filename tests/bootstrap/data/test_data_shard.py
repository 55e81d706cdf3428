"""`fab data shard`: what it runs on this machine, and what becomes of a failure."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from standins.options import program

from bootstrap.errors import RailheadError, UsageError
from bootstrap.provision.local_environment import RUNTIME, environment_folder
from bootstrap.workflows import data as workflow
from railhead.documents.options.runs import IndexOptions, ShardOptions
from training.data.__main__ import parser

PROGRAM = """#!{python}
import json, os, sys
seen = dict(argv=sys.argv[1:], folder=os.getcwd(), run=os.environ.get("RAILHEAD_RUN_FILE"))
seen["keras"] = os.environ.get("KERAS_HOME")
open({seen!r}, "w").write(json.dumps(seen))
print("DEST: 5 records")
print("a line of a library\\nthe reason", file=sys.stderr)
sys.exit({code})
"""


def runtime(tmp_path: Path, code: int = 0) -> Path:
    """A program in the place of the runtime's Python; returns the file that it writes."""
    python, seen = environment_folder(RUNTIME) / "bin/python", tmp_path / "seen.json"
    python.parent.mkdir(parents=True)
    python.write_text(PROGRAM.format(python=sys.executable, seen=str(seen), code=code))
    python.chmod(0o755)
    return seen


def test_the_runtime_here_shards_with_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my data").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RAILHEAD_RUN_FILE", "of another run")
    monkeypatch.delenv("KERAS_HOME", raising=False)
    seen = runtime(tmp_path)
    workflow.shard(ShardOptions("my data", "a shard", shards=8), program(preset="mnist"))
    assert "next: fab train --data 'train=a shard' ..." in capsys.readouterr().out
    workflow.shard(
        ShardOptions("my data", "s3://b/p", "test", 8),
        program(preset="mnist", settings=("seed=3", "label=y")),
    )
    call = json.loads(seen.read_text())
    assert call["argv"][:2] == ["-m", "training.data"] and call["run"] is None
    assert call["keras"] == str(Path.home() / ".railhead/keras")
    assert (Path(call["folder"]) / "training/data/__main__.py").is_file()
    options = parser().parse_args(call["argv"][2:])
    assert options.source.uri == str(tmp_path / "my data")
    assert (options.destination, options.split, options.shards) == ("s3://b/p", "test", 8)
    assert (options.preset, options.set) == ("mnist", ["seed=3", "label=y"])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["DEST: 5 records", "next: fab train --data test=s3://b/p ..."]


def test_the_runtime_here_indexes_files_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "theirs").mkdir()
    monkeypatch.chdir(tmp_path)
    seen = runtime(tmp_path)
    options = program(preset="images", settings=("label_feature=y",))
    workflow.index(IndexOptions("theirs", "ours", "test"), options)
    call = parser().parse_args(json.loads(seen.read_text())["argv"][2:])
    assert (call.source.uri, call.to) == (f"{tmp_path}/theirs", f"{tmp_path}/ours")
    assert (call.split, call.preset, call.set) == ("test", "images", ["label_feature=y"])
    workflow.index(IndexOptions("s3://theirs/x"), program())
    call = parser().parse_args(json.loads(seen.read_text())["argv"][2:])
    assert (call.source.uri, call.to, call.split) == ("s3://theirs/x", None, "train")
    following = [line for line in capsys.readouterr().out.splitlines() if "next" in line]
    assert following == [
        "next: fab train --data test=ours ...",
        "next: fab train --data train=s3://theirs/x ...",
    ]


@pytest.mark.parametrize(("code", "error"), [(1, RailheadError), (2, UsageError)])
def test_a_failure_has_the_reason_and_the_exit_code(
    tmp_path: Path, code: int, error: type[RailheadError]
) -> None:
    runtime(tmp_path, code)
    with pytest.raises(RailheadError, match="no shards were written: the reason$") as raised:
        workflow.shard(ShardOptions(str(tmp_path), "new"), program())
    assert type(raised.value) is error


def test_nothing_is_created_for_a_source_that_does_not_exist() -> None:
    with pytest.raises(UsageError, match="there is no file or folder none here"):
        workflow.shard(ShardOptions("none", "new"), program())
    assert not environment_folder(RUNTIME).exists()
