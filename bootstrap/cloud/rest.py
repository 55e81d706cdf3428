"""One way to ask Google anything: its REST calls, with its refusals in words.

google-auth makes the credentials. The generated client of Compute is not used: it takes nine
times as long to import, and its operations poll the public host whatever endpoint was set.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bootstrap.cloud import Clock, Refused
from bootstrap.errors import RailheadError, UsageError

COMPUTE = "https://compute.googleapis.com/compute/v1/"
STORAGE = "https://storage.googleapis.com/storage/v1/"
ENDPOINT = "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE"  # gcloud's own variable for another place
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
LOGIN = "gcloud auth application-default login"
OPERATION_SECONDS = 600.0

# method, path (below COMPUTE, or a whole address), body and query
Ask = Callable[..., dict[str, Any]]


def asker() -> Ask:
    """`ask("GET", "projects/p/zones/z/instances/i")`, as whoever is logged in here.

    Raises:
        UsageError: google-auth is not installed, or there are no credentials.
        Refused: (while asking) Google said no; its own reason is the error's `word`.
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
    try:
        credentials, _ = google.auth.default(scopes=SCOPES)
    except DefaultCredentialsError:
        raise UsageError("Google cannot be asked: nobody is logged in", hint=LOGIN) from None
    session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]
    return through(session, os.environ.get(ENDPOINT) or COMPUTE)


def through(session: Any, base: str) -> Ask:
    """Asks through a session of requests; `base` is where Compute's paths begin."""
    return lambda method, path, **words: _asked(session, base, method, path, words)


def _asked(session: Any, base: str, method: str, path: str, words: Any) -> dict[str, Any]:
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException

    address = path if path.startswith("https://") else base.rstrip("/") + "/" + path
    try:
        answer = session.request(method, address, timeout=30, **words)
    except GoogleAuthError as error:
        raise UsageError(f"Google cannot be asked: {error}", hint=LOGIN) from None
    except RequestException as error:
        raise RailheadError(f"Google cannot be asked: {error}") from None
    try:
        said: dict[str, Any] = answer.json() if answer.content else {}
    except ValueError:
        said = {"error": {"message": answer.text[:200]}}
    if answer.status_code >= 400:
        raise _refused(f"{method} {path}", answer.status_code, said.get("error", {}))
    return said


def _refused(what: str, status: int, said: Mapping[str, Any]) -> Refused:
    words = [e.get("reason", "") for e in said.get("errors", ())] or [str(status)]
    hint = LOGIN if status == 401 else ""
    return Refused(f"Google refuses {what}: {said.get('message', status)}", words[0], hint=hint)


def finished(ask: Ask, operation: Mapping[str, Any], clock: Clock) -> None:
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
