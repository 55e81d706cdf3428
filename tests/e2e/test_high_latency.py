"""`fab bootstrap` over long and bad ways: at 100 ms there and back, with 5 % lost, and both."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from e2e.adhoc_hosts import introduce
from e2e.local_hosts import Operator
from hosts.full_host import FullHost

pytestmark = [pytest.mark.root, pytest.mark.slow]

Start = Callable[..., list[FullHost]]


def unready(host: FullHost, *, whole: bool) -> None:
    """Take away what says that the runtime is there; `whole`: also what has to travel for it, the
    installer and the wheel, 36 MB."""
    ours = "/root/.railhead"
    gone = f"{ours}/uv {ours}/wheels {ours}/blobs" if whole else ""
    done = host.exec("sh", "-c", f"rm -r {ours}/envs/*/.ok {gone}")
    assert done.returncode == 0, done.stderr


def test_far_and_lossy_hosts_are_made_ready_in_one_connection_each(
    laptop: Operator, ready_hosts: Start
) -> None:
    """With both at once a TCP of today carries 50 kB/s: there only the rest is missing."""
    far, lossy, both = machines = ready_hosts("far", "lossy", "both")
    hosts = introduce(laptop, *machines)
    for host in machines:
        unready(host, whole=host is not both)
    far.far(rtt_ms=100)
    lossy.far(lossy=5)
    both.far(rtt_ms=100, lossy=5)
    before = {host: host.calls() for host in machines}
    done = laptop.fab("bootstrap", "--hosts", hosts, seconds=250).ended(0)
    for host in machines:
        assert re.search(rf"\[lap-{host.name}\] ready in [^,]+, 1 connection, \d", done.out), done
        assert host.calls() - before[host] == 1
    laptop.fab("plan", "--hosts", hosts).ended(0, "[lap-both] nothing to do")
