"""TensorFlow Serving's own server on a host that has it, in place of ours: `--server`."""

from __future__ import annotations

from railhead.documents.serving.endpoint import Deployed

from ..errors import Command, Hint, UsageError
from ..host.base.programs import NAME, TENSORFLOW_SERVING
from ..runs.model_files import SAVED_MODEL_FILE
from .environment import Server
from .place import EndpointPlace

PROGRAM = "tensorflow_model_server"


def require_program(place: EndpointPlace) -> None:
    """UsageError if the host has no such server."""
    if place.session.run(["sh", "-c", f"command -v {PROGRAM}"]).rc:
        raise UsageError(
            f"{place.host} has no {PROGRAM} on its PATH",
            hint=Hint(
                Command("deploy"),
                " without --server uses our own server; or install the package "
                "tensorflow-model-server there",
            ),
        )


def require_saved_model(place: EndpointPlace, folder: str) -> None:
    """UsageError for a model on the host that is not a SavedModel."""
    if place.session.run(["test", "-f", f"{folder}/{SAVED_MODEL_FILE}"]).rc:
        raise UsageError(
            f"{PROGRAM} serves a SavedModel; this model is a Keras file",
            hint=Hint(
                Command("deploy"),
                " without --server serves it; or in the script: "
                "model.export(os.environ['RAILHEAD_RESULTS'] + '/saved_model')",
            ),
        )


def server(python: str, endpoint: Deployed) -> Server:
    """The host's own server. Its health is the list of its versions."""
    return Server(
        [python, "-I", "-S", f"{endpoint.folder}/{NAME}", TENSORFLOW_SERVING],
        health=f"/v1/models/{endpoint.name}",
    )
