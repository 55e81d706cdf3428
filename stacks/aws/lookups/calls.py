"""Calls to AWS that only read: the first one, which names the account, and the error of any.

Each raises ConfigError if a permission is missing: nothing is created on a guess.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import pulumi
import pulumi_aws as aws

from ...config.settings import ClusterConfig
from ...rules.validators import ConfigError

T = TypeVar("T")


@dataclass(frozen=True)
class Caller:
    """Who runs the command: the number of the account, and the identity in it."""

    account: str
    arn: str


def caller(config: ClusterConfig, opts: pulumi.InvokeOptions) -> Caller:
    """Who runs the command. This is the first call: it also shows whether AWS can be reached in the
    region. ConfigError: AWS does not answer there."""
    try:
        identity = aws.get_caller_identity(opts=opts)
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"region: AWS does not answer in {config.region}: {error}",
            "aws sts get-caller-identity && aws ec2 describe-regions --all-regions "
            "--query Regions[].[RegionName,OptInStatus]   # your identity, and your regions",
        ) from None
    return Caller(identity.account_id, identity.arn)


def lookup(permission: str, call: Callable[[], T]) -> T:
    """The result of a call to AWS. ConfigError: it failed; the message names the permission that it
    needs."""
    try:
        return call()
    except Exception as error:  # the type that a failed invoke raises
        raise ConfigError(
            f"AWS refused {permission}: {error}",
            f"aws sts get-caller-identity   # your identity; it needs the permission {permission}",
        ) from None
