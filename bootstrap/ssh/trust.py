"""`fab trust`: show the keys of hosts that are not pinned yet, ask, and pin them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable

from bootstrap.errors import HostsNotReady, UsageError
from bootstrap.inventory import local_state
from bootstrap.inventory.files import atomic_write
from bootstrap.inventory.hosts import Inventory
from bootstrap.ssh import connect
from bootstrap.ssh.host_keys import UnknownHostKey, fingerprint


def unknown_keys(inventory: Inventory) -> dict[str, UnknownHostKey]:
    """The hosts whose keys nothing here vouches for, each with the key that it showed.

    Jump hosts count: the one in the way is named first, and its own key is what is asked about.

    Raises:
        HostsNotReady: a host cannot be asked, or its key is another than the pinned one.
    """
    opened, failed = connect.open_sessions(inventory)
    for session in opened.values():
        session.close()
    others = {name: why for name, why in failed.items() if not isinstance(why, UnknownHostKey)}
    if others:
        told = connect.describe_outcomes(inventory, others)
        raise HostsNotReady("some hosts cannot be asked for their key", told)
    return {name: why for name, why in failed.items() if isinstance(why, UnknownHostKey)}


def pin_keys(found: dict[str, UnknownHostKey], agreed: Callable[[str], bool]) -> list[str]:
    """Append the agreed keys to our known_hosts; returns a line for each that was pinned.

    Raises:
        UsageError: one was not agreed to; none is pinned then.
    """
    path = local_state.home() / "known_hosts"
    lines = []
    for shown in _once(found.values()):
        said = f"{shown.hostname} {shown.key.get_name()} {fingerprint(shown.key)}"
        if not agreed(said):
            raise UsageError(f"{shown.hostname} is not trusted; nothing was pinned")
        lines.append((said, f"{shown.hostname} {shown.key.get_name()} {shown.key.get_base64()}\n"))
    had = path.read_text() if path.exists() else ""
    atomic_write(path, had + "".join(line for _, line in lines))
    return [f"pinned {said}" for said, _ in lines]


def _once(found: Iterable[UnknownHostKey]) -> Iterable[UnknownHostKey]:
    """Each key once, though several hosts stand behind the same jump host."""
    return {(shown.hostname, shown.key.get_base64()): shown for shown in found}.values()


def by_user(yes: bool) -> Callable[[str], bool]:
    """Agreement by who types the command; with `yes` nobody is asked."""

    def agreed(said: str) -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError(f"{said}\nnobody is here to ask", hint="the same command with --yes")
        return input(f"{said}\nIs it the key of that machine? [y/N] ").strip().lower() == "y"

    return agreed
