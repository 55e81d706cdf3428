"""This computer's address, as others see it."""

from __future__ import annotations

import ipaddress
import os
import socket

# AWS answers with the caller's address, one line of text.
SERVICE = "https://checkip.amazonaws.com"
VARIABLE = "RAILHEAD_ADDRESS_SERVICE"  # another service; empty: none
SECONDS = 5.0
LONGEST = 64  # characters of an address

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def public() -> Address:
    """Its public address. OSError, ValueError: no service answers with one."""
    from urllib import request  # imported late: most hosts are reached

    service = os.environ.get(VARIABLE, SERVICE)
    if not service:
        raise ValueError(f"{VARIABLE} is empty")
    with request.urlopen(service, timeout=SECONDS) as answer:
        return ipaddress.ip_address(answer.read(LONGEST).decode("ascii", "replace").strip())


def on_route_to(address: str) -> str:
    """Its address on the route to another one; OSError without a route. Nothing is sent."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((address, 9))
        return str(probe.getsockname()[0])
