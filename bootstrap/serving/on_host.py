"""Finds endpoints on the hosts themselves, such as those that another computer deployed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railhead.documents.serving.endpoint import Deployed

from ..errors import UsageError
from ..ssh.session import Session
from . import records
from .place import EndpointPlace
from .records import endpoint_folder, is_endpoint_name
from .state import read_document

MOST = 100  # endpoints of a host that are shown
LIST = f'ls "$HOME/.railhead/endpoints" 2>/dev/null | head -n {MOST}'


def read_list(lines: Sequence[str]) -> list[str]:
    """The names of the endpoints of a host, from what LIST printed there."""
    return [name for name in lines if is_endpoint_name(name)]


def read_endpoint(session: Session, name: str, cluster: str | None) -> Deployed:
    """An endpoint, as its endpoint.json describes it; `cluster` None: it is on this computer.

    Raises:
        Hostile: that is missing or not valid.
    """
    document = read_document(session, endpoint_folder(name))
    return Deployed(name, cluster, session.host.name, document.port, document.run_id)


def find(places: Mapping[str, EndpointPlace], name: str, cluster: str) -> Deployed:
    """The endpoint of this name on one of the hosts.

    Raises:
        UsageError: none of them has it, or several have.
    """
    folder = endpoint_folder(name)
    holders = [p for p in places.values() if not p.session.run(["test", "-d", folder]).rc]
    if not holders:
        raise records.not_deployed(name, f" on {', '.join(places)} of {cluster}")
    if len(holders) > 1:
        hosts = ", ".join(place.host for place in holders)
        raise UsageError(
            f"several hosts have an endpoint {name}: {hosts}",
            hint="the same command with one of them: --hosts HOST",
        )
    return read_endpoint(holders[0].session, name, cluster)
