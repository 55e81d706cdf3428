"""Calls to AWS with timeouts and retries; its errors become RailheadErrors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from functools import cache, lru_cache, partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from railhead.documents.codec import decode
from railhead.documents.times import moment
from railhead.installation import ADD_STACKS

from ...console import log
from ...errors import RailheadError, UsageError
from ...host.buckets import s3
from ...host.buckets.s3 import Call, boto_client, boto_session
from .. import login
from ..base import NoCredentials, Refused
from ..machines import MOST_PAGES, too_many

T = TypeVar("T")
AwsClient = Call
UNAUTHORIZED = ("UnauthorizedOperation", "AccessDenied")  # codes of errors
_one_at_a_time = Lock()

_EXPIRED = "aws sso login   # or new keys: aws sts get-caller-identity shows who you are"
_HINTS = {
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestExpired": _EXPIRED,
    "AuthFailure": _EXPIRED,
    "InvalidClientTokenId": _EXPIRED,
    "AccessDenied": "aws sts get-caller-identity   # this identity lacks the permission",
}


def connect(region: str | None) -> AwsClient:
    """A client of one region, or that of the user's configuration: `client("ec2",
    "describe_instances", ...)`.

    Raises:
        NoCredentials: boto3 is not installed, or (in a call) there are no credentials.
        Refused: (in a call) AWS refused it; its code is the error's `error_code`.
    """
    if not find_spec("boto3"):
        raise _not_installed()
    client = partial(_client, region)
    return lambda service, operation, **parameters: _call(client, service, operation, parameters)


def default_region() -> str | None:
    """The region of the user's configuration. UsageError: that configuration cannot be read, or
    lacks the profile that a variable names."""
    if not find_spec("boto3"):
        raise _not_installed()
    from botocore.exceptions import BotoCoreError

    try:
        region: str | None = boto_session().region_name
    except BotoCoreError as error:
        raise UsageError(f"AWS call failed: {error}") from None
    return region


def _client(region: str | None, service: str) -> Any:
    with _one_at_a_time:  # boto3 reads its service models without a lock
        return _clients(login.state(("AWS_",), _files))(region, service)


def _files(variables: Mapping[str, str]) -> tuple[Path, ...]:
    folder = Path.home() / ".aws"
    return (
        Path(variables.get("AWS_CONFIG_FILE") or folder / "config"),
        Path(variables.get("AWS_SHARED_CREDENTIALS_FILE") or folder / "credentials"),
    )


@lru_cache(1)
def _clients(_login: object) -> Callable[[str | None, str], Any]:
    """The factory of a login's clients: it creates each once, in one session. A new session would
    request the role and the MFA code again, and a client takes 0.1 s of CPU time."""
    session = boto_session()
    return cache(lambda region, service: boto_client(service, region, session))


def _not_installed() -> NoCredentials:
    return NoCredentials("boto3, the SDK of AWS, is not installed", hint=ADD_STACKS)


def ask(
    kind: type[T], client: AwsClient, service: str, operation: str, path: str, **parameters: Any
) -> T:
    """What the response of a call has at a path, such as `Role.Arn`; the fields of a dataclass
    `kind` have AWS's names. RailheadError: AWS does not answer, refuses, or answers something
    else."""
    return _decoded(kind, client(service, operation, **parameters), operation, path)


def _decoded(kind: type[T], answer: Any, operation: str, path: str) -> T:
    what = f"the answer to {operation}"
    return decode(kind, answer, what=what, error=RailheadError, path=path)


def items(
    kind: Any,
    client: AwsClient,
    service: str,
    operation: str,
    key: str,
    token: str = "NextToken",
    **parameters: Any,
) -> Iterator[Any]:
    """The items of a list, from the key `key` of all its pages; the key `token` of a page names the
    next one. RailheadError: as in `ask`; or there are too many pages."""
    for _ in range(MOST_PAGES):
        answer = client(service, operation, **parameters)
        yield from _decoded(tuple[kind, ...], answer, operation, key)
        parameters[token] = answer.get(token)
        if not parameters[token]:
            return
    raise too_many(f"AWS {operation}")


def _call(client: Callable[[str], Any], service: str, operation: str, parameters: Any) -> Any:
    from botocore import exceptions as errors

    try:
        with log.timed(f"AWS {service} {operation}"):
            return s3.call(client(service), operation, **parameters)
    except errors.ClientError as error:
        details = error.response["Error"]
        code = str(details.get("Code", "?"))
        message = f"AWS refuses {operation}: {code}: {details.get('Message', '')}"
        raise Refused(message, code, hint=_HINTS.get(code, "")) from None
    except errors.NoCredentialsError as error:
        raise NoCredentials(f"AWS call failed: {error}", hint=_EXPIRED) from None
    except (errors.PartialCredentialsError, errors.SSOError) as error:
        raise UsageError(f"AWS call failed: {error}", hint=_EXPIRED) from None
    except (errors.ProfileNotFound, errors.NoRegionError) as error:
        raise UsageError(f"AWS call failed: {error}") from None
    except (errors.BotoCoreError, s3.CutOff) as error:
        raise RailheadError(f"AWS call failed: {error}") from None


def credentials_end() -> datetime | None:
    """When the credentials of this computer expire; None if they do not, or if the time is
    unknown."""
    from botocore.session import get_session

    credentials = get_session().get_credentials()
    end = getattr(credentials, "_expiry_time", None)  # there is no public name for it
    if isinstance(end, datetime):
        return end.astimezone(timezone.utc)
    # Of `aws configure export-credentials`.
    return moment(os.environ.get("AWS_CREDENTIAL_EXPIRATION"))


def checked(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of an object as they arrive. RailheadError: they ended early, or do not match the
    hash that S3 has."""
    from botocore.exceptions import BotoCoreError

    try:
        yield from pieces
    except BotoCoreError as error:
        raise RailheadError(f"AWS call failed: {error}") from None
