"""The port of a new endpoint, tried on its host before anything is sent there."""

from __future__ import annotations

from bootstrap.errors import UsageError
from bootstrap.inventory.hosts import whole_number
from bootstrap.serving.place import Place
from bootstrap.ssh.local_session import HERE
from bootstrap.untrusted.unpack import Hostile

TRIED = 100  # ports
# Prints the first port from $1 to $2 of 127.0.0.1 that nothing listens on.
_FREE = """
import socket, sys
for port in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        continue
    print(port)
    break
"""


def choose_port(place: Place, wanted: int | None, usual: int) -> int:
    """The port that was wanted, else the first free one from the usual one on.

    Raises:
        UsageError: the wanted port is in use, or none is free.
    """
    first, last = (wanted, wanted) if wanted else (usual, usual + TRIED - 1)
    argv = [place.python, "-I", "-S", "-c", _FREE, str(first), str(last)]
    tail = place.session.run(argv).tail
    if not tail:
        ports = f"port {first}" if first == last else f"each port from {first} to {last}"
        where = "this machine" if place.host == HERE else place.host
        raise UsageError(
            f"{ports} of {where} is in use",
            hint="the same command without --port takes the next free one"
            if wanted
            else "the same command with --port",
        )
    try:
        found = whole_number(tail[-1], "port", first, last)
    except UsageError:
        raise Hostile("a port that is not valid") from None
    assert found is not None
    return found
