"""Addresses of objects in buckets: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX."""

from __future__ import annotations

import re
from collections.abc import Callable

from railhead.documents.clouds import COMMON_FACTS
from railhead.documents.lazy import dataclass

SCHEMES = tuple(facts.scheme for facts in COMMON_FACTS.values())
FORMS = " or ".join(f"{scheme}://bucket/prefix" for scheme in SCHEMES)
PREFIXES = ", ".join(f"{scheme}://" for scheme in SCHEMES)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")


@dataclass(frozen=True)
class BucketUri:
    """The objects below `prefix`, or the one of that name. The prefix has no slashes around it; it
    is empty for the whole bucket."""

    scheme: str
    bucket: str
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.url}/{self.prefix}".rstrip("/")

    @property
    def url(self) -> str:
        """The address of the bucket alone."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def folder(self) -> str:
        """The beginning of the keys of the objects below the prefix."""
        return self.prefix and f"{self.prefix}/"

    def key(self, name: str) -> str:
        """The name in the bucket of an object below the prefix."""
        return self.folder + name


def scheme_of(text: str) -> str:
    """The part before `://`; empty for a path."""
    match = _SCHEME.fullmatch(text)
    return match[1] if match else ""


def bucket_uri(text: str, *, error: Callable[[str], Exception] = ValueError) -> BucketUri:
    """The address in a text; slashes around the prefix are dropped.

    Args:
        error: makes the exception from the message.

    Raises:
        error: another scheme, or not a name of a bucket, or control characters.
    """
    match = _SCHEME.fullmatch(text)
    if not match or match[1] not in SCHEMES:
        raise error(f"{text} is not {FORMS}")
    bucket, _, prefix = match[2].partition("/")
    if not _BUCKET.fullmatch(bucket):
        form = f"{match[1]}://BUCKET/PREFIX"
        raise error(f"{bucket!r} is not a bucket's name in {text}: write {form}")
    if any(ord(char) < 32 for char in prefix):
        raise error(f"control characters in the URI {text!r}")
    return BucketUri(match[1], bucket, prefix.strip("/"))
