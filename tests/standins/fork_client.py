"""A request to the server of forks (tests/standins/fork_server.py): also for the command `forked`,
whose Python has no packages."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence


def request(
    address: str,
    argv: Sequence[str],
    environment: Mapping[str, str],
    streams: Sequence[int],
    **process: object,
) -> socket.socket:
    """Start a program with these three streams, in `folder`; a `umask`, a limit of `file_size`, and
    whether it `ignores_interrupt`, where they are not those of the server. The socket receives its
    exit code; closing it kills the program."""
    message = {"argv": argv, "environment": dict(environment), **process}
    text = json.dumps(message).encode()
    server = socket.socket(socket.AF_UNIX)
    server.connect(address)
    socket.send_fds(server, [len(text).to_bytes(4, "big")], streams)
    server.sendall(text)
    return server


def exit_code(server: socket.socket) -> int:
    """How the program ended; 99 where the server did not say."""
    return int(server.recv(16) or 99)
