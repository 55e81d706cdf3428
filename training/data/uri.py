"""Where data is: a local folder or file, s3://bucket/prefix or gs://bucket/prefix, and how a
training reads it. Standard library only.

    --data train=s3://bucket/digits,stream        RAILHEAD_DATA_TRAIN, RAILHEAD_DATA_TRAIN_MODE
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from training.data import SPLITS, DataError

CLOUDS = ("s3", "gs")
MODES = ("file", "stream")
VARIABLE = "RAILHEAD_DATA_"


@dataclass(frozen=True)
class Location:
    """A place in a bucket: the objects below `prefix`, or the one of that name."""

    scheme: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.prefix}".rstrip("/")

    def key(self, name: str) -> str:
        """The name of an object in the bucket."""
        return f"{self.prefix}/{name}" if self.prefix else name


@dataclass(frozen=True)
class Given:
    """Data as it is given to a training. `mode` is `file`: download what is read, then read it;
    or `stream`: read it while it is downloaded, and keep nothing."""

    uri: str
    mode: str = "file"

    @property
    def location(self) -> Location | None:
        """The place in a bucket; None for a local path."""
        return location(self.uri)

    @property
    def path(self) -> Path:
        """The local path."""
        return Path(self.uri.removeprefix("file://"))


def location(uri: str) -> Location | None:
    """The place that an s3:// or gs:// URI names; None for a local path or file://.

    Raises:
        DataError: the URI has another scheme, or no bucket.
    """
    match = re.fullmatch(r"(\w+)://(.*)", uri, re.DOTALL)
    if not match or match[1] == "file":
        return None
    scheme, rest = match.groups()
    if scheme not in CLOUDS:
        raise DataError(f"{uri} has an unknown scheme. Choices: a folder, s3://, gs://, file://")
    bucket, _, prefix = rest.partition("/")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", bucket):
        raise DataError(f"{uri} has no valid name of a bucket: it is written {scheme}://BUCKET/...")
    return Location(scheme, bucket, prefix.strip("/"))


def parse_given(text: str) -> Given:
    """The `URI[,file|stream]` of one name; the option is read from the right, so that a URI may
    have commas."""
    uri, comma, mode = text.rpartition(",")
    if not comma or mode not in MODES:
        uri, mode = text, "file"
    location(uri)
    return Given(uri, mode)


def from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    """RAILHEAD_DATA_<NAME> and RAILHEAD_DATA_<NAME>_MODE for train, validation and test."""
    found = {}
    for name in SPLITS:
        variable = VARIABLE + name.upper()
        if variable not in environ:
            continue
        mode = environ.get(f"{variable}_MODE") or "file"
        if mode not in MODES:
            raise DataError(f"{variable}_MODE is {mode!r}. Choices: {', '.join(MODES)}")
        location(environ[variable])
        found[name] = Given(environ[variable], mode)
    return found
