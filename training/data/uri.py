"""Where data is: a local folder or file, or in a bucket, and how a training reads it. Standard
library only.

    --data train=s3://bucket/digits,stream        RAILHEAD_DATA_TRAIN, RAILHEAD_DATA_TRAIN_MODE
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from railhead.documents.uri import PREFIXES, SCHEMES, BucketUri, bucket_uri, scheme_of

from . import SPLITS, DataError

MODES = ("file", "stream")
VARIABLE = "RAILHEAD_DATA_"


@dataclass(frozen=True)
class DataSource:
    """Data as it is given to a training. `mode` is `file`: download what is read, then read it;
    or `stream`: read it while it is downloaded, and keep nothing."""

    uri: str
    mode: str = "file"

    @property
    def location(self) -> BucketUri | None:
        """The place in a bucket; None for a local path."""
        return location(self.uri)

    @property
    def path(self) -> Path:
        """The local path."""
        return Path(self.uri.removeprefix("file://"))


def location(uri: str) -> BucketUri | None:
    """The place in a bucket that a URI names; None for a local path or file://.

    Raises:
        DataError: the URI has another scheme, or no bucket.
    """
    scheme = scheme_of(uri)
    if scheme in ("", "file"):
        return None
    if scheme not in SCHEMES:
        raise DataError(f"{uri} has an unknown scheme. Choices: a folder, {PREFIXES}, file://")
    return bucket_uri(uri, error=DataError)


def parse_source(text: str) -> DataSource:
    """The `URI[,file|stream]` of one name; the option is read from the right, so that a URI may
    have commas."""
    uri, comma, mode = text.rpartition(",")
    if not comma or mode not in MODES:
        uri, mode = text, "file"
    location(uri)
    return DataSource(uri, mode)


def from_environment(environ: Mapping[str, str]) -> dict[str, DataSource]:
    """RAILHEAD_DATA_<NAME> and RAILHEAD_DATA_<NAME>_MODE for train, validation and test."""
    sources = {}
    for name in SPLITS:
        variable = VARIABLE + name.upper()
        if variable not in environ:
            continue
        mode = environ.get(f"{variable}_MODE") or "file"
        if mode not in MODES:
            raise DataError(f"{variable}_MODE is {mode!r}. Choices: {', '.join(MODES)}")
        location(environ[variable])
        sources[name] = DataSource(environ[variable], mode)
    return sources
