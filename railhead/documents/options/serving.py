"""Options: endpoints, notebooks and tunnels."""

from __future__ import annotations

from railhead.documents.lazy import dataclass
from railhead.documents.options.option import option

RAILHEAD, TENSORFLOW_SERVING = SERVERS = ("railhead", "tensorflow-serving")
PORTS = {"at_least": 1024, "at_most": 65535}
TIME_TO_LIVE = option(
    1.0,
    "time-to-live, such as 30m or 2h, from now until it is terminated; a number is hours",
    doc="the time-to-live, 0.01 to 168 hours",
    at_least=0.01,
    at_most=168,
    unit="h",
)
LOCAL_PORT = option(
    None,
    "the port on this computer; default: the port's number on the host; 0: any free port",
    doc="the port on this computer, 0 to 65535; default: the port's number on the host; 0: any free"
    " port",
    at_least=0,
    at_most=65535,
)


@dataclass(frozen=True)
class DeployOptions:
    """What an endpoint serves, and how."""

    here: bool = option(
        False,
        "serve on this computer instead of the hosts",
        doc="serve on this computer instead of the chief",
    )
    model: str | None = option(
        None,
        "with RUN: the path of one of its models in its results; otherwise a local file or folder",
        doc="with a run: [which of its models](serving.md#where-an-endpoint-runs), as a path in its"
        " results; without a run: a SavedModel or a Keras file on this computer",
        python="which of the models of the run, as a path in its results",
        path=True,
    )
    trust_model: bool = option(
        False,
        "with --here: also load a model that has no safe mode, without confirmation",
        doc="with `--here`: also load a model"
        " [without a safe mode](security.md#data-from-hosts), without confirmation",
    )
    name: str = option(
        "model",
        "the name of the endpoint",
        doc="1 to 63 letters, digits, `_` and `-`",
    )
    port: int | None = option(
        None,
        "a port of 127.0.0.1 on the host",
        doc="1024 to 65535, on 127.0.0.1 of the host; default: the first free port from 8501 on",
        **PORTS,
    )
    hours: float = TIME_TO_LIVE
    update: bool = option(
        False,
        "switch the endpoint of this name to a new version; no request is refused meanwhile",
        doc="switch the endpoint of this name to a new version, with a new time-to-live",
    )
    max_batch: int | None = option(
        None,
        "samples in one call of the model; 1: no batching; default: 32",
        doc="samples in one call of the model, 1 to 4096; default: 32, or 1 with"
        " `--server tensorflow-serving`",
        at_least=1,
        at_most=4096,
    )
    max_delay: float = option(
        2.0,
        "milliseconds that a sample waits for other samples",
        doc="milliseconds that a sample waits for other samples, 0 to 1000",
        at_least=0,
        at_most=1000,
    )
    server: str = option(
        RAILHEAD,
        "railhead, or tensorflow-serving: the host's tensorflow_model_server",
        doc="`railhead`, or `tensorflow-serving`:"
        " [the host's own `tensorflow_model_server`](serving.md#tensorflow-serving-itself)."
        " `--update` keeps the server",
        choices=SERVERS,
    )


@dataclass(frozen=True)
class EndpointName:
    """The name of one of the endpoints."""

    name: str = option(
        help="the name of an endpoint; default: model",
        doc="the first argument: the name of an endpoint",
        positional=True,
    )


@dataclass(frozen=True)
class PredictOptions:
    """The samples that are sent."""

    file: str | None = option(
        None,
        "a .json, .npy, .csv, .png or .jpg file on this computer",
        doc="a file on this computer, at most 30 MB; either this or `--samples`",
    )
    samples: int | None = option(
        None,
        "the number of held-out samples to send from the run's data",
        doc="the number of held-out samples to send from the run's data, 1 to 10000",
        at_least=1,
        at_most=10_000,
    )


@dataclass(frozen=True)
class NotebookOptions:
    """How long a notebook runs, and its ports."""

    hours: float = TIME_TO_LIVE
    port: int | None = option(
        None,
        "a port of 127.0.0.1 on the host",
        doc="1024 to 65535, on 127.0.0.1 of the host; default: the first free port from 8888 on",
        **PORTS,
    )
    local_port: int | None = LOCAL_PORT


@dataclass(frozen=True)
class TunnelOptions:
    """The ends of a tunnel."""

    port: int = option(
        help="a port of 127.0.0.1 on the host",
        doc="the first argument: the port on the host",
        at_least=1,
        at_most=65535,
        positional=True,
    )
    host: str | None = option(None, "a host's name", doc="the name of a host; default: the chief")
    local_port: int | None = LOCAL_PORT
