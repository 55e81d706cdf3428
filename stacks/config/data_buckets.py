"""The data that the hosts of a stack may read: prefixes of buckets that exist already. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from stacks.config.validators import ConfigError

MOST = 10  # AWS: all policies of a role together have at most 10,240 characters
_URI = re.compile(r"(s3|gs)://([a-z0-9][a-z0-9._-]{1,61}[a-z0-9])(/.*)?")
# `*`, `?` and `$` have a meaning in AWS's policies, quotes and backslashes in Google's conditions.
_SEGMENT = re.compile(r"[A-Za-z0-9._=+@,:() -]+")


@dataclass(frozen=True)
class DataPrefix:
    """A bucket, and the folder or object in it: without slashes around it, "" for the bucket."""

    scheme: str
    bucket: str
    path: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.path}".rstrip("/")


def data_prefixes(key: str, text: str) -> tuple[DataPrefix, ...]:
    """The prefixes of a list that is separated by commas, each once.

    Raises:
        ConfigError: one is no s3:// or gs:// address, or is there twice.
    """
    found = tuple(_prefix(key, part.strip()) for part in text.split(","))
    for one in found:
        if found.count(one) > 1:
            raise ConfigError(f"{key}: {one} is there twice")
    if len(found) > MOST:
        raise ConfigError(f"{key}: {len(found)} prefixes; at most {MOST}")
    return found


def _prefix(key: str, text: str) -> DataPrefix:
    matched = _URI.fullmatch(text)
    if not matched:
        raise ConfigError(f"{key}: {text!r} is not an address as in s3://BUCKET/FOLDER or gs://")
    path = (matched[3] or "").strip("/")
    for segment in path.split("/") if path else ():
        if not _SEGMENT.fullmatch(segment) or segment in (".", ".."):
            raise ConfigError(
                f"{key}: {text!r} has the part {segment!r}; allowed are letters, digits, spaces "
                "and . _ = + @ : ( ) -, not empty and not a wildcard"
            )
    return DataPrefix(matched[1], matched[2], path)
