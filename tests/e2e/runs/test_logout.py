"""A host whose systemd ends at the logout what a user has started, with the real logind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.local_hosts import wait_until
from e2e.systemd_hosts import SystemdHosts, runs
from hosts.network import Network
from hosts.systemd import SystemdHost

from bootstrap.errors import RailheadError
from bootstrap.ssh.connect import start_agent
from railhead.documents.agent.commands import Start

pytestmark = [pytest.mark.root, pytest.mark.slow]

ENDS = "[Login]\nKillUserProcesses=yes\nUserStopDelaySec=0\n"
INSTALL = "apt-get update -q && apt-get install -q -y --no-install-recommends libpam-systemd"


@pytest.fixture
def host(network: Network, cloud_image: Path, home: Path) -> Iterator[SystemdHost]:
    host = SystemdHost(network, "a", base=cloud_image)
    host.write("/etc/systemd/logind.conf.d/ends.conf", ENDS)
    host.write("/etc/cloud/cloud-init.disabled", "")
    host.start()
    installed = host.exec("sh", "-c", INSTALL)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    (home / ".ssh").mkdir(mode=0o700, exist_ok=True)
    (home / ".ssh/known_hosts").write_text(host.known_hosts_line())
    yield host
    host.remove()


def start(host: SystemdHost, seconds: int) -> None:
    """Start a sleep as a run's supervisor is started, another one beside it, and log out."""
    with SystemdHosts([host], "rail").sessions() as opened:
        session = opened["a"]
        session.sh(f"setsid sleep {seconds + 1} >/dev/null 2>&1 &")
        start_agent(session, session.facts())
        session.call(Start(("sleep", str(seconds)), "~", {}, log="/dev/null"))


def test_a_run_survives_where_systemd_ends_what_a_login_has_started(host: SystemdHost) -> None:
    with pytest.raises(RailheadError, match="`loginctl enable-linger rail`"):
        start(host, 1000)
    assert host.exec("loginctl", "enable-linger", "rail").returncode == 0
    start(host, 2000)
    wait_until(lambda: not runs(host, "2001"), 60, "systemd has ended the login")
    assert len(runs(host, "2000")) == 1 and not runs(host, "1000")
