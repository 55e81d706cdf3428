"""Calls to Google's REST APIs with timeouts and retries; their errors become RailheadErrors.

google-auth provides the credentials. The generated clients are not used: the one for Compute takes
nine times as long to import, and its operations poll the public endpoint even when another is set.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from railhead.documents.codec import decode, key
from railhead.documents.lazy import dataclass
from railhead.installation import ADD_STACKS

from ...console import log
from ...console.wait import Clock, wait_until
from ...errors import RailheadError, UsageError
from ...host.buckets.gcs import STORAGE, StorageClient, google_session, send
from .. import login
from ..base import Incomplete, NoCredentials, Refused, through_outages
from ..machines import MOST_PAGES, too_many

T = TypeVar("T")
COMPUTE = "https://compute.googleapis.com/compute/v1/"
ENDPOINTS = {
    "compute": COMPUTE,
    "storage": STORAGE,
    "cloudresourcemanager": "https://cloudresourcemanager.googleapis.com/",
    "iam": "https://iam.googleapis.com/",
    "cloudbilling": "https://cloudbilling.googleapis.com/",
    "bigquery": "https://bigquery.googleapis.com/bigquery/v2/",
    "orgpolicy": "https://orgpolicy.googleapis.com/",
}
OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_"  # gcloud's own variables for other endpoints
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
VARIABLES = ("CLOUDSDK_", "GOOGLE_", "GCE_", "NO_GCE_")  # of the login
CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"  # a variable: the file
LOGIN = "gcloud auth application-default login"
OPERATION_SECONDS = 600.0


@dataclass(frozen=True)
class Page:
    """A page of a list. `unreachable`: the places whose items it lacks."""

    nextPageToken: str = ""
    unreachable: tuple[str, ...] = ()
    others: Mapping[str, Any] = key({}, rest=True)


P = TypeVar("P", bound=Page)


def refuse_missing(places: Collection[str]) -> None:
    """Raise Incomplete for the zones and regions that are not in a list."""
    if places:
        raise Incomplete(f"Google does not reach {', '.join(sorted(places))}")


@dataclass(frozen=True)
class GoogleClient(StorageClient):
    """Sends requests with a session of `requests`; `compute` and `storage` are base addresses.

    Raises:
        UsageError: the credentials are not valid any more. RailheadError: the network failed.
        Refused: Google refused; its reason, otherwise the HTTP status, is the error's `error_code`.
    """

    compute: str = COMPUTE

    def __call__(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of a response; `path` is below Compute's address, or a whole address."""
        return _json(self.request(method, path, **options))

    def get(self, kind: type[T], path: str, **options: Any) -> T:
        """The response to a GET; the fields of the dataclass `kind` have Google's names.
        RailheadError: also if Google answers something else."""
        answer = self("GET", path, **options)
        return decode(kind, answer, what=f"Google's answer to GET {path}", error=RailheadError)

    def items(
        self, kind: Any, path: str, query: Mapping[str, str], key: str = "items"
    ) -> Iterator[Any]:
        """The items of a list, under a key of its pages, each as `get` returns it.

        Raises:
            Incomplete: at the end, if the list lacks what Google does not reach.
            RailheadError: as in `get`; or there are too many pages.
        """
        missing: set[str] = set()
        for page in self.pages(Page, path, query):
            missing |= {*page.unreachable}
            listed = page.others.get(key, ())
            yield from decode(tuple[kind, ...], listed, what=f"{path}, {key}", error=RailheadError)
        refuse_missing(missing)

    def pages(self, kind: type[P], path: str, query: Mapping[str, str]) -> Iterator[P]:
        """The pages of a list; errors as in `items`."""
        more: dict[str, str] = {}
        for _ in range(MOST_PAGES):
            page = self.get(kind, path, params={**query, **more})
            yield page
            if not page.nextPageToken:
                return
            more = {"pageToken": page.nextPageToken}
        raise too_many(f"Google's {path.rpartition('/')[2]}")

    def read(self, address: str, **options: Any) -> Iterator[bytes]:
        """The content of a response, in chunks; compared with Google's MD5 if it has one."""
        from requests import RequestException

        try:
            yield from super().read(address, **options)
        except RequestException as error:
            raise RailheadError(f"Google call failed: {error}") from None

    def request(self, method: str, address: str, **options: Any) -> Any:
        """The response itself; its status is below 400."""
        from google.auth.exceptions import GoogleAuthError
        from requests import RequestException

        call = f"{method} {address}"
        if not address.startswith(("https://", "http://")):
            address = self.compute.rstrip("/") + "/" + address
        try:
            with log.timed(f"Google {method} {address.partition('?')[0]}") as notes:
                options.setdefault("timeout", self.silence)
                response = send(self.session, method, address, **options)
                notes.append(f"HTTP {response.status_code}")
            if response.status_code >= 400:
                raise refused(call, response.status_code, _json(response))
        except GoogleAuthError as error:
            raise UsageError(f"Google call failed: {error}", hint=LOGIN) from None
        except RequestException as error:
            raise RailheadError(f"Google call failed: {error}") from None
        return response


