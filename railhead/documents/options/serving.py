"""Options: endpoints, notebooks and tunnels."""

from __future__ import annotations

from dataclasses import dataclass

from railhead.documents.options.option import option

RAILHEAD, TENSORFLOW_SERVING = SERVERS = ("railhead", "tensorflow-serving")
PORTS = {"at_least": 1024, "at_most": 65535}
TIME_TO_LIVE = option(
    1.0,
    "hours from now until it ends",
    doc="the time-to-live, 0.01 to 168",
    at_least=0.01,
    at_most=168,
)
LOCAL_PORT = option(
    None,
    "the port of this machine; default: the same number; 0: a free one",
    doc="the port of this machine, 0 to 65535; default: the same number",
    at_least=0,
    at_most=65535,
)


@dataclass(frozen=True)
class DeployOptions:
    """What an endpoint serves, and how."""

    here: bool = option(
        False, "on this machine instead of the hosts", doc="on this machine instead of the chief"
    )
    model: str | None = option(
        None,
        "with RUN: which of its models, a path in its results; else a file or folder here",
        doc="with a run: [which of its models](serving.md#where-an-endpoint-runs), a path in its"
        " results; without one: a SavedModel or a Keras file here",
        python="which of the models of the run, as its results name it",
        path=True,
    )
    trust_model: bool = option(
        False,
        "with --here: load also a model that is not loaded in a safe mode",
        doc="with `--here`: also load a model"
        " [without a safe mode](security.md#data-from-hosts); otherwise a question",
    )
    name: str = option(
        "model",
        "the name of the endpoint",
        doc="1 to 63 letters, digits, `_` and `-`",
    )
    port: int | None = option(
        None,
        "a port of 127.0.0.1 on the host",
        doc="1024 to 65535, on 127.0.0.1 of the host; default: the first free one from 8501 on",
        **PORTS,
    )
    hours: float = TIME_TO_LIVE
    update: bool = option(
        False,
        "give the endpoint of this name a new version, without a refused request",
        doc="the endpoint of this name gets a new version and a new time-to-live",
    )
    max_batch: int | None = option(
        None,
        "samples in one call of the model (32); 1: no batching",
        doc="samples in one call of the model, 1 to 4096; default: 32, with"
        " `--server tensorflow-serving` 1",
        at_least=1,
        at_most=4096,
    )
    max_delay: float = option(
        2.0,
        "milliseconds that a sample waits for others",
        doc="milliseconds that a sample waits for others, 0 to 1000",
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
    """One of the endpoints."""

    name: str = option(
        help="the name of an endpoint (model)",
        doc="the first argument: the name of an endpoint",
        positional=True,
    )


@dataclass(frozen=True)
class PredictOptions:
    """The samples that are sent."""

    file: str | None = option(
        None,
        "a .json, .npy, .csv, .png or .jpg file here",
        doc="a file here, at most 30 MB; either this or `--samples`",
    )
    samples: int | None = option(
        None,
        "so many held-out samples of the data of the run",
        doc="1 to 10000",
        at_least=1,
        at_most=10_000,
    )


@dataclass(frozen=True)
class NotebookOptions:
    """How long a notebook lives, and its ports."""

    hours: float = TIME_TO_LIVE
    port: int | None = option(
        None,
        "a port of 127.0.0.1 on the host",
        doc="1024 to 65535, on 127.0.0.1 of the host; default: the first free one from 8888 on",
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
