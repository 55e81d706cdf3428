"""Removes the resources that a killed `pulumi up` left on AWS, by the stack's id.

They cost nothing. Some keep AWS from removing others, or have a name that the next `up` needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from ..base import Refused
from ..machines import Place
from .client import AwsClient, connect
from .kinds import ID, NETWORK, Call, described, role_calls, role_names, role_tags, tags_of


def remove(place: Place, cluster_id: str, client: AwsClient | None = None) -> list[str]:
    """Remove the network, key pairs, placement groups and roles with this id; their ids. Only for a
    cluster whose machines are gone. Resources that AWS refuses to remove stay. Refused: AWS does
    not list them."""
    client = client or connect(place.region)
    removed = []
    for id_, calls in chain(_of_ec2(client, cluster_id), _roles(client, cluster_id)):
        with suppress(Refused):
            for call in calls:
                call.run(client)
            removed.append(id_)
    return removed


def remove_bucket(
    place: Place, name: str, cluster_id: str, client: AwsClient | None = None
) -> bool:
    """Remove a bucket if it has this id; whether it is gone. AWS removes only an empty one."""
    client = client or connect(place.region)
    try:
        tags = tags_of({"Tags": client("s3", "get_bucket_tagging", Bucket=name).get("TagSet")})
        if tags.get(ID) == cluster_id:
            client("s3", "delete_bucket", Bucket=name)
    except Refused:
        return False
    return tags.get(ID) == cluster_id


def list_ids(place: Place, cluster_id: str, client: AwsClient | None = None) -> list[str]:
    """The ids of the network, key pairs and placement groups with this id, in a region."""
    client = client or connect(place.region)
    return [id_ for id_, _ in _of_ec2(client, cluster_id)]


def _of_ec2(client: AwsClient, cluster_id: str) -> Iterator[tuple[str, Iterator[Call]]]:
    """The ids, each with the calls that remove it."""
    for kind in NETWORK:
        for item in described(client, kind, f"tag:{ID}", cluster_id):
            yield str(item[kind.id]), kind.calls(item)


def _roles(client: AwsClient, cluster_id: str) -> Iterator[tuple[str, Iterator[Call]]]:
    """The names, each with the calls that remove it."""
    for name in list(role_names(client)):
        if role_tags(client, name).get(ID) == cluster_id:
            yield name, role_calls(client, name)
