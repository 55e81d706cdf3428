"""Options: endpoints, notebooks and tunnels."""

from __future__ import annotations

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import option

RAILHEAD, TENSORFLOW_SERVING = SERVERS = ("railhead", "tensorflow-serving")
HOURS, MAX_DELAY = 1.0, 2.0  # the latter in milliseconds
PORTS = {"at_least": 1024, "at_most": 65535}
TIME_TO_LIVE = option(
    HOURS, "time-to-live from now until it is terminated", at_least=0.01, at_most=168, unit="h"
)
LOCAL_PORT = option(
    None,
    "the port on this computer; default: the port's number on the host; 0: any free port",
    at_least=0,
    at_most=65535,
)


@dataclass(frozen=True)
class DeployOptions:
    """What an endpoint serves, and how."""

    here: bool = option(False, "serve on this computer instead of the chief")
    model: str | None = option(
        None,
        "with a run: [which of its models](serving.md#where-an-endpoint-runs), as a path in "
        "its results; without a run: a SavedModel or a Keras file on this computer",
        python="which of the models of the run, as a path in its results",
        path=True,
    )
    trust_model: bool = option(
        False,
        "with `--here`: also load a model [without a safe mode](security.md#data-from-hosts),"
        " without confirmation",
    )
    name: str = option("model", "the name of the endpoint, 1 to 63 letters, digits, `_` and `-`")
    port: int | None = option(
        None, "a port of 127.0.0.1 on the host; default: the first free one from 8501 on", **PORTS
    )
    hours: float = TIME_TO_LIVE
    update: bool = option(
        False,
        "switch the endpoint of this name to a new version, with a new time-to-live; no "
        "request is refused meanwhile",
    )
    max_batch: int | None = option(
        None,
        "samples in one call of the model; default: 32, or 1 with `--server tensorflow-serving`",
        at_least=1,
        at_most=4096,
    )
    max_delay: float = option(
        MAX_DELAY, "milliseconds that a sample waits for other samples", at_least=0, at_most=1000
    )
    server: str = option(
        RAILHEAD,
        "`railhead`, or `tensorflow-serving`: [the host's own "
        "`tensorflow_model_server`](serving.md#tensorflow-serving-itself). `--update` keeps "
        "the server",
        choices=SERVERS,
    )


@dataclass(frozen=True)
class EndpointName:
    """The name of one of the endpoints."""

    name: str = option(text="the name of an endpoint; default: `model`", positional=True)


@dataclass(frozen=True)
class PredictOptions:
    """The samples that are sent."""

    file: str | None = option(
        None,
        "a .json, .npy, .csv, .png or .jpg file on this computer, at most 30 MB; either this "
        "or `--samples`",
    )
    samples: int | None = option(
        None,
        "the number of held-out samples to send from the run's data",
        at_least=1,
        at_most=10_000,
    )


@dataclass(frozen=True)
class NotebookOptions:
    """How long a notebook runs, and its ports."""

    hours: float = TIME_TO_LIVE
    port: int | None = option(
        None, "a port of 127.0.0.1 on the host; default: the first free one from 8888 on", **PORTS
    )
    local_port: int | None = LOCAL_PORT


@dataclass(frozen=True)
class TunnelOptions:
    """The ends of a tunnel."""

    port: int = option(
        text="the port of 127.0.0.1 on the host", at_least=1, at_most=65535, positional=True
    )
    host: str | None = option(None, "the name of a host; default: the chief")
    local_port: int | None = LOCAL_PORT
