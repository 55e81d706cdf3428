"""Removes the bucket that a killed `pulumi up` left on Google Cloud, by the stack's id."""

from __future__ import annotations

from ..base import Refused
from ..machines import Place
from .client import GoogleClient, connect
from .labels import ID
from .listed import ListedBucket


def remove_bucket(
    place: Place, name: str, cluster_id: str, client: GoogleClient | None = None
) -> bool:
    """Remove a bucket if it has this id; whether it is gone. Google removes only an empty one."""
    client = client or connect()
    address = f"{client.storage}storage/v1/b/{name}"
    try:
        labels = client.get(ListedBucket, address).labels
        if labels.get(ID) == cluster_id:
            client("DELETE", address)
    except Refused:
        return False
    return labels.get(ID) == cluster_id
