"""The data that the hosts of a stack may read: prefixes of buckets that exist already. Pure."""

from __future__ import annotations

import re

from railhead.documents.uri import BucketUri, bucket_uri

from ..rules.validators import ConfigError

MOST = 10  # AWS: all policies of a role together have at most 10,240 characters
# `*`, `?` and `$` have a meaning in AWS's policies, quotes and backslashes in Google's conditions.
_SEGMENT = re.compile(r"[A-Za-z0-9._=+@,:() -]+")


def data_prefixes(key: str, text: str) -> tuple[BucketUri, ...]:
    """The addresses of a list that is separated by commas, each once.

    Raises:
        ConfigError: one is not the address of a bucket, or is listed twice.
    """
    prefixes = tuple(_prefix(key, address.strip()) for address in text.split(","))
    for prefix in prefixes:
        if prefixes.count(prefix) > 1:
            raise ConfigError(f"{key}: {prefix} is there twice")
    if len(prefixes) > MOST:
        raise ConfigError(f"{key}: {len(prefixes)} prefixes; at most {MOST}")
    return prefixes


def _prefix(key: str, text: str) -> BucketUri:
    uri = bucket_uri(text, error=lambda why: ConfigError(f"{key}: {why}"))
    for segment in uri.prefix.split("/") if uri.prefix else ():
        if not _SEGMENT.fullmatch(segment) or segment in (".", ".."):
            raise ConfigError(
                f"{key}: {text!r} has the part {segment!r}; allowed are letters, digits, spaces "
                "and . _ = + @ : ( ) -, not empty and not a wildcard"
            )
    return uri
