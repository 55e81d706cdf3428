"""An endpoint for many calls: the connection to its host stays open between them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ..errors import UsageError
from ..serving.calls import rest
from ..serving.calls.rest import Broken, Client, Metadata, Signature
from ..serving.predict import check_file
from ..untrusted.unpack import Hostile
from . import serving

T = TypeVar("T")
BYTES, ROWS = 8_000_000, 1024  # of a request, roughly; larger ones are sent in parts


class OpenEndpoint:
    """Calls the endpoint `name` through one SSH connection, which the first call opens; calls of
    several threads run one after another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._opened = ExitStack()
        self._client: Client | None = None
        self._known: Metadata | None = None
        self._lock = threading.Lock()

    @property
    def known_signature(self) -> Signature | None:
        """The signature of the model, if a call has already read it."""
        return self._known.signature if self._known else None

    def close(self) -> None:
        """Close the connection; the next call opens a new one."""
        with self._lock:
            self._close()

    def metadata(self) -> Metadata:
        """The current version and its signature."""
        with self._lock:
            self._known = self._ask(lambda client: client.metadata())
            return self._known

    def predict_file(self, path: Path) -> Any:
        """The predictions for a file, as lists.

        Raises:
            UsageError: the file cannot be sent, or the model refuses it.
        """
        from ..serving.calls import samples

        check_file(path, "")
        return self._predicted(partial(samples.rows_of_file, path))[0]

    def predict(self, rows: Any) -> Any:
        """The outputs for an array of samples, or for {input: array}: arrays if one of the inputs
        is a NumPy array, otherwise lists.

        Raises:
            UsageError: the inputs are not arrays, or the model refuses them.
        """
        from ..serving.calls import samples

        samples.check(rows)
        outputs, signature = self._predicted(partial(samples.body_of, rows))
        if not samples.has_array(rows):
            return outputs
        try:
            return samples.arrays_of(outputs, signature)
        except (ValueError, TypeError, OverflowError):
            what = f"outputs of endpoint {self.name} that do not match its signature"
            raise Hostile(what) from None

    def _predicted(self, body: Callable[[Signature], Any]) -> tuple[Any, Signature]:
        """The answer to the body that `body` creates for a signature, and that signature. If a
        model with another signature was deployed in the meantime, the signature is read again."""
        with self._lock:
            known = self._known
            if known is None:
                known = self._known = self._ask(lambda client: client.metadata())
            try:
                return self._sent(body(known.signature)), known.signature
            except UsageError:
                self._known = self._ask(lambda client: client.metadata())
                if self._known.signature == known.signature:
                    raise
                return self._sent(body(self._known.signature)), self._known.signature

    def _sent(self, body: Any) -> Any:
        """Send rows as instances, in several requests if there are many; columns, or one value, as
        inputs."""
        if not isinstance(body, list):
            outputs = self._ask(lambda client: client.predict({"inputs": body})).outputs
            if outputs is None:
                raise Hostile(f"an answer of endpoint {self.name} without outputs")
            return outputs
        collected: list[Any] = []
        for part in parts(body):
            predictions = self._predictions(part)
            if not isinstance(predictions, list) or len(predictions) != len(part):
                raise Hostile(f"predictions of endpoint {self.name} that are not one per sample")
            collected += predictions
        return collected

    def _predictions(self, rows: Sequence[Any]) -> Any:
        return self._ask(lambda client: client.predict({"instances": rows})).predictions

    def _ask(self, question: Callable[[Client], T]) -> T:
        """The answer; after a broken connection, reconnect once."""
        if self._client is not None:
            try:
                return question(self._client)
            except Broken:
                self._close()
        try:
            return question(self._open())
        except Broken:
            self._close()
            raise

    def _open(self) -> Client:
        endpoint, place = self._opened.enter_context(serving.serving_place(self.name))
        self._client = rest.client(place.session, endpoint.name, endpoint.port)
        self._opened.callback(self._client.close)
        return self._client

    def _close(self) -> None:
        self._client = self._known = None
        self._opened.close()


def parts(rows: Sequence[Any]) -> list[Sequence[Any]]:
    """Divide rows into parts, one for each request."""
    if not rows:
        return [rows]
    size = len(json.dumps(rows[0])) + 1
    many = max(1, min(ROWS, BYTES // size))
    return [rows[start : start + many] for start in range(0, len(rows), many)]
