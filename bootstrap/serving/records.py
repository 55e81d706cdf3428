"""Which endpoints this user has deployed, and where: ~/.railhead/deployed/NAME.json."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from railhead.documents.codec import decode, encode
from railhead.documents.serving.endpoint import FOLDER, NAMES, Deployed

from ..console.output import print_lines
from ..errors import Command, Hint, UsageError
from ..inventory import local_state
from ..inventory.files import atomic_write
from ..inventory.hosts import Inventory

NOTEBOOK = "notebook"  # the name of JupyterLab, which is kept as an endpoint is


def is_endpoint_name(name: str) -> bool:
    """Whether `name` can be part of a path and of a URL."""
    return re.fullmatch(NAMES, name) is not None


def check_endpoint_name(name: str) -> str:
    """Return `name` if it can be part of a path and of a URL; UsageError otherwise."""
    if not is_endpoint_name(name):
        raise UsageError(
            f"{name!r} is not an endpoint's name: letters, digits, '_' and '-', at most 63",
            hint=Command("deploy", run="RUN", name="digits"),
        )
    return name


def endpoint_folder(name: str) -> str:
    """The folder of an endpoint on its host; UsageError if it is not an endpoint's name."""
    return f"{FOLDER}/{check_endpoint_name(name)}"


def _file(name: str) -> Path:
    return local_state.home() / "deployed" / f"{check_endpoint_name(name)}.json"


def save(endpoint: Deployed) -> None:
    """Record an endpoint, before any part of it is started."""
    atomic_write(_file(endpoint.name), json.dumps(encode(endpoint)) + "\n")


def record_cluster(inventory: Inventory) -> None:
    """Record the hosts of an endpoint unless they are recorded: they are needed to find it."""
    if inventory.name not in local_state.clusters():
        local_state.save_cluster(inventory)


def forget(endpoint: Deployed) -> None:
    """Remove the record of an endpoint, unless it is of an endpoint with this name elsewhere."""
    if find(endpoint.name) == endpoint:
        _file(endpoint.name).unlink()


def names() -> list[str]:
    """The names of the recorded endpoints, sorted."""
    stems = [path.stem for path in (local_state.home() / "deployed").glob("*.json")]
    return sorted(filter(is_endpoint_name, stems))


def find(name: str) -> Deployed | None:
    """The record of an endpoint; None if there is none. UsageError: it is damaged."""
    file = _file(name)
    try:
        endpoint = decode(Deployed, json.loads(file.read_text()), unknown_keys=False)
        if endpoint.name == name:
            return endpoint
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError):  # Malformed is a ValueError
        pass
    raise UsageError(
        f"the record of endpoint {name} is damaged: {file}", hint=f"rm -r {shlex.quote(str(file))}"
    )


def require(name: str) -> Deployed:
    """The record of an endpoint. UsageError: there is none."""
    if endpoint := find(name):
        return endpoint
    raise not_deployed(name)


def not_deployed(name: str, where: str = "") -> UsageError:
    """The error for an endpoint that is neither recorded nor found `where` it was searched."""
    known = ", ".join(names())
    return UsageError(
        f"no endpoint {name!r} is deployed{where}" + (f"; deployed: {known}" if known else ""),
        hint=Hint(Command("deploy", name=name), "   # serves the model of the last run"),
    )


def of_cluster(cluster: str | None) -> list[Deployed]:
    """The recorded endpoints of a cluster; None: those of this computer. A damaged record is named
    and left out."""
    endpoints = []
    for name in names():
        try:
            endpoints.append(find(name))
        except UsageError as damaged:
            print_lines(damaged.message)
    return [endpoint for endpoint in endpoints if endpoint and endpoint.cluster == cluster]
