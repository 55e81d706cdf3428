"""A network of full hosts: one bridge, one free 10.77.x.0/24, one key that its hosts accept.

Everything that it creates on the machine is named after its tag (`rh<pid>_<n>`). `close` removes
it, at the latest when the process ends; if that was killed, the next network does. A living owner
holds a lock on its folder, so a folder without a lock is abandoned.
"""

from __future__ import annotations

import atexit
import fcntl
import itertools
import os
import re
from pathlib import Path
from typing import IO

from file_lock import locked
from hosts import cleanup
from hosts.command import run

COUNTER = itertools.count()
FIRST_HOST = 10

# Hosts with internet share the machine's address; nobody outside can connect to them. Packets from
# host to host pass here too if br_netfilter shows bridged packets to the filters.
SHARED = """
table ip {tag} {{
  chain leaving {{
    type nat hook postrouting priority 100;
    ip saddr {subnet} oifname != "{tag}" masquerade
  }}
  chain passing {{
    type filter hook forward priority 0;
    iifname "{tag}" oifname "{tag}" accept
    oifname "{tag}" ct state new drop
  }}
}}
"""
CLOSED = """
table ip {tag} {{
  chain passing {{
    type filter hook forward priority 0;
    iifname "{tag}" oifname "{tag}" accept
    iifname "{tag}" drop
    oifname "{tag}" drop
  }}
}}
"""


class Network:
    """The network between full hosts.

    `internet`: its hosts reach what the machine reaches (package registries), from its address.
    `reachable`: if off, the machine cannot reach its hosts; only a host in two networks can.
    """

    def __init__(self, *, internet: bool = False, reachable: bool = True) -> None:
        self._creator = os.getpid()
        self.tag = f"rh{self._creator}_{next(COUNTER)}"
        self.folder = cleanup.ROOT / self.tag
        self.internet = internet
        self.reachable = reachable
        self._addresses = itertools.count(FIRST_HOST)
        with locked(cleanup.ROOT / "lock"):
            cleanup.remove_the_dead()
            self._owner = self._own()
            self.prefix = free_prefix()
            (self.folder / "prefix").write_text(self.prefix)
            self._build()
        atexit.register(self.close)
        self.key = self.folder / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "tests", "-f", str(self.key))

    @property
    def subnet(self) -> str:
        """The network's addresses, as in 10.77.0.0/24."""
        return f"{self.prefix}.0/24"

    @property
    def gateway(self) -> str:
        """The machine's own address in this network."""
        return f"{self.prefix}.1"

    def next_leg(self) -> tuple[str, str]:
        """A free address, and the name of the machine's end of its wire."""
        number = next(self._addresses)
        return f"{self.prefix}.{number}", f"{self.tag}_{number - FIRST_HOST}"

    def close(self) -> None:
        """Stop every host, remove the network; a second call, or a forked child, does nothing."""
        if not self._owner.closed and self._creator == os.getpid():
            atexit.unregister(self.close)
            with locked(cleanup.ROOT / "lock"):
                cleanup.remove(self.folder)
                self._owner.close()
                cleanup.forwarding_off_if_unused()

    def _own(self) -> IO[str]:
        self.folder.mkdir(parents=True)
        owner = (self.folder / "owner").open("w")
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return owner

    def _build(self) -> None:
        run("ip", "link", "add", self.tag, "type", "bridge")
        if self.reachable:
            run("ip", "addr", "add", f"{self.gateway}/24", "dev", self.tag)
        else:
            # Without it the machine would send these packets out to its own default route.
            run("ip", "route", "add", "unreachable", self.subnet)
        run("ip", "link", "set", self.tag, "up")
        rules = SHARED if self.internet else CLOSED
        run("nft", "-f", "-", stdin=rules.format(tag=self.tag, subnet=self.subnet))
        if self.internet:
            cleanup.forwarding_on(self.tag)
            cleanup.forwarding_on(outer_interface())


def free_prefix() -> str:
    """The first three numbers of a /24 that this machine does not use."""
    taken = run("ip", "-4", "addr") + run("ip", "-4", "route", "show", "table", "all")
    for third in range(1, 255):
        if not re.search(rf"\b10\.77\.{third}\.", taken):
            return f"10.77.{third}"
    raise RuntimeError("no /24 of 10.77.0.0/16 is free")


def outer_interface() -> str:
    """The interface of the default route."""
    found = re.search(r"\bdev (\S+)", run("ip", "-4", "route", "show", "default"))
    if not found:
        raise RuntimeError("this machine has no default route: hosts cannot have internet")
    return found.group(1)


def outer_mtu() -> str:
    """The largest packet that leaves this machine in one piece; hosts must not send larger ones."""
    try:
        return Path(f"/sys/class/net/{outer_interface()}/mtu").read_text().strip()
    except RuntimeError:
        return "1500"
