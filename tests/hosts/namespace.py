"""The network namespace of one host, its connections to networks, and their faults."""

from __future__ import annotations

import subprocess

from hosts import latency
from hosts.command import run
from hosts.network import Network, outer_mtu

# What most systems send by, whatever this machine does: it is what suffers from lost packets.
SENDS_BY = "cubic"


class Namespace:
    """A new network namespace in one network; its name is that of its first wire."""

    def __init__(self, network: Network) -> None:
        self._wires: list[str] = []
        self._network = network
        self.relay: subprocess.Popen[str] | None = None
        address, wire = network.next_leg()
        self.namespace = wire
        self.address = address
        run("ip", "netns", "add", self.namespace)
        self._plug(network, wire, address)
        self._inside("link set lo up", *self._way_out())

    def _way_out(self) -> list[str]:
        reachable = self._network.reachable
        return [f"route add default via {self._network.gateway}"] if reachable else []

    def add(self, network: Network) -> str:
        """Connect it to another network too; returns its address there."""
        address, wire = network.next_leg()
        self._plug(network, wire, address)
        return address

    def _plug(self, network: Network, wire: str, address: str) -> None:
        inside = f"eth{len(self._wires)}"
        mtu = outer_mtu()
        pair = f"link add {wire} mtu {mtu} type veth peer name {inside} mtu {mtu}"
        lines = [f"{pair} netns {self.namespace}", f"link set {wire} master {network.tag} up"]
        run("ip", "-batch", "-", stdin="\n".join(lines))
        self._inside(f"addr add {address}/24 dev {inside}", f"link set {inside} up")
        self._wires.append(wire)

    def lengthen(self, rtt_ms: int, percent: int) -> None:
        """Replace the first wire by one with this round trip, and this loss in each direction.
        Address and connections stay."""
        wire = self._wires[0]
        if self.relay:
            self.relay.kill()
            self.relay.wait()
        run("ip", "link", "del", wire, check=False)
        self.relay = latency.lay(wire, self.namespace, "eth0", rtt_ms, percent)
        state = f"mtu {outer_mtu()} txqueuelen 10000 up"
        lines = [f"link set {wire} master {self._network.tag} {state}"]
        if self._network.reachable:
            road = f"{self.address}/32 dev {self._network.tag}"
            lines.append(f"route replace {road} congctl {SENDS_BY}")
        run("ip", "-batch", "-", stdin="\n".join(lines))
        subnet = f"{self._network.subnet} dev eth0 src {self.address} congctl {SENDS_BY}"
        leg = [f"addr add {self.address}/24 dev eth0 noprefixroute", f"route add {subnet}"]
        self._inside(f"link set eth0 {state}", *leg, *self._way_out())

    def _inside(self, *lines: str) -> None:
        run("ip", "-n", self.namespace, "-batch", "-", stdin="\n".join(lines))

    def turn(self, state: str) -> None:
        """Set the machine's ends of all wires "up" or "down"; addresses stay."""
        lines = [f"link set {wire} {state}" for wire in self._wires]
        run("ip", "-batch", "-", stdin="\n".join(lines))

    def block(
        self, peer: str | None, port: int | None, *, refuse: bool = False, calls: bool = False
    ) -> None:
        """Drop or refuse what comes from an address (None: all) to a port (None: all).

        Without a port, and unless refused, what goes to that address is dropped too. `calls`:
        only the start of a connection from there, so one direction alone is closed. The wire
        itself stays up, so that an end of the block is felt at once: after a cut wire, neighbours
        take each other for unreachable for up to three seconds more.
        """
        verdict = "reject with tcp reset" if refuse else "drop"
        source = f"ip saddr {peer}" if peer else 'iifname != "lo"'
        target = f"ip daddr {peer}" if peer else 'oifname != "lo"'
        match = f"tcp dport {port}" if port else "meta l4proto tcp" if refuse else ""
        match = "tcp flags & (syn | ack) == syn" if calls else match
        arriving = f"{source} {match} {verdict}"
        leaving = "" if port or refuse or calls else f"{target} drop"
        self._nft(
            "table inet faults {\n"
            f"chain arriving {{ type filter hook input priority 0; {arriving}; }}\n"
            f"chain leaving {{ type filter hook output priority 0; {leaving}; }}\n"
            "}\n"
        )

    def unblock(self) -> None:
        """Remove all blocks, if there are any."""
        self._nft("add table inet faults\ndelete table inet faults\n")

    def slow(self, peer: str, mbit: int) -> None:
        """Limit what leaves to an address to so many Mbit/s."""
        inside = ["nsenter", f"--net=/run/netns/{self.namespace}"]
        tc = [*inside, "tc"]
        run(*tc, "qdisc", "replace", "dev", "eth0", "root", "handle", "1:", "htb")
        shape = ["htb", "rate", f"{mbit}mbit", "burst", "64k"]
        run(*tc, "class", "replace", "dev", "eth0", "parent", "1:", "classid", "1:10", *shape)
        leaving = f'ip daddr {peer} meta priority set "1:10"'
        self._nft(
            "table inet slowness {\n"
            f"chain leaving {{ type filter hook output priority 0; {leaving}; }}\n"
            "}\n"
        )

    def _nft(self, rules: str) -> None:
        run("nsenter", f"--net=/run/netns/{self.namespace}", "nft", "-f", "-", stdin=rules)
