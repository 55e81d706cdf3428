"""Replaces an injected host key at the first connection.

The injected key was in the machine's user data, which others may read. The new key is generated on
the host, read over the connection that the injected key verifies, and pinned beside the old one
before sshd uses it. After an interruption, the next attempt continues with the key that the host
presents. Once the host presents the new key, the pin of the injected key is removed.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from ..console.output import Reporter
from ..console.wait import Clock, wait_until
from ..errors import HostsNotReady, RailheadError
from ..inventory import local_state
from ..inventory.hosts import Inventory
from ..ssh import connect
from ..ssh.as_root import run_as_root
from ..ssh.connect import Sessions
from ..ssh.session import ConnectionLost, Session
from . import cloud_host_keys, reach

NEXT = "next"  # mark of a pin: generated on the host, not yet seen in use
NEW_KEY_SECONDS = 20.0  # sshd takes some tenths of a second
POLL_SECONDS = 0.5
KEY = "/etc/ssh/ssh_host_ed25519_key"  # the default path of cloud-init and sshd

MAKE = f"""set -e
rm -f {KEY}.next {KEY}.next.pub
ssh-keygen -q -t ed25519 -N '' -C '' -f {KEY}.next
cat {KEY}.next.pub"""
# The present keys are compared first: another computer may replace them at the same time.
SWITCH = f"""set -e
PATH=$PATH:/usr/sbin:/sbin
public() {{ ssh-keygen -y -f "$1" | cut -d ' ' -f 1,2; }}
[ "$(public {KEY}.next)" = "$NEW" ] || {{ echo 'another key was created meanwhile'; exit 1; }}
case "$KNOWN" in *"$(public {KEY})"*) ;; *) echo 'it has another key already'; exit 1 ;; esac
sync
mv {KEY}.next.pub {KEY}.pub
mv {KEY}.next {KEY}
sync
if [ -d /run/systemd/system ]; then systemctl reload ssh || systemctl reload sshd
else "$(command -v sshd)" -t && kill -HUP "$(cat /run/sshd.pid)"; fi"""


def due(inventory: Inventory) -> Inventory | None:
    """The hosts whose pinned key is an injected one; None if there are none."""
    marked = cloud_host_keys.injected_names(inventory)
    return inventory.only(marked) if any(h.name in marked for h in inventory.hosts) else None


def rotate(inventory: Inventory, report: Reporter, *, clock: Clock | None = None) -> None:
    """Replace the keys of the hosts that are due. Safe to interrupt at any point and to repeat.
    HostsNotReady: a host cannot be reached, or its key cannot be changed."""
    with local_state.alone_in(inventory.name):
        due_hosts = due(inventory)
        if due_hosts is None:
            return
        report(f"changing the injected host keys of {', '.join(h.name for h in due_hosts.hosts)}")
        with reach.sessions(due_hosts) as sessions:
            _change(due_hosts, _drop_old_pins(sessions))
        _wait_for_new_keys(due_hosts, clock or Clock())


def _drop_old_pins(sessions: Sessions) -> dict[str, Session]:
    """Drop the old pins of hosts that present their new key; returns the other sessions."""
    seen = {}
    for name, session in sessions.items():
        pins, key = _pins(sessions.inventory, name), session.host_key
        shown = [pin for pin in pins if pin[1:3] == [key.get_name(), key.get_base64()]]
        if shown and shown[0][4:] == [NEXT]:
            seen[name] = [" ".join(shown[0][1:4])]
    cloud_host_keys.replace_pins(sessions.inventory, seen)
    return {name: session for name, session in sessions.items() if name not in seen}


def _pins(inventory: Inventory, name: str) -> list[list[str]]:
    return [line for line in cloud_host_keys.pin_fields(inventory) if line[0] == name]


def _change(inventory: Inventory, sessions: Mapping[str, Session]) -> None:
    """Generate keys, add them to the pins, and only then make sshd use them."""
    new_keys = connect.everywhere(sessions, _make_key, what="making host keys", error=HostsNotReady)
    pinned = {name: _pins(inventory, name) for name in sessions}
    new_pins = {
        name: [*(" ".join(p[1:]) for p in pins), f"{new_keys[name]} {pins[0][3]} {NEXT}"]
        for name, pins in pinned.items()
    }
    cloud_host_keys.replace_pins(inventory, new_pins)
    known = {name: " ".join(" ".join(p[1:3]) for p in pins) for name, pins in pinned.items()}

    def switch(session: Session) -> None:
        name = session.host.name
        variables = f"NEW={shlex.quote(new_keys[name])} KNOWN={shlex.quote(known[name])}"
        _as_root(session, f"{variables}\n{SWITCH}")

    connect.everywhere(sessions, switch, what="changing host keys", error=HostsNotReady)


def _make_key(session: Session) -> str:
    key = " ".join(_as_root(session, MAKE).split()[-2:])
    if not cloud_host_keys.is_key(key):
        raise _rotation_error(key)
    return key


def _as_root(session: Session, script: str) -> str:
    """Run a script as root on the host; returns its output. RailheadError has the reason."""
    try:
        return run_as_root(session, script)
    except ConnectionLost:
        raise
    except RailheadError as error:
        raise _rotation_error(error.message) from None


def _rotation_error(reason: str) -> RailheadError:
    return RailheadError(f"its injected host key cannot be changed: {reason}")


def _wait_for_new_keys(inventory: Inventory, clock: Clock) -> None:
    """Wait until every host presents its new key; HostsNotReady if one does not in time."""
    outcomes: dict[str, str] = {}

    def all_shown() -> bool:
        nonlocal outcomes
        remaining = due(inventory)
        if remaining is None:
            return True
        with connect.open_sessions(remaining) as sessions:
            old = _drop_old_pins(sessions)
        outcomes = sessions.outcomes | dict.fromkeys(old, "it shows the injected key")
        return due(inventory) is None

    if not wait_until(all_shown, seconds=NEW_KEY_SECONDS, every=POLL_SECONDS, clock=clock):
        raise HostsNotReady("injected host keys are still in use", outcomes, hint="the same again")
