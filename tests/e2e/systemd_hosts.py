"""Systemd hosts for system changes: how tests change them, and what they read from them."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any

from e2e.apt_packages import HELD
from e2e.gpu_standin import RAN
from e2e.local_hosts import wait_until
from hosts.systemd import SystemdHost

from bootstrap.console.live import Board
from bootstrap.facts.host import HostFacts
from bootstrap.inventory.hosts import Host, Inventory
from bootstrap.plan.system_changes import Changes
from bootstrap.provision.reboot import reboot
from bootstrap.provision.system import change_system
from bootstrap.provision.system_script import RetryPolicy, run_system_script
from bootstrap.ssh import connect
from bootstrap.ssh.connect import Sessions

TIMERS = ("apt-daily.timer", "apt-daily-upgrade.timer")
BRIEF = RetryPolicy(wait_seconds=20, retries=2, pause=1)
CLOUD_INIT = """#!/bin/sh
[ "$2" = --wait ] && sleep 1 && exit {code}
echo 'status: {status}'; echo 'errors:'; echo '  - (scripts_user, RuntimeError(1 failed))'
"""


class SystemdHosts:
    """Some systemd hosts, and the system changes on them."""

    def __init__(self, hosts: list[SystemdHost], user: str) -> None:
        self.hosts = hosts
        key = str(hosts[0].network.key)
        named = tuple(Host(host.name, host.address, user=user) for host in hosts)
        self.inventory = Inventory("team", named, key_file=key)
        self.messages = StringIO()

    def sessions(self) -> Sessions:
        opened = connect.open_sessions(self.inventory)
        assert not opened.failed, opened.failed
        return opened

    def work(self, **changes: Any) -> dict[str, HostFacts]:
        """The same changes on every host, as `fab bootstrap` makes them; returns the new facts."""
        with self.sessions() as opened:
            return self.work_on(opened, dict.fromkeys(opened, Changes(**changes)))

    def work_on(self, opened: Sessions, wanted: Mapping[str, Changes]) -> dict[str, HostFacts]:
        facts = connect.all_facts(opened)
        with Board(self.messages, list(opened), every=0) as board:
            return change_system(opened, facts, wanted, board)

    def run_system_script(
        self,
        policy: RetryPolicy = BRIEF,
        report: Callable[[str], object] = lambda _: None,
        **kw: Any,
    ) -> list[str]:
        """Run only the script, on the first host; returns its output, of which `report` gets each
        line at once."""
        lines: list[str] = []

        def show(line: str) -> None:
            lines.append(line)
            report(line)

        options = {name: kw.pop(name) for name in ("keyrings",) if name in kw}
        with self.sessions() as opened:
            (session, *_) = opened.values()
            changes = Changes(**kw)
            run_system_script(session, session.facts(), changes, show, policy=policy, **options)
        return lines

    def killed_at(self, step: str, **changes: Any) -> None:
        """Run the script, and kill this process at the first output of a step."""

        def report(line: str) -> None:
            if line.startswith(f"{step}: "):
                os.kill(os.getpid(), signal.SIGKILL)

        with self.sessions() as opened:
            (session, *_) = opened.values()
            run_system_script(session, session.facts(), Changes(**changes), report, policy=BRIEF)

    def killed_in_reboot(self) -> None:
        """Reboot the host, and kill this process when the host has the command."""
        with self.sessions() as opened:
            (session, *_) = opened.values()
            facts = session.facts()
            reboot(self.inventory, session, facts, lambda _: os.kill(os.getpid(), signal.SIGKILL))


Start = Callable[..., SystemdHosts]


def who_ran(host: SystemdHost) -> list[str]:
    """The packages whose postinst has run, once for each time."""
    path = host.disk.root / RAN.lstrip("/")
    return path.read_text().split() if path.exists() else []


def timers(host: SystemdHost) -> set[str]:
    return {host.systemctl("is-active", timer) for timer in TIMERS}


def runs(host: SystemdHost, word: str) -> list[int]:
    """The machine's pids of the host's processes with this argument."""
    return [process.pid for process in host.processes() if word in process.argv]


def hold(host: SystemdHost) -> None:
    """From now on the host's apt waits in the scripts of packages that can be held."""
    host.write(HELD, "")


def release(host: SystemdHost) -> None:
    """End the wait."""
    (host.disk.root / HELD.lstrip("/")).unlink(missing_ok=True)


def start_apt(host: SystemdHost, package: str, maintainer_script: str) -> threading.Thread:
    """Start another apt on the host; returns while that script of the package waits: `release`."""
    hold(host)
    argv = ("apt-get", "install", "-y", "-q", package)
    other = threading.Thread(target=host.exec, args=argv, daemon=True)
    other.start()
    path = f"/var/lib/dpkg/info/{package}.postinst"
    script = path if maintainer_script == "postinst" else "/var/lib/dpkg/tmp.ci/preinst"
    wait_until(lambda: runs(host, script), 60, f"{script} runs")
    return other


def give_cloud_init(host: SystemdHost, code: int, status: str) -> None:
    """Install a cloud-init that ends with this code."""
    host.write("/usr/bin/cloud-init", CLOUD_INIT.format(code=code, status=status))
    (host.disk.root / "usr/bin/cloud-init").chmod(0o755)
