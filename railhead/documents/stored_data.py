"""data/<digest>.json in the bucket of a stack: the data there is complete."""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass


@dataclass(frozen=True)
class StoredData:
    """How much was uploaded, and the name of the folder that it was uploaded from."""

    files: int = key(at_least=0)
    bytes: int = key(at_least=0)
    from_: str = "?"
    schema: int = 1
