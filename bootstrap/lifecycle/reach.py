"""Opens sessions with all hosts of an inventory. If some cannot be reached, finds out whether the
cloud's firewall is the reason, and which command opens it."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import shlex
from collections.abc import Iterator, Sequence

from railhead.documents.lazy import dataclass

from ..clouds import base, own_address
from ..errors import Command, Hint, HostsNotReady, NothingReached, RailheadError, typed_options
from ..inventory.hosts import Inventory
from ..ssh import connect
from ..ssh.connect import STARTING, Sessions, start_agent


@dataclass(frozen=True)
class Diagnosis:
    """Why hosts cannot be reached, and the next command. Both are empty if each host's error
    message already has them."""

    reason: str = ""
    hint: Hint | Command | str = ""


def sessions(inventory: Inventory) -> Sessions:
    """Connect to every host of the inventory; `with` closes all sessions at the end. HostsNotReady:
    one or more could not be reached; it has the outcome of every host."""
    opened = connect.open_sessions(inventory)
    if opened.failed:
        with opened:
            summary = f"{len(opened.failed)} of {len(inventory.hosts)} hosts cannot be reached"
            raise not_reached(summary, opened)
    return opened


@contextlib.contextmanager
def agents(inventory: Inventory) -> Iterator[tuple[Sessions, dict[str, str]]]:
    """Open sessions with an agent on each host; also yields the path of each host's Python."""
    with sessions(inventory) as opened:
        pythons = connect.everywhere(opened, start_agent, what=STARTING)
        yield opened, pythons


def not_reached(summary: str, sessions: Sessions) -> HostsNotReady:
    """The error for hosts that could not be reached."""
    diagnosis = diagnose(sessions)
    summary = "; ".join(filter(None, (summary, diagnosis.reason)))
    kind = NothingReached if sessions.out_of_reach else HostsNotReady
    return kind(summary, sessions.outcomes, hint=diagnosis.hint)


def diagnose(sessions: Sessions) -> Diagnosis:
    """Find out why hosts cannot be reached, and the next command."""
    inventory = sessions.inventory
    if inventory.kind.this_machine:
        return Diagnosis(hint=Command("start", **inventory.target))
    silent = any(map(_timed_out, sessions.failed.values()))
    return _check_firewall(inventory) if silent and not inventory.is_ad_hoc else Diagnosis()


def _timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or getattr(error, "errno", None) == errno.ETIMEDOUT


def _check_firewall(inventory: Inventory) -> Diagnosis:
    """Whether the cloud's firewall allows this computer's address."""
    try:
        allowed = base.cloud_of(inventory).allowed_cidrs()
    except RailheadError as refused:
        return Diagnosis(
            f"it is not known whether the firewall allows your address: {refused.message}"
        )
    return compare_cidrs(allowed, address_towards(inventory.chief.address), inventory.stack)


def compare_cidrs(
    allowed: Sequence[str], address: str | None, stack: str | None = None
) -> Diagnosis:
    """The diagnosis for the allowed networks and this computer's address, None if unknown."""
    listed = ", ".join(allowed) or "no address"
    if address is None:
        return Diagnosis(
            f"its firewall allows {listed}; your own address could not be determined",
            f"curl {own_address.SERVICE}   # is it among them?",
        )
    if any(ipaddress.ip_address(address) in ipaddress.ip_network(network) for network in allowed):
        reason = f"its firewall allows your address ({address} is in {listed}): it does not answer"
        return Diagnosis(
            reason, Hint(Command("status", stack=stack), "   # what the cloud says of it")
        )
    networks = ",".join([*allowed, f"{address}/{ipaddress.ip_address(address).max_prefixlen}"])
    option = typed_options({"stack": stack})
    return Diagnosis(
        f"its firewall allows {listed}, but your address is {address}",
        f"pulumi config set{option} ssh_cidrs {shlex.quote(networks)} && pulumi up{option}",
    )


def address_towards(address: str) -> str | None:
    """This machine's address as a host at `address` sees it; None if it cannot be determined. For a
    private address it is the local address of the route. On the way to a public one NAT may change
    it, so an external service is queried."""
    with contextlib.suppress(ValueError, OSError):
        ours = own_address.on_route_to(address)
        if ipaddress.ip_address(address).is_private or ipaddress.ip_address(ours).is_global:
            return ours
    with contextlib.suppress(OSError, ValueError):
        return str(own_address.public())
    return None
