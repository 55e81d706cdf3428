"""The options of `fab deploy`, checked. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from bootstrap.errors import UsageError
from bootstrap.inventory.hosts import whole_number
from bootstrap.lifecycle.stop_policy import number
from bootstrap.serving.records import NOTEBOOK, check_endpoint_name

NAME = "model"
OURS, TENSORFLOW_SERVING = SERVERS = ("railhead", "tensorflow-serving")
PORT = 8501  # TensorFlow Serving's
HOURS = 1.0
MOST_HOURS = 168.0
MAX_BATCH = 32  # samples
MAX_DELAY_MS = 2.0


@dataclass(frozen=True)
class DeployRequest:
    """An endpoint to be made. `update`: give the one of this name a new version.

    Without a `port` it gets the first free one from PORT on.
    `max_batch` samples in one call of the model, `max_delay_ms` that a sample waits for others.
    `server` is one of SERVERS.
    """

    name: str
    port: int | None = None
    hours: float = HOURS
    update: bool = False
    max_batch: int = MAX_BATCH
    max_delay_ms: float = MAX_DELAY_MS
    server: str = OURS

    def __post_init__(self) -> None:
        check_endpoint_name(self.name)
        if self.server not in SERVERS:
            raise UsageError(f"--server {self.server}: one of {', '.join(SERVERS)}")

    @property
    def seconds(self) -> float:
        """The time-to-live."""
        return self.hours * 3600

    def server_options(self, port: int) -> list[str]:
        """Options of the server's program."""
        options = {"name": self.name, "port": port, "max-batch": self.max_batch}
        options["max-delay-ms"] = f"{self.max_delay_ms:g}"
        return [text for key, value in options.items() for text in (f"--{key}", str(value))]


def read_request(
    name: str | None,
    port: str | None,
    hours: str | None,
    max_batch: str | None,
    max_delay: str | None,
    server: str | None,
    *,
    update: bool,
) -> DeployRequest:
    """The options of `fab deploy` as they were typed; UsageError for an invalid value."""
    if name == NOTEBOOK:
        raise UsageError(
            f"--name {name}: fab notebook has this name", hint="fab deploy --name digits"
        )
    usual_batch = 1 if server == TENSORFLOW_SERVING else MAX_BATCH  # it checks no model for mixing
    return DeployRequest(
        name=NAME if name is None else name,
        port=whole_number(port, "--port", 1024, 65535),
        hours=read_hours(hours),
        update=update,
        max_batch=whole_number(max_batch, "--max-batch", 1, 4096) or usual_batch,
        max_delay_ms=MAX_DELAY_MS
        if max_delay is None
        else number(max_delay, "--max-delay", 0, 1000),
        server=OURS if server is None else server,
    )


def read_hours(text: str | None) -> float:
    """The time-to-live of `--hours`; UsageError for an invalid value."""
    return HOURS if text is None else number(text, "--hours", 0.01, MOST_HOURS)
