"""How long `fab bootstrap` takes for a host that is far away or loses packets, against a near one.

    python -m benchmarks.far [--rounds 3] [--patient]

Fresh full hosts of the tests, so it needs root. What they lack: `key`, the chief's key alone;
`parts`, also the installer and the wheel, 36 MB, and the imports of TensorFlow that follow;
`wheels`, all, on a host that does not get out: 353 MB through the connection. With `--patient` also
`parts` where packets are late and lost: ten minutes.

Connections are counted by the host's kernel. Turns are counted on the wire to a near host: each
time that we speak after having heard costs a far one a round trip, so turns x round trip is the
floor for `key`. Exit 1 over twice the floor, or with more than one connection.
"""

from __future__ import annotations

import argparse
import os
import re
import socket
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bootstrap.inventory import caches

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from e2e import adhoc_hosts
from e2e.local_hosts import Operator
from hosts import requirements
from hosts.full_host import FullHost
from hosts.network import Network

RTT = 0.1
WAYS: dict[str, dict[str, int]] = {
    "near": {},
    "100 ms": {"rtt_ms": 100},
    "5 % lost": {"lossy": 5},
    "both": {"rtt_ms": 100, "lossy": 5},
}
LACKS = ("key", "parts", "wheels")
LONG = {("parts", "both"), ("wheels", "both"), ("wheels", "5 % lost")}
PATIENT = {("parts", "both")}
LIMIT = 2.0
ALL_FRAMES, OUTGOING = 3, 4


@dataclass(frozen=True)
class Took:
    """One bootstrap: its seconds, the connections that the host's kernel took, turns heard."""

    seconds: float
    connections: int
    turns: int


class Ear:
    """Counts the turns on a host's wire while it is held."""

    def __init__(self, wire: str) -> None:
        self.turns = 0
        self._frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
        self._frames.bind((wire, ALL_FRAMES))
        self._frames.settimeout(0.2)
        self._over = False
        self._thread = threading.Thread(target=self._listen)

    def __enter__(self) -> Ear:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over = True
        self._thread.join()
        self._frames.close()

    def _listen(self) -> None:
        heard = True
        while not self._over:
            try:
                frame, (_, _, kind, *_) = self._frames.recvfrom(1 << 16)
            except TimeoutError:
                continue
            if speaks(frame):
                ours = kind == OUTGOING
                self.turns += ours and heard
                heard = not ours


def speaks(frame: bytes) -> bool:
    """Whether an Ethernet frame is of our ssh: TCP from or to port 22, opening or with content."""
    if frame[12:14] != b"\x08\x00" or frame[23] != socket.IPPROTO_TCP:
        return False
    start = 14 + (frame[14] & 15) * 4
    source, target = struct.unpack_from("!HH", frame, start)
    content = struct.unpack_from("!H", frame, 16)[0] + 14 - start - (frame[start + 12] >> 4) * 4
    return 22 in (source, target) and (content > 0 or bool(frame[start + 13] & 2))


class Place:
    """Where hosts come from: a network with internet, one without, and the disk of a ready host."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.caches = folder, caches.cache("uv").parents[1]
        self.count = 0
        self.network, self.closed = Network(internet=True), Network()
        self.disk = folder / "ready-disk"
        adhoc_hosts.make_ready(self.network, self.operator(), self.disk)

    def operator(self) -> Operator:
        """Somebody new."""
        self.count += 1
        home = self.folder / str(self.count)
        home.mkdir()
        return Operator(home, home, self.caches)

    def host(self, lacks: str) -> FullHost:
        """A fresh host, started."""
        if lacks == "wheels":
            host = FullHost(self.closed, "h1", disk_mb=4000)
        else:
            host = FullHost(self.network, "h1", layers=[self.disk])
        host.start()
        if lacks == "parts":
            host.exec("sh", "-c", "cd ~/.railhead && rm -r envs/*/.ok uv wheels blobs")
        return host

    def measure(self, lacks: str, way: str) -> Took:
        """Make a fresh host ready over one of the ways."""
        host, operator = self.host(lacks), self.operator()
        try:
            if WAYS[way]:
                host.far(**WAYS[way])
            hosts = adhoc_hosts.introduce(operator, host)
            before, begun = host.calls(), time.monotonic()
            with Ear(host.legs.namespace) as ear:
                done = operator.fab("bootstrap", "--hosts", hosts, seconds=3600).ended(0)
            took = Took(time.monotonic() - begun, host.calls() - before, ear.turns)
            (last,) = re.findall(r"\] (ready in .*)", done.out)
            print(f"{lacks:<6}  {way:<8}  {took.seconds:5.1f} s  {last}", flush=True)
            return took
        finally:
            host.remove()


def show(taken: Mapping[tuple[str, str], Sequence[Took]]) -> int:
    """Print the least of each, against the near one's; the exit code."""
    least = {case: min(took.seconds for took in each) for case, each in taken.items()}
    print(f"load {os.getloadavg()[0]:.1f}; the least of each:")
    for (lacks, way), each in taken.items():
        seconds, calls = least[lacks, way], max(took.connections for took in each)
        ratio = seconds / least[lacks, "near"]
        print(f"{lacks:<6}  {way:<8}  {seconds:5.1f} s  {ratio:5.2f} x near  {calls} connections")
    turns = min(took.turns for took in taken["key", "near"])
    floor, cost = turns * RTT, least["key", "100 ms"] - least["key", "near"]
    print(f"{turns} turns: 100 ms cost {cost:.1f} s, {cost / floor:.2f} of the floor {floor:.1f} s")
    return int(cost > LIMIT * floor or any(t.connections > 1 for x in taken.values() for t in x))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--patient", action="store_true")
    options = parser.parse_args()
    if why := requirements.missing() or requirements.base_or_reason():
        sys.exit(why)
    left_out = LONG - PATIENT if options.patient else LONG
    cases = [(lacks, way) for lacks in LACKS for way in WAYS if (lacks, way) not in left_out]
    taken: dict[tuple[str, str], list[Took]] = {case: [] for case in cases}
    with tempfile.TemporaryDirectory() as name:
        place = Place(Path(name))
        for _ in range(options.rounds):
            for lacks, way in cases:
                taken[lacks, way].append(place.measure(lacks, way))
    return show(taken)


if __name__ == "__main__":
    sys.exit(main())
