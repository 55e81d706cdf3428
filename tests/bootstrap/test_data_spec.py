"""`--data`: parsed from the right, refused with the rule before any host is contacted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from standins.options import program

from bootstrap.data.spec import DataSpec, parse_all, parse_each
from bootstrap.errors import UsageError


def parse(text: str, *, script: bool) -> DataSpec:
    """One option, as it is typed."""
    return parse_each(program(data=(text,)).data, script=script)[0]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data, with commas in some names."""
    for name in ("images", "a,b", "odd,shard", "x,stream,file"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").write_text("1")
    (tmp_path / "table.csv").write_text("a,b\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train=images", DataSpec("train", "images", "local", "replicate", "file")),
        ("train=images,shard", DataSpec("train", "images", "local", "shard", "file")),
        ("t=images,stream", DataSpec("t", "images", "local", "replicate", "stream")),
        ("t=images,stream,shard", DataSpec("t", "images", "local", "shard", "stream")),
        ("t=images,shard,stream", DataSpec("t", "images", "local", "shard", "stream")),
        ("t=a,b", DataSpec("t", "a,b", "local", "replicate", "file")),
        ("t=a,b,shard", DataSpec("t", "a,b", "local", "shard", "file")),
        ("t=odd,shard,replicate", None),
        ("t=table.csv", DataSpec("t", "table.csv", "local", "replicate", "file")),
        ("t=s3://b-1/a,b/c,shard", DataSpec("t", "s3://b-1/a,b/c", "bucket", "shard", "file")),
        ("t=s3://b-1", DataSpec("t", "s3://b-1", "bucket", "replicate", "file")),
        ("t=gs://b.c/x=y", DataSpec("t", "gs://b.c/x=y", "bucket", "replicate", "file")),
        ("t=s3://b-1/a,word/", DataSpec("t", "s3://b-1/a,word/", "bucket", "replicate", "file")),
        ("t=host:/d,stream", DataSpec("t", "host:/d", "host", "replicate", "stream")),
        ("t_2=host:~/d", DataSpec("t_2", "host:~/d", "host", "replicate", "file")),
    ],
)
def test_options_are_read_from_the_right(text: str, expected: DataSpec | None) -> None:
    if expected is None:
        with pytest.raises(UsageError, match="not both or twice"):
            parse(text, script=True)
    else:
        assert parse(text, script=True) == expected


def test_our_training_decides_what_is_not_given() -> None:
    assert parse("train=images", script=False) == DataSpec("train", "images", "local")
    assert parse("test=images,stream", script=False).mode == "stream"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("images", "write NAME=URI"),
        ("train=", "write --data NAME=URI"),
        ("Train=images", "small letter"),
        ("2=images", "small letter"),
        ("a-b=images", "small letter"),
        ("=images", "write NAME=URI"),
        ("cache=images", "RAILHEAD_DATA_CACHE has another meaning"),
        ("train_mode=images", "RAILHEAD_DATA_TRAIN_MODE has another meaning"),
        ("t=nowhere", "no file or folder nowhere here"),
        ("t=~no-such-user/x", "no file or folder ~no-such-user/x here"),
        (f"t={'x' * 5000}", "no file or folder xxx"),
        ("t=images,shrad", r"unknown option 'shrad'.*replicate, shard, file, stream"),
        ("t=images,shrad", "did you mean shard"),
        ("t=s3://b-1/x,fast", "unknown option 'fast'"),
        ("t=s3://b-1/x,", "unknown option ''"),
        ("t=images,shard,fast,file", "unknown option 'fast'"),
        ("t=images,file,stream", "file or stream, not both or twice"),
        ("t=images,file,file", "file or stream, not both or twice"),
        ("t=s3:///x", "'' is not a bucket's name"),
        ("t=gs://B_/x", "'B_' is not a bucket's name"),
        ("t=http://h/x", "http://h/x is not s3://bucket"),
        ("t=host:data", "host: takes an absolute path"),
        ("t=h1:/data", "host:/data"),
        ("t=,shard", "no URI"),
    ],
)
def test_an_invalid_option_is_refused_with_its_rule(text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(text, script=True)
    assert re.search(expected, str(caught.value), re.DOTALL), caught.value


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["train=images", "train=a,b"], "--data train is given twice"),
        (["test=images"], "without --data train"),
        (["extra=images"], "takes train, validation, test"),
        (["train=images,shard"], "shard is for --script"),
        (["train=images,replicate"], "replicate is for --script"),
    ],
)
def test_our_training_has_rules_of_its_own(texts: list[str], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        parse_all(program(data=texts).data, script=False)
