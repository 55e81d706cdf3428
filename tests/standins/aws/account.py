"""An AWS account of moto, cheap enough for each test to have its own.

with account():                     # credentials are the caller's business
    machines = run_instances(2)     # as EC2 describes them
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import cache
from typing import Any
from unittest import mock

import boto3
import moto
from standins.aws import boto_data, moto_plus

REGION = "us-east-1"
IMAGE = "ami-12c6146b"  # moto runs any; to load or list the hundreds that it knows takes seconds
NO_IMAGES = {"MOTO_EC2_LOAD_DEFAULT_AMIS": "false"}


@contextlib.contextmanager
def account() -> Iterator[None]:
    """An empty account, for clients that are created in the block."""
    boto_data.read_once()
    moto_plus.add()
    moto_plus.reset()
    with mock.patch.dict(os.environ, NO_IMAGES), moto.mock_aws():
        yield


def client(service: str, region: str = REGION) -> Any:
    """A client of a service of the account of the moment: moto's here, or that of a server."""
    variables = (pair for pair in os.environ.items() if pair[0].startswith("AWS_"))
    return _client(service, region, tuple(sorted(variables)))


@cache
def _client(service: str, region: str, _: tuple[tuple[str, str], ...]) -> Any:
    """A client for these variables, which it reads when it is created."""
    return boto3.client(service, region_name=region)


def run_instances(count: int = 1, tags: dict[str, str] | None = None, **options: Any) -> list[Any]:
    """Run instances with these tags."""
    listed = [{"Key": key, "Value": value} for key, value in (tags or {}).items()]
    if listed:
        options["TagSpecifications"] = [{"ResourceType": "instance", "Tags": listed}]
    answer = client("ec2").run_instances(
        ImageId=IMAGE, MinCount=count, MaxCount=count, InstanceType="g4dn.xlarge", **options
    )
    return list(answer["Instances"])
