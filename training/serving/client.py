"""`python -m training.serving.client`: sends a file or held-out samples to a served model.

It prints one JSON object: `rows` (the prediction, its score and the right answer of each sample),
`accuracy` (null if no answers are known) and `outputs`, as the server gave them.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .model import find
from .versions import versions_in

AT_ONCE = 32  # samples per request
TIMEOUT = 120.0
SETTINGS = "training.json"


class ClientError(Exception):
    """What cannot be sent or answered; the message says why. Exit code 2."""


@dataclass(frozen=True)
class Client:
    """The REST contract of TensorFlow Serving, on a port of this machine."""

    port: int
    name: str

    def call(self, method: str, path: str, document: Any = None) -> Any:
        """The parsed answer; ClientError with the server's message for a refusal."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT)
        try:
            body = None if document is None else json.dumps(document)
            connection.request(method, f"/v1/models/{self.name}{path}", body)
            reply = connection.getresponse()
            answer = json.loads(reply.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ClientError(f"the endpoint {self.name} does not answer: {error}") from None
        finally:
            connection.close()
        if reply.status != 200:
            raise ClientError(f"refused with {reply.status}: {answer.get('error')}")
        return answer

    def predict(self, instances: Sequence[Any]) -> list[Any]:
        """The predictions for instances, in several requests if they are many."""
        predictions: list[Any] = []
        for start in range(0, len(instances), AT_ONCE):
            body = {"instances": list(instances[start : start + AT_ONCE])}
            predictions += self.call("POST", ":predict", body)["predictions"]
        return predictions


@dataclass(frozen=True)
class Samples:
    """What is sent; `labels` if the right answers are known."""

    instances: Sequence[Any]
    labels: Sequence[Any] | None = None


def read_file(path: Path) -> Samples:
    """The samples in a file, already in the model's input form: a list of instances (.json), or an
    array."""
    try:
        if path.suffix == ".json":
            return Samples(json.loads(path.read_text(encoding="utf-8")))
        return Samples(np.load(path, allow_pickle=False).tolist())
    except (ValueError, OSError, EOFError) as error:
        raise ClientError(f"{path.name} cannot be read: {error}") from None


def held_out(count: int, settings: Mapping[str, Any] | None, data: Sequence[str]) -> Samples:
    """The first held-out samples of the data that the model was trained on: the test set where
    there is one, as in evaluation.json."""
    if settings is None:
        raise ClientError("the model is not of the built-in training, so its data is not known")
    import tensorflow as tf

    from ..config import ConfigError, resolve
    from ..data import DataError, unreadable
    from ..data.splits import load
    from ..job import parse_data

    try:
        dataset = load(resolve(settings), parse_data(data), lambda _: None)
    except (ConfigError, DataError) as error:
        raise ClientError(str(error)) from None
    _, samples = dataset.held_out
    if not hasattr(samples, "reader"):
        raise ClientError("held-out samples of shards cannot be read one by one")
    numbers = tf.range(min(count, len(samples)))
    try:
        values, labels = samples.reader()(numbers)
    except tf.errors.OpError as error:
        raise ClientError(str(unreadable(samples, error))) from None
    return Samples(values.numpy().tolist(), labels.numpy().tolist())


def training_of(versions: Path) -> dict[str, Any] | None:
    """training.json of the newest version: `settings` and `classes`; None for other models."""
    found_versions = versions_in(versions)
    place = find(found_versions[0][1]) if found_versions else None
    try:
        if place is None:
            return None
        if place.suffix == ".keras":
            with zipfile.ZipFile(place) as archive:
                text = archive.read(SETTINGS).decode()
        else:
            text = (place / "assets.extra" / SETTINGS).read_text(encoding="utf-8")
        training: dict[str, Any] = json.loads(text)
        return training
    except (OSError, KeyError, ValueError, zipfile.BadZipFile):
        return None


def report(samples: Samples, outputs: Sequence[Any], training: Mapping[str, Any] | None) -> Any:
    """What is printed."""
    task = training["settings"].get("task", "classification") if training else ""
    names = list(training["classes"]) if training else []
    right = samples.labels or [None] * len(outputs)
    rows = [
        {**_judged(output, task, names), "right": _named(answer, names, task)}
        for output, answer in zip(outputs, right, strict=True)
    ]
    known = samples.labels is not None and task in ("classification", "binary")
    hits = [row["prediction"] == row["right"] for row in rows] if known and rows else []
    return {"rows": rows, "accuracy": sum(hits) / len(hits) if hits else None, "outputs": outputs}


def _judged(output: Any, task: str, names: Sequence[str]) -> dict[str, Any]:
    """The class that the outputs (logits) stand for with its probability; otherwise the output."""
    if task == "classification":
        logits = np.asarray(output, dtype=np.float64)
        shares = np.exp(logits - logits.max())
        best = int(logits.argmax())
        return {
            "prediction": _named(best, names, task),
            "score": float(shares[best] / shares.sum()),
        }
    if task == "binary":
        share = 1 / (1 + math.exp(-max(-700.0, min(700.0, float(np.ravel(output)[0])))))
        return {
            "prediction": _named(int(share > 0.5), names, task),
            "score": max(share, 1 - share),
        }
    return {"prediction": json.dumps(output)[:200], "score": None}


def _named(label: Any, names: Sequence[str], task: str) -> str | None:
    if label is None:
        return None
    if task in ("classification", "binary"):
        return names[int(label)] if 0 <= int(label) < len(names) else str(int(label))
    return f"{label:g}"


def main(argv: Sequence[str] | None = None) -> int:
    """Predict and print; the exit code is 0, or 2 with the reason on standard error."""
    options = parser().parse_args(argv)
    client = Client(options.port, options.name)
    try:
        training = training_of(options.versions)
        settings = training["settings"] if training else None
        if options.file:
            samples = read_file(options.file)
        else:
            samples = held_out(options.samples, settings, options.data)
        print(json.dumps(report(samples, client.predict(samples.instances), training)))
    except ClientError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m training.serving.client", allow_abbrev=False)
    options.add_argument("--port", type=int, required=True)
    options.add_argument("--name", required=True)
    options.add_argument("--versions", type=Path, required=True, help="the served folder")
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("--file", type=Path, help="samples as the model takes them: .json or .npy")
    source.add_argument("--samples", type=int, help="so many held-out samples")
    options.add_argument("--data", action="append", default=[], metavar="NAME=URI")
    return options


if __name__ == "__main__":
    sys.exit(main())
