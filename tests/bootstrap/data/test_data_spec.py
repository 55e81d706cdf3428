"""`--data`: parsed from the right, refused with the rule before any host is contacted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from properties import bounded
from standins.options import program

from bootstrap.data.spec import DataSpec, parse_all, parse_each
from bootstrap.data.spec import parse as spec_of
from bootstrap.errors import UsageError
from railhead.documents.runs.run import DISTRIBUTIONS, MODES


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


NAMES = st.text("az09_", max_size=8).map("n{}".format)
# A last word of letters after a comma is an option that does not exist, unless the path does.
TAILS = st.text("az09.,=-/", max_size=9).map("/{}0".format) | st.just("")
URIS = {
    "local": st.sampled_from(["images", "a,b", "table.csv", "./images", "images/"]),
    "host": TAILS.map(lambda tail: f"host:/d{tail}") | st.just("host:~/d"),
    "bucket": st.builds("{}://b-1{}".format, st.sampled_from(["s3", "gs"]), TAILS),
}
KINDS_AND_URIS = st.sampled_from(sorted(URIS)).flatmap(
    lambda kind: st.tuples(st.just(kind), URIS[kind])
)


@bounded(100)
@given(
    name=NAMES,
    place=KINDS_AND_URIS,
    distribution=st.sampled_from([None, *DISTRIBUTIONS]),
    mode=st.sampled_from([None, *MODES]),
    mode_first=st.booleans(),
)
@example("train", ("bucket", "s3://b-1/a,word/"), "shard", "stream", True)
@example("t", ("local", "a,b"), None, None, False)
@example("t", ("bucket", "gs://b.c/x=y"), "shard", None, False)
def test_options_are_read_from_the_right_in_any_order(
    name: str, place: tuple[str, str], distribution: str | None, mode: str | None, mode_first: bool
) -> None:
    kind, uri = place
    options = [mode, distribution] if mode_first else [distribution, mode]
    text = ",".join([f"{name}={uri}", *filter(None, options)])
    expected = DataSpec(name, uri, kind, distribution or "replicate", mode or "file")
    assert parse(text, script=True) == expected


@bounded(150)
@given(name=st.text(max_size=8), value=st.text("a,/:=~.s3hostbucketshardfile\n\0é", max_size=24))
@example("t", "odd,shard,replicate")
@example("t", "x,stream,file")
def test_every_text_is_a_specification_or_a_usage_error(name: str, value: str) -> None:
    try:
        spec = spec_of(name, value, script=True)
    except UsageError:
        return
    again = f"{spec.uri},{spec.distribution},{spec.mode}"
    assert spec_of(name, again, script=True) == spec
    assert value.startswith(spec.uri) and spec.name == name


def test_the_built_in_training_decides_what_is_not_named() -> None:
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
        ("t=odd,shard,replicate", "replicate or shard, not both or twice"),
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
        (["extra=images"], "accepts train, validation, test"),
        (["train=images,shard"], "shard is for --script"),
        (["train=images,replicate"], "replicate is for --script"),
    ],
)
def test_the_built_in_training_has_its_own_rules(texts: list[str], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        parse_all(program(data=texts).data, script=False)