def connect() -> GoogleClient:
    """A client with the default credentials: `client("GET", "projects/p/zones/z/instances/i")`.

    Raises:
        NoCredentials: google-auth is not installed, or there are no credentials.
        UsageError: GOOGLE_APPLICATION_CREDENTIALS names none.
    """
    try:
        from google.auth.exceptions import DefaultCredentialsError
    except ImportError:
        why = "google-auth, which signs requests to Google, is not installed"
        raise NoCredentials(why, hint=ADD_STACKS) from None
    # It warns when no default project is set, but every path here contains its project.
    logging.getLogger("google.auth._default").setLevel(logging.ERROR)
    try:
        session = _session(login.state(VARIABLES, _files))
    except DefaultCredentialsError as error:
        if os.environ.get(CREDENTIALS):  # no login replaces these
            raise UsageError(f"{CREDENTIALS}: {error}", hint=f"unset {CREDENTIALS}") from None
        raise NoCredentials("Google call failed: you are not logged in", hint=LOGIN) from None
    storage = endpoint("storage").removesuffix("storage/v1/")
    return GoogleClient(session, storage, endpoint("compute"))


def _files(variables: Mapping[str, str]) -> tuple[Path, ...]:
    folder = Path(variables.get("CLOUDSDK_CONFIG") or Path.home() / ".config/gcloud")
    default = folder / "application_default_credentials.json"
    return (Path(variables.get(CREDENTIALS) or default),)


@lru_cache(1)
def _session(_login: object) -> Any:
    """The session of a login, kept: a new one starts `gcloud` for the project, and requests another
    token."""
    return google_session(SCOPE)


def endpoint(api: str) -> str:
    """The base address of an API of `ENDPOINTS`, with a slash at its end."""
    address = os.environ.get(f"{OVERRIDE}{api.upper()}") or ENDPOINTS[api]
    return address.rstrip("/") + "/"


def default_project() -> str | None:
    """The project of the default credentials or of gcloud; None if neither names one."""
    import google.auth
    from google.auth.exceptions import GoogleAuthError

    try:
        project: str | None = google.auth.default(scopes=[SCOPE])[1]
    except GoogleAuthError:
        return None
    return project


def _json(response: Any) -> Any:
    """The JSON of a response; a refused download has a line of plain text instead."""
    try:
        return response.json() if response.content else {}
    except ValueError:
        return {"error": {"message": response.text[:200]}}


@dataclass(frozen=True)
class Error:
    """What Google says of a call that it refused."""

    message: str = ""
    errors: tuple[str, ...] = key((), path="reason")


def refused(call: str, status: int, response: Any) -> Refused:
    """The error for a call that Google refused; `response` is the JSON of its response."""
    try:
        error = decode(Error, response, path="error")
    except ValueError:
        error = Error()
    code = error.errors[0] if error.errors else str(status)
    hint = LOGIN if status == 401 else ""
    return Refused(f"Google refuses {call}: {error.message or status}", code, hint=hint)


@dataclass(frozen=True)
class OperationError:
    """Why an operation failed; `errorDetails` are of no fixed form."""

    code: str = "?"
    message: str = ""
    errorDetails: Any = None


@dataclass(frozen=True)
class Operation:
    """A change that Google carries out after it has answered."""

    name: str = ""
    selfLink: str = ""
    status: str = ""
    error: tuple[OperationError, ...] = key((), path="errors")


@through_outages()
def wait_for_operation(client: GoogleClient, answer: Any, clock: Clock) -> None:
    """Wait for the operation of one zone that a call has begun; `answer` is its response.

    Raises:
        Refused: it failed; Google reports an operation's error at its end, not in the call.
        RailheadError: it took longer than ten minutes.
    """
    operation = decode(Operation, answer, what="Google's operation", error=RailheadError)
    path = operation.selfLink.partition("/compute/v1/")[2]

    def ended() -> bool:
        nonlocal operation
        if operation.status != "DONE" and path:
            operation = client.get(Operation, path)
        return operation.status == "DONE"

    seconds = OPERATION_SECONDS if path else 0.0
    if not wait_until(ended, seconds=seconds, every=2.0, clock=clock):
        raise RailheadError(f"Google's operation {operation.name} does not end")
    for error in operation.error:
        zones = ", ".join(texts_of(error.errorDetails, "zonesAvailable"))
        more = f"; free now: {zones}" if zones else ""
        raise Refused(f"Google refuses: {error.code}: {error.message}{more}", error.code)


def texts_of(document: Any, key: str) -> Iterator[str]:
    """Every text under a key, anywhere in a JSON document."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name == key and isinstance(value, str) and value:
                yield value
            else:
                yield from texts_of(value, key)
    elif isinstance(document, list):
        for value in document:
            yield from texts_of(value, key)
