"""Where this computer goes for a host that asks: never into itself, and by its own proxy if it has
one."""

from __future__ import annotations

import socket
from http.client import HTTPConnection
from ipaddress import IPv6Address, ip_address
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

SILENCE = 20  # seconds; apt itself gives a server up after 30


class Inward(OSError):
    """The name leads into this computer, or to what is next to it alone."""


def checked(host: str, port: int) -> list[Any]:
    """Where a name leads, as addresses for a socket.

    Raises:
        Inward: to this computer itself, or to its own link, where clouds answer with secrets.
        OSError: nowhere.
    """
    found = [entry[4] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if any(_is_inward(str(address[0])) for address in found):
        raise Inward(f"{host} leads into this computer")
    return found


def _is_inward(address: str) -> bool:
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    inner = found.is_loopback or found.is_unspecified
    return inner or found.is_link_local or found.is_multicast


def check(host: str, port: int, scheme: str) -> None:
    """As `checked`; by a proxy of this computer also names that only the proxy knows."""
    try:
        checked(host, port)
    except socket.gaierror:
        if not proxy_for(host, scheme):
            raise


def proxy_for(host: str, scheme: str) -> str:
    """The address of this computer's own proxy for a host; empty where there is none."""
    return "" if proxy_bypass(host) else getproxies().get(scheme, "")


def connected(host: str, port: int) -> socket.socket:
    """A way to a host that speaks with encryption. OSError where there is none."""
    own = urlsplit(proxy_for(host, "https"))
    if own.hostname:
        check(host, port, "https")
        through = HTTPConnection(own.hostname, own.port or 80, timeout=SILENCE)
        through.set_tunnel(host, port)
        through.connect()
        return through.sock
    wrong: OSError = Inward(host)
    for address in checked(host, port):  # the very addresses that were looked at
        try:
            return socket.create_connection(address[:2], SILENCE)
        except OSError as error:
            wrong = error
    raise wrong
