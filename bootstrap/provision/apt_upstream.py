"""Outbound connections of the apt proxy: never to this machine or its link-local network, and
through this machine's own proxy if it has one."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

SILENCE = 20  # seconds; apt itself gives up after 30


class PrivateAddress(OSError):
    """The name resolves to an address of this machine or of its link-local network."""


def resolve(host: str, port: int) -> list[Any]:
    """The socket addresses of a name.

    Raises:
        PrivateAddress: an address is this machine's or link-local, where clouds serve credentials.
        OSError: the name does not resolve.
    """
    found = [entry[4] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if any(_is_private(str(address[0])) for address in found):
        raise PrivateAddress(f"{host} resolves to this computer or its local link")
    return found


def _is_private(address: str) -> bool:
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    inner = found.is_loopback or found.is_unspecified
    return inner or found.is_link_local or found.is_multicast


def check_destination(host: str, port: int, scheme: str) -> None:
    """As `resolve`, but a name that does not resolve is allowed if this machine uses a proxy."""
    try:
        resolve(host, port)
    except socket.gaierror:
        if not proxy_for(host, scheme):
            raise


def proxy_for(host: str, scheme: str) -> str:
    """The address of this machine's own proxy for a host; empty without one."""
    return "" if proxy_bypass(host) else getproxies().get(scheme, "")


def connect(host: str, port: int) -> socket.socket:
    """A TCP connection to an https host. OSError: the host is unreachable."""
    own = urlsplit(proxy_for(host, "https"))
    if own.hostname:
        check_destination(host, port, "https")
        tunnel = HTTPConnection(own.hostname, own.port or 80, timeout=SILENCE)
        tunnel.set_tunnel(host, port)
        tunnel.connect()
        return tunnel.sock
    failure: OSError = PrivateAddress(host)
    for address in resolve(host, port):  # connect only to the addresses that `resolve` checked
        try:
            return socket.create_connection(address[:2], SILENCE)
        except OSError as error:
            failure = error
    raise failure
