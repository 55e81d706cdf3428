"""`fab trust`: show the keys of hosts that are not pinned yet, ask, and pin them."""

from __future__ import annotations

from collections.abc import Callable

from bootstrap import connect, record
from bootstrap.errors import HostsNotReady, UsageError
from bootstrap.inventory import Inventory
from bootstrap.pins import UnknownHostKey, fingerprint


def unknown(inventory: Inventory) -> dict[str, UnknownHostKey]:
    """The hosts whose keys nothing here vouches for, each with the key that it showed.

    Jump hosts count: the one in the way is named first, and its own key is what is asked about.

    Raises:
        HostsNotReady: a host cannot be asked, or its key is another than the pinned one.
    """
    opened, failed = connect.reach(inventory)
    for session in opened.values():
        session.close()
    others = {name: why for name, why in failed.items() if not isinstance(why, UnknownHostKey)}
    if others:
        told = connect.tell(inventory, others)
        raise HostsNotReady("some hosts cannot be asked for their key", told)
    return {name: why for name, why in failed.items() if isinstance(why, UnknownHostKey)}


def pin(found: dict[str, UnknownHostKey], agreed: Callable[[str], bool]) -> list[str]:
    """Append the agreed keys to our known_hosts; returns a line for each that was pinned."""
    path = record.home() / "known_hosts"
    lines, told = [], []
    for name, shown in found.items():
        key = shown.key
        said = f"{name}: {key.get_name()} {fingerprint(key)}"
        if not agreed(said):
            raise UsageError(f"{name} is not trusted; nothing was pinned")
        lines.append(f"{shown.hostname} {key.get_name()} {key.get_base64()}\n")
        told.append(f"pinned {said}")
    had = path.read_text() if path.exists() else ""
    record.write_text(path, had + "".join(lines))
    return told
