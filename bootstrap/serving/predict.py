"""Sends files or held-out samples to an endpoint, from the endpoint's host.

The client (training/serving/client.py) runs on that host, which has the data and the classes of the
model: this module does not know the model's format.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from railhead.documents.lazy import dataclass
from railhead.documents.lenient import Number, Shown
from railhead.documents.serving.endpoint import Deployed

from ..console.text import clean
from ..errors import RailheadError, UsageError
from ..ssh.bundle import pack_folder
from ..untrusted.decode import parsed
from .calls import rest
from .environment import CLIENT, Environment
from .place import EndpointPlace

ENDINGS = (".json", ".npy", ".csv", ".png", ".jpg", ".jpeg")
MOST_BYTES = 30_000_000
SECONDS = 300.0


@dataclass(frozen=True)
class SampleRow:
    """The prediction of one sample; `right` is the answer if it is known."""

    prediction: Shown = ""
    score: Number = None
    right: Shown | None = None

    def cleaned(self) -> SampleRow:
        """The same row, with texts that are safe to print on a terminal."""
        right = None if self.right is None else clean(str(self.right))
        return replace(self, prediction=clean(str(self.prediction)), right=right)


@dataclass(frozen=True)
class Predictions:
    """What the client printed: the rows, the accuracy if answers are known, the raw outputs."""

    rows: tuple[SampleRow, ...]
    accuracy: float | None = None
    outputs: Any = None

    @staticmethod
    def read(text: str) -> Predictions:
        """Parse the client's output; Hostile if it is not valid."""
        predictions = parsed(Predictions, text, "predictions")
        return replace(predictions, rows=tuple(row.cleaned() for row in predictions.rows))

    def lines(self) -> list[str]:
        """For people."""
        lines = [_line(place, row) for place, row in enumerate(self.rows)]
        if self.accuracy is not None:
            lines.append(f"accuracy {self.accuracy:.4f} on {len(self.rows)} samples")
        return lines


def _line(place: int, row: SampleRow) -> str:
    score = "" if row.score is None else f"  {row.score:.3f}"
    right = "" if row.right is None else f"  right: {row.right}"
    wrong = "  WRONG" if row.right not in (None, row.prediction) else ""
    return clean(f"{place:>4}  {row.prediction}{score}{right}{wrong}")


def check_file(path: Path, option: str = "--file ") -> None:
    """UsageError for a file that cannot be sent to a model; `option` is before its name."""
    if not path.is_file():
        raise UsageError(f"{option}{path}: there is no such file")
    if path.suffix.lower() not in ENDINGS:
        raise UsageError(f"{option}{path}: one of {', '.join(ENDINGS)}")
    if path.stat().st_size > MOST_BYTES:
        raise UsageError(f"{option}{path} has more than {MOST_BYTES // 1_000_000} MB")


def predict_file(
    place: EndpointPlace, endpoint: Deployed, environment: Environment, path: Path
) -> Predictions:
    """The predictions for a file of this computer, which is read here: pictures need no
    TensorFlow."""
    from .calls import samples

    with contextlib.closing(rest.client(place.session, endpoint.name, endpoint.port)) as client:
        rows = samples.read_file(path, client.metadata().signature)
    with tempfile.TemporaryDirectory() as folder:
        name = samples.write(rows, Path(folder))
        place.session.send_tree(pack_folder(Path(folder)), f"{endpoint.folder}/input")
    return _predict(place, endpoint, environment, ["--file", f"{endpoint.folder}/input/{name}"])


def predict_samples(
    place: EndpointPlace,
    endpoint: Deployed,
    environment: Environment,
    samples: int,
    data: Mapping[str, str],
) -> Predictions:
    """The predictions for held-out samples of the data that the model was trained on."""
    options = ["--samples", str(samples)]
    for name, uri in data.items():
        options += ["--data", f"{name}={uri}"]
    return _predict(place, endpoint, environment, options)


def _predict(
    place: EndpointPlace, endpoint: Deployed, environment: Environment, options: Sequence[str]
) -> Predictions:
    argv = ["--port", str(endpoint.port), "--name", endpoint.name]
    argv += ["--versions", f"{endpoint.folder}/versions", *options]
    reply = place.session.run(
        environment.argv(CLIENT, list(map(place.absolute, argv))),
        timeout=SECONDS,
        env={"TF_CPP_MIN_LOG_LEVEL": "3", **place.keras_home()},
    )
    if reply.rc:
        why = [clean(line) for line in reply.tail[-6:]]
        kind = UsageError if reply.rc == 2 else RailheadError
        raise kind("\n".join(why) or "the client ended without a message")
    return Predictions.read(reply.tail[-1] if reply.tail else "")
