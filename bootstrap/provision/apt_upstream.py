"""Outbound connections of the apt proxy: to public addresses that are not this computer's and to
the networks of MIRRORS, and through the proxy of this computer if it has one, which then resolves
the names."""

from __future__ import annotations

import os
import socket
from http.client import HTTPConnection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from ..clouds import own_address
from ..errors import UsageError

# The variable with the networks of mirrors that are not public, as in 10.1.2.0/24,10.9.0.7.
MIRRORS = "RAILHEAD_MIRROR_NETWORKS"
SILENCE = 20  # seconds; apt itself gives up after 30

# Each cloud's own services for its machines. Only Azure's are at a public address.
CLOUD_SERVICES = frozenset({"168.63.129.16", "100.100.100.200", "169.254.169.254", "fd00:ec2::254"})
UNICAST6, UNIQUE_LOCAL6 = ip_network("2000::/3"), ip_network("fc00::/7")
NAT64 = ip_network("64:ff9b::/96")  # the last 32 bits are an address of IPv4


class PrivateAddress(OSError):
    """The name resolves to an address that is not public, or is this computer's."""


def resolve(host: str, port: int) -> list[Any]:
    """The socket addresses of a name.

    Raises:
        PrivateAddress: an address is not public, or is this computer's or a cloud's own service.
        OSError: the name does not resolve.
    """
    addresses = [entry[4] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    if private := [str(address[0]) for address in addresses if _is_private(str(address[0]))]:
        raise PrivateAddress(
            f"{host} resolves to {private[0]}; hosts may reach only public addresses and {MIRRORS}"
        )
    return addresses


def _is_private(address: str) -> bool:
    """Whether hosts must not reach this address through this computer."""
    ip = ip_address(address.partition("%")[0])
    if isinstance(ip, IPv6Address) and (inner := ip.ipv4_mapped or _of_nat64(ip)):
        return _is_private(str(inner))
    if str(ip) in CLOUD_SERVICES or _is_local(ip) or _is_own(str(ip)):
        return True
    return not (ip.is_global or any(ip in network for network in mirror_networks()))


def _is_local(address: IPv4Address | IPv6Address) -> bool:
    """Whether the address can never be a mirror's, in any network."""
    if isinstance(address, IPv6Address):
        # 6to4 and Teredo lead to an IPv4 address that is in the IPv6 address.
        unicast = address in UNICAST6 or address in UNIQUE_LOCAL6
        return not unicast or bool(address.sixtofour or address.teredo)
    if address.is_loopback or address.is_unspecified or address.is_link_local:
        return True
    return address.is_multicast or address.is_reserved


def mirror_networks() -> tuple[IPv4Network | IPv6Network, ...]:
    """The networks of MIRRORS. UsageError: one is not a network."""
    texts = map(str.strip, os.environ.get(MIRRORS, "").split(","))
    try:
        return tuple(ip_network(text) for text in texts if text)
    except ValueError as error:
        raise UsageError(
            f"{MIRRORS}: {error}; networks and addresses, separated by commas",
            hint=f"export {MIRRORS}=10.1.2.0/24",
        ) from None


def _of_nat64(address: IPv6Address) -> IPv4Address | None:
    return IPv4Address(int(address) & 0xFFFFFFFF) if address in NAT64 else None


def _is_own(address: str) -> bool:
    """Whether an address is one of this computer's: then the route to it starts at the address
    itself."""
    try:
        return own_address.on_route_to(address) == address
    except OSError:  # there is no route to it
        return False


def check_destination(host: str, port: int, scheme: str) -> None:
    """As `resolve`, but a name that does not resolve is allowed if this computer uses a proxy."""
    try:
        resolve(host, port)
    except socket.gaierror:
        if not proxy_for(host, scheme):
            raise


def proxy_for(host: str, scheme: str) -> str:
    """The address of this computer's own proxy for a host; empty without one."""
    return "" if proxy_bypass(host) else getproxies().get(scheme, "")


def connect(host: str, port: int) -> socket.socket:
    """A TCP connection to an https host. OSError: the host is unreachable."""
    proxy = urlsplit(proxy_for(host, "https"))
    if proxy.hostname:
        check_destination(host, port, "https")
        tunnel = HTTPConnection(proxy.hostname, proxy.port or 80, timeout=SILENCE)
        tunnel.set_tunnel(host, port)
        tunnel.connect()
        return tunnel.sock
    return connect_directly(host, port)


def connect_directly(host: str, port: int) -> socket.socket:
    """A TCP connection to one of the addresses that `resolve` checked: another look-up of the name
    may have another answer."""
    failure: OSError = PrivateAddress(host)
    for address in resolve(host, port):
        try:
            return socket.create_connection(address[:2], SILENCE)
        except OSError as error:
            failure = error
    raise failure
