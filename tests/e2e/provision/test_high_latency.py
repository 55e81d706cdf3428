"""`fab bootstrap` of hosts with 100 ms latency, with 5 % packet loss, and with both; a transfer
that was interrupted before."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from e2e.adhoc_hosts import introduce
from e2e.local_hosts import Operator, wait_until
from hosts.full_host import FullHost

from bootstrap.plan.runtimes import uv_digest

pytestmark = [pytest.mark.root, pytest.mark.slow]

Start = Callable[..., list[FullHost]]


def unready(host: FullHost, *, everything: bool) -> Path:
    """Remove the mark of the complete runtime; `everything`: also what is sent for it, the
    installer and the wheel, 36 MB. Returns Railhead's folder there."""
    ours = "/root/.railhead"
    sent = f"{ours}/uv {ours}/wheels {ours}/blobs" if everything else ""
    removal = host.exec("sh", "-c", f"rm -r {ours}/envs/*/.ok {sent}")
    assert removal.returncode == 0, removal.stderr
    return host.disk.root / ours[1:]


def test_far_and_lossy_hosts_become_ready_in_one_connection_each(
    laptop: Operator, ready_hosts: Start
) -> None:
    """With both, TCP carries 50 kB/s: there only the runtime's mark is missing.

    Before, a bootstrap of the far host was killed while it sent the installer, and on the lossy one
    an earlier version left the installer's folder empty.
    """
    far, lossy, both = machines = ready_hosts("far", "lossy", "both")
    hosts = introduce(laptop, *machines)
    folders = [unready(host, everything=host is not both) for host in machines]
    installers = [folder / "uv" for folder in folders[:2]]
    (installers[1] / uv_digest()).mkdir(parents=True)
    far.far(rtt_ms=100)
    lossy.far(lossy=5)
    both.far(rtt_ms=100, lossy=5)
    process = laptop.start("bootstrap", "--hosts", "lap-far")
    wait_until(lambda: (folders[0] / "blobs").is_dir(), 60, "the transfer begins")
    process.kill()
    process.communicate(timeout=60)
    assert not (installers[0] / uv_digest()).exists()
    before = {host: host.calls() for host in machines}
    command = laptop.fab("bootstrap", "--hosts", hosts, seconds=250).ended(0)
    for host in machines:
        ready = rf"\[lap-{host.name}\] ready in [^,]+, 1 connection, \d"
        assert re.search(ready, command.out), command
        assert host.calls() - before[host] == 1
    for name in ("lap-far", "lap-lossy"):
        assert f"[{name}] uv: copy uv" in command.out
    for installer in installers:
        assert [path.name for path in installer.iterdir()] == [uv_digest()]
        assert (installer / uv_digest() / "uv").stat().st_size > 10_000_000
    laptop.fab("plan", "--hosts", hosts).ended(0, f"[{hosts.replace(',', ', ')}] nothing to do")
