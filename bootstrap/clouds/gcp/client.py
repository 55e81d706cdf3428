"""One way to ask Google anything: its REST calls, with its refusals in words.

google-auth makes the credentials. The generated clients are not used: that of Compute takes nine
times as long to import, and its operations poll the public host whatever endpoint was set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bootstrap.clouds.base import Refused
from bootstrap.console import log
from bootstrap.console.wait import Clock
from bootstrap.errors import RailheadError, UsageError

COMPUTE = "https://compute.googleapis.com/compute/v1/"
STORAGE = "https://storage.googleapis.com/"
ENDPOINT = "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"  # gcloud's own variable for another place
STORAGE_ENDPOINT = "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE"
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
LOGIN = "gcloud auth application-default login"
OPERATION_SECONDS = 600.0
PIECE = 1 << 20  # bytes
BUSY = (429, 500, 502, 503, 504)
TRIES = 4  # of what only reads

# method, path (below Compute's, or a whole address), body and query
Ask = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class GoogleClient:
    """Asks through a session of requests; `compute` and `storage` are where their paths begin.

    Raises:
        UsageError: the credentials are no good any more. RailheadError: the network.
        Refused: GoogleClient said no; its own reason, else the status, is the error's `word`.
    """

    session: Any
    compute: str = COMPUTE
    storage: str = STORAGE

    def __call__(self, method: str, path: str, **words: Any) -> dict[str, Any]:
        """What it answers, as JSON."""
        said = _said(self.request(method, path, **words))
        return dict(said)

    def read(self, path: str, **words: Any) -> Iterator[bytes]:
        """The bytes that stand there."""
        from requests import RequestException

        answer = self.request("GET", path, stream=True, **words)
        try:
            yield from answer.iter_content(PIECE)
        except RequestException as error:
            raise RailheadError(f"Google cannot be asked: {error}") from None

    def request(self, method: str, path: str, **words: Any) -> Any:
        """Its answer as it came."""
        from google.auth.exceptions import GoogleAuthError
        from requests import RequestException

        whole = path.startswith(("https://", "http://"))
        address = path if whole else self.compute.rstrip("/") + "/" + path
        try:
            with log.timed(f"Google {method} {address.partition('?')[0]}") as notes:
                answer = self.session.request(method, address, timeout=30, **words)
                notes.append(f"HTTP {answer.status_code}")
            if answer.status_code >= 400:
                said = _said(answer).get("error", {})
                raise refused(f"{method} {path}", answer.status_code, said)
        except GoogleAuthError as error:
            raise UsageError(f"Google cannot be asked: {error}", hint=LOGIN) from None
        except RequestException as error:
            raise RailheadError(f"Google cannot be asked: {error}") from None
        return answer


def connect() -> GoogleClient:
    """`ask("GET", "projects/p/zones/z/instances/i")`, as whoever is logged in here.

    Raises:
        UsageError: google-auth is not installed, or there are no credentials.
    """
    try:
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError
        from google.auth.transport.requests import AuthorizedSession
    except ImportError:
        raise UsageError(
            "google-auth, which asks Google for its machines, is not installed",
            hint="scripts/setup --stacks",
        ) from None
    # It warns where it knows no project of its own: the paths that are asked for name theirs.
    logging.getLogger("google.auth._default").setLevel(logging.ERROR)
    try:
        credentials, _ = google.auth.default(scopes=SCOPES)
    except DefaultCredentialsError:
        raise UsageError("Google cannot be asked: nobody is logged in", hint=LOGIN) from None
    session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    retry_when_busy(session)
    storage = os.environ.get(STORAGE_ENDPOINT) or STORAGE
    storage = storage.rstrip("/").removesuffix("/storage/v1") + "/"
    return GoogleClient(session, os.environ.get(ENDPOINT) or COMPUTE, storage)


def retry_when_busy(session: Any) -> None:
    """Make a session ask again, some seconds long, when Google is busy; only what changes nothing
    is asked twice."""
    from requests.adapters import HTTPAdapter
    from urllib3 import Retry

    again = Retry(
        TRIES,
        backoff_factor=0.5,
        status_forcelist=BUSY,
        allowed_methods={"GET"},
        raise_on_status=False,
    )
    for start in ("https://", "http://"):
        session.mount(start, HTTPAdapter(max_retries=again))


def through(session: Any, compute: str) -> GoogleClient:
    """Asks through a session of requests; `compute` is where Compute's paths begin."""
    return GoogleClient(session, compute)


def _said(answer: Any) -> Mapping[str, Any]:
    """The JSON of an answer. A refused download comes as a bare line."""
    try:
        said: Mapping[str, Any] = answer.json() if answer.content else {}
    except ValueError:
        said = {"error": {"message": answer.text[:200]}}
    return said


def refused(what: str, status: int, said: Mapping[str, Any]) -> Refused:
    """The error for a call to which Google says no."""
    words = [e.get("reason", "") for e in said.get("errors", ())] or [str(status)]
    hint = LOGIN if status == 401 else ""
    return Refused(f"Google refuses {what}: {said.get('message', status)}", words[0], hint=hint)


def wait_for_operation(ask: Ask, operation: Mapping[str, Any], clock: Clock) -> None:
    """Wait for an operation of one zone.

    Raises:
        Refused: it failed; an operation's own error comes with its end, not with the call.
        RailheadError: it took longer than ten minutes.
    """
    end = clock.now() + OPERATION_SECONDS
    path = operation.get("selfLink", "").partition("/compute/v1/")[2]
    while operation.get("status") != "DONE":
        if not path or clock.now() >= end:
            raise RailheadError(f"Google's operation {operation.get('name')} does not end")
        clock.sleep(2)
        operation = ask("GET", path)
    for error in operation.get("error", {}).get("errors", ()):
        where = ", ".join(found(error, "zonesAvailable"))
        more = f"; free now: {where}" if where else ""
        word = str(error.get("code", "?"))
        raise Refused(f"Google refuses: {word}: {error.get('message', '')}{more}", word)


def found(said: Any, key: str) -> Iterator[str]:
    """The text below a key, wherever it stands in what Google said."""
    if isinstance(said, dict):
        for name, value in said.items():
            if name == key and isinstance(value, str) and value:
                yield value
            else:
                yield from found(value, key)
    elif isinstance(said, list):
        for value in said:
            yield from found(value, key)
