"""Whether this computer's public address is among those that may connect to the machines."""

from __future__ import annotations

import ipaddress
import shlex

from railhead.documents.doctor import Check

from ..clouds import own_address


def check(cidrs: str, option: str = "") -> Check:
    """Compare the address with `ssh_cidrs` of the config of the stack that `option` names."""
    try:
        return check_address(own_address.public(), cidrs, option)
    except (OSError, ValueError) as why:
        text = f"this computer's public address was not compared: {why}"
        return Check(
            "ssh_cidrs", "unknown", text, f"curl {own_address.SERVICE}   # is it in ssh_cidrs?"
        )


def check_address(address: own_address.Address, cidrs: str, option: str = "") -> Check:
    """Whether one of the networks, separated by commas, contains the address."""
    networks = [ipaddress.ip_network(text.strip(), strict=False) for text in cidrs.split(",")]
    if any(address in network for network in networks):
        return Check("ssh_cidrs", "ok", f"{address} may connect")
    text = f"{address}, the public address of this computer, is not in {cidrs}"
    wider = shlex.quote(f"{cidrs},{address}/{address.max_prefixlen}")
    return Check("ssh_cidrs", "warns", text, f"pulumi config set{option} ssh_cidrs {wider}")
