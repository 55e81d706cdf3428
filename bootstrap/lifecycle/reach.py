"""The way in to all hosts of an inventory at once; where it is shut, whether that is the
cloud's firewall, and the command that opens it."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import socket
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bootstrap.clouds import base
from bootstrap.errors import HostsNotReady, RailheadError
from bootstrap.inventory.hosts import Inventory
from bootstrap.ssh import connect
from bootstrap.ssh.agents import STARTING, start_agent
from bootstrap.ssh.session import Session

SEEN_FROM_OUTSIDE = "https://checkip.amazonaws.com"  # AWS's own; it answers with an address
SECONDS = 5.0


@dataclass(frozen=True)
class Diagnosis:
    """What is known about hosts that cannot be reached, and the next command; both may be empty,
    where each host's own word has it."""

    said: str = ""
    next: str = ""


@contextlib.contextmanager
def sessions(inventory: Inventory) -> Iterator[dict[str, Session]]:
    """Connect to every host of the inventory; closes all at the end.

    Raises:
        HostsNotReady: one or more could not be reached; every host's outcome is told.
    """
    opened, failed = connect.open_sessions(inventory)
    try:
        if failed:
            what = f"{len(failed)} of {len(inventory.hosts)} hosts cannot be reached"
            raise not_reached(what, inventory, failed)
        yield opened
    finally:
        for session in opened.values():
            session.close()


@contextlib.contextmanager
def agents(inventory: Inventory) -> Iterator[tuple[dict[str, Session], dict[str, str]]]:
    """Connected to all hosts with an agent on each, and the path of each host's Python."""
    with sessions(inventory) as opened:
        pythons = connect.everywhere(opened, start_agent, what=STARTING)
        yield opened, pythons


def not_reached(what: str, inventory: Inventory, failed: Mapping[str, Exception]) -> HostsNotReady:
    """The error for hosts that could not be reached."""
    way = diagnose(inventory, failed)
    said = f"{what}; {way.said}" if way.said else what
    return HostsNotReady(said, connect.describe_outcomes(inventory, failed), hint=way.next)


def diagnose(inventory: Inventory, failed: Mapping[str, Exception]) -> Diagnosis:
    """What to do about hosts that cannot be reached."""
    if inventory.kind.this_machine:
        again = "fab start" if inventory.stack else "fab demo   # starts the local hosts"
        return Diagnosis(next=again)
    silent = any(_timed_out(error) for error in failed.values())
    return _firewall(inventory) if silent and not inventory.is_ad_hoc else Diagnosis()


def _timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError) or getattr(error, "errno", None) == errno.ETIMEDOUT


def _firewall(inventory: Inventory) -> Diagnosis:
    """Whether the cloud's firewall lets in whoever asks."""
    try:
        admitted = base.cloud_of(inventory).allowed_cidrs()
    except RailheadError as refused:
        return Diagnosis(f"whether the firewall lets you in is not known: {refused.message}")
    return verdict(admitted, own_address(inventory.chief.address))


def verdict(admitted: Sequence[str], own: str | None) -> Diagnosis:
    """What follows from the networks that are let in and from one's own address."""
    told = ", ".join(admitted) or "nobody"
    if own is None:
        return Diagnosis(
            f"its firewall lets in {told}, and your own address could not be found out",
            f"curl {SEEN_FROM_OUTSIDE}   # is it among them?",
        )
    if any(ipaddress.ip_address(own) in ipaddress.ip_network(network) for network in admitted):
        said = f"its firewall lets you in ({own} is in {told}), so the machine itself is silent"
        return Diagnosis(said, "fab status   # what the cloud says of it")
    networks = ",".join([*admitted, f"{own}/{ipaddress.ip_address(own).max_prefixlen}"])
    return Diagnosis(
        f"its firewall lets in {told}, and you come from {own}",
        f"pulumi config set ssh_cidrs {networks} && pulumi up",
    )


def own_address(target: str) -> str | None:
    """The address that machines at `target` see us come from; None if that cannot be found out.

    Between private addresses it is our own on the way there; to a public one a router may have
    changed it, so somebody outside is asked.
    """
    with contextlib.suppress(ValueError, OSError):
        ours = _source(target)
        if ipaddress.ip_address(target).is_private or ipaddress.ip_address(ours).is_global:
            return ours
    try:
        with urllib.request.urlopen(SEEN_FROM_OUTSIDE, timeout=SECONDS) as answer:
            return str(ipaddress.ip_address(answer.read(64).decode().strip()))
    except (OSError, ValueError):
        return None


def _source(target: str) -> str:
    """Our address on the way to another one. Nothing is sent."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((target, 9))
        return str(probe.getsockname()[0])
