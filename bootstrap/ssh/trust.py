"""`fab trust`: shows the keys of hosts that are not pinned yet, and pins those that the user
confirms."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import HostsNotReady, NothingReached, UsageError
from ..inventory import local_state
from ..inventory.files import atomic_write
from ..inventory.hosts import Inventory
from . import connect
from .host_keys import UnknownHostKey, fingerprint


def unknown_keys(inventory: Inventory) -> dict[str, UnknownHostKey]:
    """The hosts whose keys are not pinned, each with the key that it presents.

    For a host behind a jump host with an unknown key, it is the key of the jump host.

    Raises:
        HostsNotReady: a host cannot be reached, or its key differs from the pinned one.
    """
    with connect.open_sessions(inventory, keys_only=True) as sessions:
        failed = sessions.failed
    unknown = {name: error for name, error in failed.items() if isinstance(error, UnknownHostKey)}
    if len(unknown) < len(failed):
        outcomes = sessions.outcomes | dict.fromkeys(unknown, "ok")
        others = (error for name, error in failed.items() if name not in unknown)
        kind = NothingReached if all(map(connect.is_out_of_reach, others)) else HostsNotReady
        raise kind("the keys of some hosts cannot be read", outcomes)
    return unknown


def pin_keys(unknown: dict[str, UnknownHostKey], agreed: Callable[[str], bool]) -> list[str]:
    """Append keys to ~/.railhead/known_hosts; returns a line for each. `agreed` confirms each.

    Raises:
        UsageError: a key is not confirmed, or the file cannot be read; then no key is pinned.
    """
    path = local_state.home() / "known_hosts"
    lines = []
    # Each key once: several hosts can be behind the same jump host.
    keys = {(shown.hostname, shown.key.get_base64()): shown for shown in unknown.values()}
    for shown in keys.values():
        label = f"{shown.hostname} {shown.key.get_name()} {fingerprint(shown.key)}"
        if not agreed(label):
            raise UsageError(f"{shown.hostname} is not trusted; nothing was pinned")
        lines.append((label, f"{shown.hostname} {shown.key.get_name()} {shown.key.get_base64()}\n"))
    try:
        previous = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    end = b"\n" if previous and not previous.endswith(b"\n") else b""
    atomic_write(path, previous + end + "".join(line for _, line in lines).encode())
    return [f"pinned {label}" for label, _ in lines]
