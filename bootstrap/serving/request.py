"""The options of `fab deploy`, checked. Pure."""

from __future__ import annotations

from railhead.documents.lazy import dataclass
from railhead.documents.options.serving import (
    HOURS,
    MAX_DELAY,
    RAILHEAD,
    TENSORFLOW_SERVING,
    DeployOptions,
)

from ..errors import Command, UsageError
from .records import NOTEBOOK, check_endpoint_name

PORT = 8501  # TensorFlow Serving's
MAX_BATCH = 32  # samples


@dataclass(frozen=True)
class DeployRequest:
    """An endpoint to be created. `update`: give the one of this name a new version;
    None: only if it serves.

    Without a `port` it gets the first free one from PORT on.
    `max_batch` samples in one call of the model, `max_delay_ms` that a sample waits for others.
    `server` is one of those of DeployOptions.
    """

    name: str
    port: int | None = None
    hours: float = HOURS
    update: bool | None = False
    max_batch: int = MAX_BATCH
    max_delay_ms: float = MAX_DELAY
    server: str = RAILHEAD

    def __post_init__(self) -> None:
        check_endpoint_name(self.name)

    @property
    def seconds(self) -> float:
        """The time-to-live."""
        return self.hours * 3600

    def server_options(self, port: int) -> list[str]:
        """Options of the server's program."""
        options = {"name": self.name, "port": port, "max-batch": self.max_batch}
        options["max-delay-ms"] = f"{self.max_delay_ms:g}"
        return [text for key, value in options.items() for text in (f"--{key}", str(value))]


def check_model_name(name: str, option: str) -> None:
    """UsageError if an endpoint of a model cannot have the name that an option gives."""
    if check_endpoint_name(name) == NOTEBOOK:
        raise UsageError(
            f"{option} {name}: {Command('notebook')} has this name",
            hint=Command("deploy", name="digits"),
        )


def read_request(options: DeployOptions) -> DeployRequest:
    """The options of `fab deploy`; UsageError for an invalid value."""
    check_model_name(options.name, "--name")
    # TensorFlow Serving does not check whether a model mixes the samples of a batch.
    usual_batch = 1 if options.server == TENSORFLOW_SERVING else MAX_BATCH
    return DeployRequest(
        name=options.name,
        port=options.port,
        hours=options.hours,
        update=options.update,
        max_batch=options.max_batch or usual_batch,
        max_delay_ms=options.max_delay,
        server=options.server,
    )
