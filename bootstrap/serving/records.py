"""Which endpoints this user has deployed, and where: ~/.railhead/deployed/NAME.json."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from bootstrap.errors import UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Inventory
from bootstrap.ssh.local_session import HERE

NOTEBOOK = "notebook"  # the name of JupyterLab, which is kept as an endpoint is
_NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


@dataclass(frozen=True)
class Deployed:
    """An endpoint. `cluster` and `host` are where it is; without a cluster it is here."""

    name: str
    cluster: str | None
    host: str
    port: int
    run_id: str | None

    @property
    def place(self) -> str:
        """Where it is, for people."""
        return "this machine" if self.host == HERE else f"{self.host} of {self.cluster}"

    @property
    def folder(self) -> str:
        """Its folder on its host."""
        return folder_of(self.name)


def is_endpoint_name(name: str) -> bool:
    """Whether `name` can be part of a path and of a URL."""
    return _NAMES.fullmatch(name) is not None


def check_endpoint_name(name: str) -> str:
    """Return `name` if it can be part of a path and of a URL; UsageError otherwise."""
    if not is_endpoint_name(name):
        raise UsageError(
            f"{name!r} is not an endpoint's name: letters, digits, '_' and '-', at most 63",
            hint="fab deploy RUN --name digits",
        )
    return name


def folder_of(name: str) -> str:
    """The folder of an endpoint on its host; UsageError if it is not an endpoint's name."""
    return f"~/.railhead/endpoints/{check_endpoint_name(name)}"


def _file(name: str) -> Path:
    return local_state.home() / "deployed" / f"{check_endpoint_name(name)}.json"


def save(endpoint: Deployed) -> None:
    """Record an endpoint, before anything of it is started."""
    atomic_write(_file(endpoint.name), json.dumps(asdict(endpoint)) + "\n")


def record_cluster(inventory: Inventory) -> None:
    """Record the hosts of an endpoint, where no command has recorded them: it is found by them."""
    if inventory.name not in local_state.clusters():
        local_state.save_cluster(inventory)


def forget(endpoint: Deployed) -> None:
    """Remove the record of an endpoint; one of the same name at another place stays."""
    if find(endpoint.name) == endpoint:
        _file(endpoint.name).unlink()


def names() -> list[str]:
    """The names of the recorded endpoints, sorted."""
    return sorted(path.stem for path in (local_state.home() / "deployed").glob("*.json"))


def find(name: str) -> Deployed | None:
    """The record of an endpoint; None if there is none."""
    try:
        return Deployed(**json.loads(_file(name).read_text()))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError):
        raise UsageError(
            f"the record of endpoint {name} is damaged: {_file(name)}", hint=f"rm {_file(name)}"
        ) from None


def require(name: str) -> Deployed:
    """The record of an endpoint.

    Raises:
        UsageError: there is none.
    """
    if found := find(name):
        return found
    raise not_deployed(name)


def not_deployed(name: str, where: str = "") -> UsageError:
    """The error for an endpoint that is neither recorded nor `where` it was looked for."""
    known = ", ".join(names())
    return UsageError(
        f"no endpoint {name!r} is deployed{where}" + (f"; deployed: {known}" if known else ""),
        hint=f"fab deploy --name {name}   # serves the model of the last run",
    )


def of_cluster(cluster: str | None) -> list[Deployed]:
    """The recorded endpoints of a cluster; None: those of this machine."""
    found = [find(name) for name in names()]
    return [endpoint for endpoint in found if endpoint and endpoint.cluster == cluster]
