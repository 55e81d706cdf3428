"""`fab` for the stack in the working directory. It does not wait between two questions to a cloud:
those of the tests answer at once. Nor for the machines of a cloud, which nobody has made: at their
addresses a network may be silent until the time limit."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

from bootstrap.cli.program import main
from bootstrap.clouds import base
from bootstrap.inventory import pulumi_cli

CONNECT = socket.create_connection


def connect(address: tuple[Any, Any], *args: Any, **options: Any) -> socket.socket:
    """A connection within this computer; any other one is refused."""
    if not str(address[0]).startswith("127."):
        raise ConnectionRefusedError(f"{address[0]} is a machine of a stand-in")
    return CONNECT(address, *args, **options)


vars(socket)["create_connection"] = connect
pulumi_cli.CLONE = Path.cwd()
base.POLL_SECONDS = 0.05
main()
