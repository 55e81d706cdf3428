"""Reboots a host and reconnects within a time limit: same host key, new boot id."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from railhead.documents.lazy import dataclass

from ..console.output import Reporter
from ..console.wait import wait_until
from ..errors import RailheadError, UsageError
from ..facts.host import HostFacts
from ..inventory.hosts import Host, Inventory
from ..ssh import connect
from ..ssh.as_root import as_root
from ..ssh.host_keys import ChangedHostKey, UnknownHostKey
from ..ssh.session import ConnectionLost, Session

BACK_SECONDS = 600.0  # GPU machines with much memory boot for minutes
OUR_BOOT = Path("/proc/sys/kernel/random/boot_id")
BOOT = f"cat {OUR_BOOT}"

# Detached and delayed by a second, so that the reply arrives before the connection breaks. The
# script does nothing if the host has rebooted already. It waits for the system changes of another
# bootstrap (the lock of system_changes.sh), whose dpkg it would kill.
SCRIPT = """[ "$({read})" = {boot} ] || exit 0
setsid sh -c 'sleep 1; flock -w 480 /run/railhead/lock true
systemctl reboot || reboot' </dev/null >/dev/null 2>&1 &
"""
# Services that still start may load the driver. A failed unit does not extend the wait.
SETTLED = "timeout 60 systemctl is-system-running --wait >/dev/null 2>&1"


@dataclass(frozen=True)
class RebootWait:
    """How long a host may be unreachable and how often to try again; seconds."""

    back: float = BACK_SECONDS
    every: float = 3.0


def reboot(
    inventory: Inventory,
    session: Session,
    facts: HostFacts,
    report: Reporter,
    *,
    wait: RebootWait = RebootWait(),  # noqa: B008
) -> Session:
    """Reboot the host of a session; closes the session and returns a new one.

    Raises:
        UsageError: the host is the machine that runs this command.
        RailheadError: the host did not come back, or its host key changed.
    """
    _refuse_this_machine(session.host, facts)
    script = SCRIPT.format(read=BOOT, boot=facts.boot_id)
    with contextlib.suppress(ConnectionLost):  # the reboot may come before the reply
        session.sh(as_root(script), silence=30)
    session.close()
    return _wait_for_host(inventory, session.host, facts.boot_id, report, wait)


def _refuse_this_machine(host: Host, facts: HostFacts) -> None:
    if OUR_BOOT.exists() and OUR_BOOT.read_text().strip() == facts.boot_id:
        raise UsageError(
            f"{host} is the computer that you work on: Railhead does not reboot it",
            hint="sudo systemctl reboot   # then the same command again",
        )


def _wait_for_host(
    inventory: Inventory, host: Host, before: str, report: Reporter, wait: RebootWait
) -> Session:
    started = time.monotonic()
    attempt: Session | str = ""

    def returned() -> Session | None:
        nonlocal attempt
        report(f"reboot: waiting for it to come back, {time.monotonic() - started:.0f} s")
        attempt = _reconnect(inventory, host, before)
        return attempt if isinstance(attempt, Session) else None

    session = wait_until(returned, seconds=wait.back, every=wait.every)
    if session is None:
        raise RailheadError(
            f"it did not come back within {wait.back:.0f} s of its reboot: {attempt}",
            hint="the machine's console shows why; when it is up, run the same command again",
        )
    session.sh(SETTLED)
    return session


def _reconnect(inventory: Inventory, host: Host, before: str) -> Session | str:
    """A session with the rebooted host; otherwise the reason why there is none yet."""
    opened = connect.open_sessions(inventory.only([host.name]))
    if host.name in opened.failed:
        why = opened.reasons[host.name]
        if isinstance(opened.failed[host.name], (ChangedHostKey, UnknownHostKey)):
            raise RailheadError(f"after its reboot: {why}")
        return why
    session = opened[host.name]
    try:
        if session.sh(BOOT, silence=30).strip() != before:
            return session
        why = "it has not gone down"
    except ConnectionLost:
        why = "it went down during a new connection"
    session.close()
    return why
