"""Whether the cloud is taking this spot machine back, according to its metadata service."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping

from ..run.time_left import TOOL

SERVICE = ("169.254.169.254", 80)  # of AWS and of Google Cloud
SECONDS = 0.5  # it answers within milliseconds
LARGEST = 1000  # bytes of an answer
GOOGLE = ("/computeMetadata/v1/instance/preempted", {"Metadata-Flavor": "Google"})
AMAZON = "/latest/meta-data/spot/instance-action"
TOKEN = ("/latest/api/token", {"X-aws-ec2-metadata-token-ttl-seconds": "60"})


def notices(tool: str = TOOL, service: tuple[str, int] = SERVICE) -> Iterator[str]:
    """A line if the machine is being taken back. Metadata is read only on a cloud machine: `tool`
    exists there."""
    if not os.path.exists(tool):
        return
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        if _answer(service, "GET", *GOOGLE) == "TRUE":
            yield "Compute Engine preempts this machine"
            return
        if token := _answer(service, "PUT", *TOKEN):
            headers = {"X-aws-ec2-metadata-token": token}
            answer = _answer(service, "GET", AMAZON, headers)
            if answer and json.loads(answer)["action"] in ("terminate", "stop", "hibernate"):
                yield "EC2 interrupts this spot instance"


def _answer(
    service: tuple[str, int], method: str, path: str, headers: Mapping[str, str]
) -> str | None:
    """The text of an answer; None if it is an error. OSError: nothing answers. ValueError: the
    answer is not HTTP."""
    import http.client  # loads many modules, and is rarely needed

    connection = http.client.HTTPConnection(*service, timeout=SECONDS)
    with contextlib.closing(connection):
        try:
            connection.request(method, path, headers=dict(headers))
            response = connection.getresponse()
            text = response.read(LARGEST).decode()
        except http.client.HTTPException as error:
            raise ValueError(str(error)) from error
        return text.strip() if response.status == 200 else None
