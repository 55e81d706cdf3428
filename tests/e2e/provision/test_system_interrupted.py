"""System changes on hosts with systemd while the controller, apt or a host dies, and reboots."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from e2e.local_hosts import wait_until
from e2e.systemd_hosts import (
    Start,
    give_cloud_init,
    hold,
    release,
    runs,
    start_apt,
    timers,
    who_ran,
)

from bootstrap.errors import HostsFailed, RailheadError
from bootstrap.plan.drivers import DriverRow
from bootstrap.plan.system_changes import Changes
from bootstrap.provision.reboot import RebootWait, reboot
from bootstrap.provision.system_script import RetryPolicy
from bootstrap.ssh import connect

pytestmark = [pytest.mark.root, pytest.mark.slow]

POSTINST = "/var/lib/dpkg/info/held.postinst"


@pytest.mark.parametrize("script", ["preinst", "postinst"])
def test_half_finished_packages_are_mended(team: Start, script: str) -> None:
    """dpkg is killed in the middle of unpacking, and of configuring."""
    one = team("a")
    (host,) = one.hosts
    package = "held" if script == "postinst" else "held-to-unpack"
    other = start_apt(host, package, script)
    for process in host.processes():
        of_package = any(word.startswith("/var/lib/dpkg/") for word in process.argv)
        if of_package or {"apt-get", "/usr/bin/dpkg", "sleep"} & set(process.argv[:1]):
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
    other.join()
    release(host)
    with one.sessions() as opened:
        assert opened["a"].facts().system.dpkg_broken
    one.run_system_script(mend_dpkg=True, packages=("quick",))
    with one.sessions() as opened:
        assert not opened["a"].facts().system.dpkg_broken
    assert sorted(who_ran(host)) == [package, "quick"]


def test_the_controller_dies_at_each_step_and_the_next_one_continues(team: Start) -> None:
    """The host finishes its step; the next command finds it finished, or waits for it."""
    one = team("a")
    (host,) = one.hosts
    give_cloud_init(host, 0, "done")
    row = DriverRow(580, "open", ("cuda-drivers",), "", reboot=False, hold=("cuda-drivers",))
    wanted: dict[str, Any] = {
        "wait_cloud_init": True,
        "mend_dpkg": True,
        "packages": ("slow",),
        "driver": row,
    }
    hold(host)
    killed(one.killed_at, "system", packages=("held",))
    with pytest.raises(RailheadError, match="an earlier bootstrap is still running there"):
        one.run_system_script(RetryPolicy(wait_seconds=1, retries=1, pause=1), packages=("quick",))
    release(host)
    for step in ("cloud-init", "mend", "system", "driver"):
        killed(one.killed_at, step, **wanted)
    one.run_system_script(**wanted)
    ran = who_ran(host)
    assert ran[:3] == ["held", "slow", "cuda-drivers"]
    assert (ran.count("slow"), ran.count("cuda-drivers")) == (1, 1)
    assert timers(host) == {"active"}
    before = host.boot_id()
    killed(one.killed_in_reboot)
    host.wait_for_reboot(before)


def killed(work: Callable[..., Any], *args: Any, **kw: Any) -> None:
    """Do it in a child process, which kills itself in the middle."""
    child = os.fork()
    if not child:
        with suppress(BaseException):
            work(*args, **kw)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL


def test_a_host_dies_in_the_middle_and_the_others_finish(team: Start) -> None:
    both = team("a", "b")
    dying = both.hosts[1]

    def kill() -> None:
        wait_until(lambda: runs(dying, POSTINST), 60, "dpkg is at it")
        dying.stop()

    hold(dying)
    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(HostsFailed, match="1 of 2 hosts") as caught:
        both.work(packages=("held",))
    killer.join()
    assert caught.value.outcomes["a"] == "ok" and "broke" in caught.value.outcomes["b"]
    assert who_ran(both.hosts[0]) == ["held"]
    release(dying)
    dying.start()
    with both.sessions() as opened:
        facts = connect.all_facts(opened)
        assert [f.system.dpkg_broken for f in facts.values()] == [False, True]
        both.work_on(opened, {"b": Changes(mend_dpkg=True, packages=("held",))})
    assert [who_ran(host) for host in both.hosts] == [["held"], ["held"]]


def test_timers_come_back_also_after_a_kill(team: Start) -> None:
    """By the next command, if the script could not run its trap."""
    one = team("a")
    (host,) = one.hosts
    hold(host)
    at_work = threading.Thread(
        target=ignoring, args=(one.run_system_script,), kwargs={"packages": ("held",)}
    )
    at_work.start()
    wait_until(lambda: runs(host, POSTINST), 60, "dpkg is at it")
    assert timers(host) == {"inactive"}
    shells = [p for p in host.processes() if p.argv[:2] == ("sh", "-c")]
    # The first of them is the script itself, the others are its own forks.
    os.kill(min(p.pid for p in shells if "FIRST_BOOT=" in p.argv[2]), signal.SIGKILL)
    at_work.join()
    assert timers(host) == {"inactive"}
    release(host)
    wait_until(lambda: not runs(host, "apt-get"), 60, "apt has ended")
    one.run_system_script(packages=("quick",))
    assert timers(host) == {"active"} and who_ran(host) == ["held", "quick"]


def ignoring(work: Callable[..., Any], **kw: Any) -> None:
    with pytest.raises(RailheadError):
        work(**kw)


# Reboots


def test_a_host_reboots_and_comes_back(team: Start) -> None:
    one = team("a", user="rail")
    (host,) = one.hosts
    before = host.boot_id()
    with one.sessions() as opened:
        old = opened["a"]
        facts = one.work_on(opened, {"a": Changes(packages=("quick",), reboot=True)})
        host.wait()
        assert facts["a"].boot_id == host.boot_id() != before
        assert opened["a"] is not old and opened["a"].sh("echo in") == "in\n\n"
    assert "reboot: waiting for it to come back" in one.messages.getvalue()
    assert host.boots == 2


def test_a_host_that_does_not_come_back_is_reported(team: Start) -> None:
    one = team("a")
    one.hosts[0].comes_back = False
    with (
        one.sessions() as opened,
        pytest.raises(RailheadError, match="did not come back") as caught,
    ):
        wait = RebootWait(back=4, every=0.5)
        session = opened["a"]
        reboot(one.inventory, session, session.facts(), lambda _: None, wait=wait)
    assert caught.value.hint
