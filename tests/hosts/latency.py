"""A slow connection to a host: packets arrive later in both directions, and some are lost.

The kernel's own delay (netem) is missing in many virtual machines. Here a process between the two
ends of the host's wire forwards each frame when it is due, and drops some.

    latency.py OUTER INNER MILLISECONDS PERCENT     OUTER: the machine's end, an open file
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress

SET_INTERFACE = 0x400454CA  # TUNSETIFF
ETHERNET = 0x0002 | 0x1000  # IFF_TAP | IFF_NO_PI
FRAME = 1 << 16
AT_ONCE = 128  # frames of one end before the other's turn


def lay(outer: str, namespace: str, inner: str, rtt_ms: int, percent: int) -> subprocess.Popen[str]:
    """A wire between here and a network namespace, with these names at its ends and half of the
    round trip in each direction. It exists as long as its process, which runs in the namespace."""
    end = interface(outer)
    try:
        enter = ["nsenter", f"--net=/run/netns/{namespace}"]
        args = [str(end), inner, str(rtt_ms / 2), str(percent)]
        process = subprocess.Popen(
            [*enter, sys.executable, "-I", "-S", __file__, *args],
            pass_fds=[end],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
    finally:
        os.close(end)
    assert process.stdout
    if process.stdout.readline() != "laid\n":
        raise RuntimeError(f"no relay between {outer} and {inner} in {namespace}")
    return process


def interface(name: str) -> int:
    """A new network interface: reading gives what the kernel sends, writing is what it receives."""
    end = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(end, SET_INTERFACE, struct.pack("16sH14x", name.encode(), ETHERNET))
    return end


def relay(ends: tuple[int, int], delay: float, lost: float) -> None:
    """Forward frames for ever, in order, each `delay` seconds after its arrival."""
    under_way: tuple[deque[tuple[float, bytes]], ...] = (deque(), deque())
    while True:
        due = min((queue[0][0] for queue in under_way if queue), default=None)
        wait = None if due is None else max(due - time.monotonic(), 0)
        ready = select.select(ends, [], [], wait)[0]
        for end, queue in zip(ends, under_way, strict=True):
            if end in ready:
                queue.extend(
                    (time.monotonic() + delay, f) for f in frames(end) if random.random() >= lost
                )
        for end, queue in zip(reversed(ends), under_way, strict=True):
            while queue and queue[0][0] <= time.monotonic():
                with suppress(OSError):  # that end is down: lost, as on any wire
                    os.write(end, queue.popleft()[1])


def frames(end: int) -> list[bytes]:
    """The frames that have arrived at one end."""
    arrived: list[bytes] = []
    with suppress(BlockingIOError):
        while len(arrived) < AT_ONCE:
            arrived.append(os.read(end, FRAME))
    return arrived


if __name__ == "__main__":
    _, outer, inner, milliseconds, percent = sys.argv
    ends = (int(outer), interface(inner))
    print("laid", flush=True)
    relay(ends, float(milliseconds) / 1000, float(percent) / 100)
