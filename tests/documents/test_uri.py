"""Addresses in buckets, which every room reads in the same way."""

from __future__ import annotations

import pytest

from bootstrap.inventory.clouds import CLOUDS
from railhead.documents.uri import SCHEMES, BucketUri, bucket_uri, scheme_of


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("s3://bkt", BucketUri("s3", "bkt", "")),
        ("s3://bkt/", BucketUri("s3", "bkt", "")),
        ("gs://b.c_d//x=y/a,b c//", BucketUri("gs", "b.c_d", "x=y/a,b c")),
    ],
)
def test_slashes_around_the_prefix_are_dropped(text: str, uri: BucketUri) -> None:
    assert bucket_uri(text) == uri
    assert bucket_uri(str(uri)) == uri and not str(uri).endswith("/")


def test_an_object_is_below_the_prefix() -> None:
    uri = bucket_uri("s3://bkt/a/b/")
    assert (uri.url, uri.folder, uri.key("c")) == ("s3://bkt", "a/b/", "a/b/c")
    assert (bucket_uri("s3://bkt").folder, bucket_uri("s3://bkt").key("c")) == ("", "c")


@pytest.mark.parametrize(
    "text",
    ["", "x", "/x", "ftp://bkt/x", "s3:/bkt", "s3://", "gs:///x", "s3://UP/x", "s3://b/x"]
    + ["s3://bkt\n/x", "s3://bkt/x\n", "s3://bkt/\0"],
)
def test_anything_else_is_refused_as_the_caller_wants(text: str) -> None:
    with pytest.raises(KeyError):
        bucket_uri(text, error=KeyError)


def test_a_path_has_no_scheme() -> None:
    assert [scheme_of(text) for text in ("/a", "a/b://c", "s3://x", "hdfs://y/z")] == [
        "", "", "s3", "hdfs",
    ]  # fmt: skip


def test_each_scheme_is_of_one_cloud() -> None:
    assert sorted(kind.scheme for kind in CLOUDS.values() if kind.scheme) == sorted(SCHEMES)
