"""A folder of a bucket, by its URL."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from railhead.documents.lazy import dataclass
from railhead.documents.uri import BucketUri, bucket_uri

from . import gcs, s3
from .objects import SILENCE, SharedObjects

OPENERS: Mapping[str, Callable[[str, float], SharedObjects]] = {  # by scheme
    "s3": s3.open_objects,
    "gs": gcs.open_objects,
}


@dataclass(frozen=True)
class BucketFolder:
    """A folder of a bucket, and the objects of the bucket."""

    uri: BucketUri
    objects: SharedObjects

    def get(self, name: str, path: str) -> None:
        """Download one object into a file."""
        with open(path, "wb") as file:
            file.writelines(self.objects.read(self.uri.key(name)))


def bucket_folder(url: str, silence: float = SILENCE) -> BucketFolder:
    """The folder at a URL, with this machine's credentials. `silence`: seconds until a request is
    repeated."""
    uri = bucket_uri(url)
    return BucketFolder(uri, OPENERS[uri.scheme](uri.bucket, silence))
