"""AWS for a test: moto with our additions behind a real port, and clients that ask it.

with Cloud() as cloud:
    cloud.client("ec2").describe_instances()
    os.environ |= cloud.env          # for programs that are started
"""

from __future__ import annotations

import json
import logging
from typing import Any
from urllib import request

import boto3
from moto.server import ThreadedMotoServer
from standins.aws import boto_data, moto_plus

ACCOUNT = "123456789012"
VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
OWN = ("testing", "testing", "testing")


class Cloud:
    """One moto, empty at its start. There is one per process: moto's state is global."""

    def __init__(self) -> None:
        moto_plus.add()
        boto_data.read_once()
        logging.getLogger("werkzeug").setLevel(logging.WARNING)
        self._server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        self.endpoint = ""
        self._clients: dict[tuple[str, str], Any] = {}
        self._keys = OWN

    def __enter__(self) -> Cloud:
        self._server.start()
        self.endpoint = f"http://127.0.0.1:{self._server.get_host_and_port()[1]}"
        self.reset()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()

    def reset(self) -> None:
        """Forget everything."""
        moto_plus.reset()
        self._keys = OWN
        self._clients.clear()
        query = request.Request(f"{self.endpoint}/moto-api/reset", method="POST")
        with request.urlopen(query) as answer:
            assert json.load(answer) == {"status": "ok"}

    @property
    def extra(self) -> moto_plus.Extra:
        """Quotas, retired types and images, for a test to set."""
        return moto_plus.extra

    @property
    def env(self) -> dict[str, str]:
        """The environment by which AWS's SDKs and CLI ask this one."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            **dict(zip(VARIABLES, self._keys, strict=True)),
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def log_in(self, account: str) -> None:
        """Let its clients and `env` be those of another account."""
        role = f"arn:aws:iam::{account}:role/person"
        answer = self.client("sts").assume_role(RoleArn=role, RoleSessionName="person")
        keys = answer["Credentials"]
        self._keys = keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"]
        self._clients.clear()

    def client(self, service: str, region: str = "us-east-1") -> Any:
        """A client of a service, made once."""
        if (service, region) not in self._clients:
            session = boto3.Session(*self._keys, region_name=region)
            made = session.client(service, endpoint_url=self.endpoint)
            self._clients[service, region] = made
        return self._clients[service, region]
