"""The descriptions of AWS's services, read once for all clients of a process.

Each session of boto3 reads them again, which takes a client 0.1 s of CPU time.
"""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def read_once() -> None:
    """From now on all sessions of this process share one reader."""
    import botocore.session

    shared = cache(botocore.session.create_loader)

    def create_loader(search_path: str | None = None) -> Any:
        return shared(search_path)

    botocore.session.create_loader = create_loader
