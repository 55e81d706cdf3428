"""One way to ask AWS anything: bounded, retried, and with its refusals in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from bootstrap.clouds.base import Refused
from bootstrap.console import log
from bootstrap.errors import RailheadError, UsageError

Ask = Callable[..., Any]  # service, call, and the call's own words
PIECE = 1 << 20  # bytes

_EXPIRED = "aws sso login   # or new keys: aws sts get-caller-identity says who you are"
_HINTS = {
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestExpired": _EXPIRED,
    "AuthFailure": _EXPIRED,
    "InvalidClientTokenId": _EXPIRED,
    "AccessDenied": "aws sts get-caller-identity   # who asks: it lacks the right to this",
}


def connect(region: str | None) -> Ask:
    """`ask("ec2", "describe_instances", ...)` in a region.

    Raises:
        UsageError: boto3 is not installed, or (while asking) there are no credentials.
        Refused: (while asking) AWS said no; its own code is the error's `word`.
    """
    try:
        import boto3
    except ImportError:
        raise UsageError(
            "boto3, which asks AWS for its machines, is not installed",
            hint="scripts/setup --stacks",
        ) from None
    from botocore.config import Config

    retries = {"mode": "standard", "max_attempts": 5}
    bounds = Config(connect_timeout=5, read_timeout=30, retries=retries)

    @cache
    def client(service: str) -> Any:
        return boto3.Session(region_name=region).client(service, config=bounds)

    return lambda service, call, **words: _asked(client, service, call, words)


def _asked(client: Callable[[str], Any], service: str, call: str, words: dict[str, Any]) -> Any:
    from botocore import exceptions as wrong

    try:
        with log.timed(f"AWS {service} {call}"):
            return getattr(client(service), call)(**words)
    except wrong.ClientError as error:
        said = error.response["Error"]
        word = str(said.get("Code", "?"))
        told = f"AWS refuses {call}: {word}: {said.get('Message', '')}"
        raise Refused(told, word, hint=_HINTS.get(word, "")) from None
    except (wrong.NoCredentialsError, wrong.PartialCredentialsError, wrong.SSOError) as error:
        raise UsageError(f"AWS cannot be asked: {error}", hint=_EXPIRED) from None
    except (wrong.ProfileNotFound, wrong.NoRegionError) as error:
        raise UsageError(f"AWS cannot be asked: {error}") from None
    except wrong.BotoCoreError as error:
        raise RailheadError(f"AWS cannot be asked: {error}") from None


def pieces(body: Any) -> Iterator[bytes]:
    """The bytes of an object while they come.

    Raises:
        RailheadError: they ended early, or are not those that S3 has the hash of.
    """
    from botocore.exceptions import BotoCoreError

    try:
        while data := body.read(PIECE):
            yield data
    except BotoCoreError as error:
        raise RailheadError(f"AWS cannot be asked: {error}") from None
