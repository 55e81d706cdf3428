"""`fab doctor`: prints all checks, or the rights that a stack needs."""

from __future__ import annotations

import json
from typing import TextIO

from railhead.documents.codec import encode

from ..console.output import print_lines
from ..console.text import count
from ..errors import Command, RailheadError, UsageError
from . import doctor as checks


def doctor(stack: str | None, file: TextIO | None) -> None:
    """Print the diagnosis of this computer, and of a stack; as JSON into `file`. RailheadError:
    something prevents `fab up`."""
    diagnosis = checks.diagnose(stack)
    if file:
        print(json.dumps(encode(diagnosis), indent=1), file=file)
    else:
        print_lines(*checks.lines(diagnosis))
    if blocking := diagnosis.blocking:
        raise RailheadError(
            f"{count(len(blocking), 'check')} of {len(diagnosis.checks)} failed",
            hint=blocking[0].next,
        )


def policy(stack: str | None, cloud: str | None) -> str:
    """The rights that a stack needs, or any stack of a cloud: a JSON document. UsageError: neither
    a stack nor a cloud is named."""
    request = checks.request_of(stack) if stack and not cloud else None
    cloud = cloud or (request.cloud if request else None)
    if cloud is None:
        raise UsageError(
            "which cloud? There is no stack of a cloud here",
            hint=Command("doctor", policy=True, cloud="aws"),
        )
    return json.dumps(encode(checks.policy(cloud, request)), indent=2)
