"""Endpoints: the record of one on this computer, and the files of its folder on its host."""

from __future__ import annotations

from collections.abc import Mapping

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass
from railhead.documents.lenient import Integer
from railhead.documents.names import NAME

FOLDER = "~/.railhead/endpoints"  # on a host
NAMES = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"  # of endpoints: parts of a path and of a URL
ALIVE = ("starting", "ready", "restarting")
STATES = (*ALIVE, "ended", "failed")
LARGEST = 1e15  # of a time
PID = 2**31 - 1


@dataclass(frozen=True)
class Deployed:
    """deployed/NAME.json: an endpoint. `cluster` and `host` are where it is; without a cluster it
    is on this computer."""

    name: str = key(pattern=NAMES)
    cluster: str | None = key(check=NAME)
    host: str = key(check=NAME)
    port: int = key(at_least=1, at_most=65535)
    run_id: str | None = key(check=NAME)

    @property
    def place(self) -> str:
        """Where the endpoint is, for people."""
        return f"{self.host} of {self.cluster}" if self.cluster else "this machine"

    @property
    def folder(self) -> str:
        """The endpoint's folder on its host."""
        return f"{FOLDER}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class EndpointDocument:
    """endpoint.json: how the supervisor runs an endpoint. `argv` is the command of its server,
    `stop` the one that stops the machine at the end, `until` the end of the time-to-live in seconds
    since 1970 by the clock of the host. `health` is the path that answers when it serves.
    `opens_port`: the server opens its port itself."""

    schema: int = key(1, choices=(1,))
    name: str = ""
    run_id: str | None = key(None, check=NAME)
    port: int = key(at_least=1, at_most=65535)
    stop: tuple[str, ...] | None = None
    argv: tuple[str, ...]
    until: float = key(at_least=-LARGEST, at_most=LARGEST)
    env: Mapping[str, str] = key({})
    server: str = "railhead"
    health: str = "/healthz"
    opens_port: bool = False


@dataclass(frozen=True, kw_only=True)
class EndpointState:
    """state.json: what the supervisor of an endpoint last wrote. Times are seconds since 1970.
    `machine`: what happened to a machine that was to be stopped; `failed`: versions that do not
    load, {version: why}."""

    state: str = key(choices=STATES)
    pid: int = key(at_least=2, at_most=PID)
    heartbeat: float = key(0.0, at_least=-LARGEST, at_most=LARGEST)
    until: float = key(0.0, at_least=-LARGEST, at_most=LARGEST)
    restarts: int = 0
    version: int = 0
    requests: int = 0
    reason: str = ""
    machine: str = ""
    failed: Mapping[str, str] = key({})


@dataclass(frozen=True)
class Health:
    """The answer of a ready server; servers other than Railhead's return other values."""

    version: Integer = None
    requests: Integer = None
    failed: Mapping[str, str] | None = None


@dataclass(frozen=True)
class VersionError:
    """Why a version cannot be used; empty if it can."""

    error_message: str


@dataclass(frozen=True)
class VersionStatus:
    """The state of one version in TensorFlow Serving."""

    version: str = key(pattern=r"[0-9]{1,18}")
    state: str = ""
    status: VersionError = VersionError("")


@dataclass(frozen=True)
class ServingStatus:
    """The answer of TensorFlow Serving in place of a health."""

    model_version_status: tuple[VersionStatus, ...]

    def health(self) -> Health | None:
        """The health; None if no version is ready."""
        versions = self.model_version_status
        ready = [int(version.version) for version in versions if version.state == "AVAILABLE"]
        failed = {v.version: v.status.error_message for v in versions if v.status.error_message}
        return Health(max(ready), failed=failed) if ready else None
