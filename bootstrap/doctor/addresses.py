"""Whether this computer's public address is among those that may connect to the machines."""

from __future__ import annotations

import ipaddress
import os
import shlex
from urllib import request

from railhead.documents.doctor import Check

# AWS answers with the caller's address, one line of text.
SERVICE = "https://checkip.amazonaws.com"
VARIABLE = "RAILHEAD_ADDRESS_SERVICE"  # another service; empty: none
SECONDS = 5
LONGEST = 64  # characters of an address


def check(cidrs: str, option: str = "") -> Check:
    """Compare the address with `ssh_cidrs` of the config of the stack that `option` names."""
    service = os.environ.get(VARIABLE, SERVICE)
    try:
        if not service:
            raise ValueError(f"{VARIABLE} is empty")
        with request.urlopen(service, timeout=SECONDS) as answer:
            text = answer.read(LONGEST).decode("ascii", "replace").strip()
        return check_address(ipaddress.ip_address(text), cidrs, option)
    except (OSError, ValueError) as why:
        text = f"this computer's public address was not compared: {why}"
        return Check("ssh_cidrs", "unknown", text, f"curl {SERVICE}   # is it in ssh_cidrs?")


def check_address(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address, cidrs: str, option: str = ""
) -> Check:
    """Whether one of the networks, separated by commas, contains the address."""
    networks = [ipaddress.ip_network(text.strip(), strict=False) for text in cidrs.split(",")]
    if any(address in network for network in networks):
        return Check("ssh_cidrs", "ok", f"{address} may connect")
    text = f"{address}, the public address of this computer, is not in {cidrs}"
    wider = shlex.quote(f"{cidrs},{address}/{address.max_prefixlen}")
    return Check("ssh_cidrs", "warns", text, f"pulumi config set{option} ssh_cidrs {wider}")
