"""System changes on hosts with systemd: what they wait for, and which failures are retried."""

from __future__ import annotations

import pytest
from e2e.apt_mirror import Mirror, use_mirror
from e2e.systemd_hosts import BRIEF, Start, give_cloud_init, release, start_apt, timers, who_ran

from bootstrap.errors import RailheadError
from bootstrap.plan.system_changes import Changes
from bootstrap.provision.system_script import RetryPolicy, run_system_script

pytestmark = [pytest.mark.root, pytest.mark.slow]


def test_another_apt_is_waited_for(team: Start) -> None:
    one = team("a")
    (host,) = one.hosts
    other = start_apt(host, "held", "postinst")
    lock: list[str] = []

    def see(line: str) -> None:
        if "lock" in line:
            lock.append(line)
            release(host)

    patient = RetryPolicy(wait_seconds=240, retries=2, pause=1)  # the other apt ends when it can
    one.run_system_script(patient, report=see, packages=("quick",))
    other.join()
    assert lock and who_ran(host) == ["held", "quick"]


def test_an_apt_that_never_ends_is_reported(team: Start) -> None:
    one = team("a")
    other = start_apt(one.hosts[0], "held", "postinst")
    with pytest.raises(RailheadError, match=r"apt.s lock .*dpkg/lock-frontend.*process"):
        one.run_system_script(RetryPolicy(wait_seconds=1, retries=0, pause=1), packages=("quick",))
    assert timers(one.hosts[0]) == {"active"}
    release(one.hosts[0])
    other.join()


def test_the_first_boot_is_waited_for_and_its_end_reported(team: Start) -> None:
    """With recorded answers of cloud-init: there is no cloud here."""
    one = team("a")
    (host,) = one.hosts
    host.write("/var/log/cloud-init-output.log", "E: the last of it\n")

    give_cloud_init(host, 1, "error")
    with pytest.raises(RailheadError, match=r"cloud-init.*log") as caught:
        one.run_system_script(wait_cloud_init=True, packages=("quick",))
    assert "scripts_user" in str(caught.value) and "the last of it" in str(caught.value)
    assert who_ran(host) == []
    give_cloud_init(host, 0, "done")
    assert not any("degraded" in line for line in one.run_system_script(wait_cloud_init=True))
    give_cloud_init(host, 2, "done")
    lines = one.run_system_script(wait_cloud_init=True, packages=("quick",))
    assert any("degraded" in line for line in lines)
    assert who_ran(host) == ["quick"]


def test_a_mirror_that_fails_for_a_while_is_retried(team: Start, mirror: str) -> None:
    one = team("a")
    use_mirror(one.hosts[0], mirror)
    Mirror.bad = ["quick_1_all.deb"] * 6 + ["nothing"]
    lines = one.run_system_script(packages=("quick",))
    assert any("usually temporary: trying again" in line for line in lines)
    assert who_ran(one.hosts[0]) == ["quick"]


def test_a_mirror_that_is_away_is_named(team: Start) -> None:
    one = team("a")
    use_mirror(one.hosts[0], "http://mirror.invalid/debian")
    with pytest.raises(RailheadError, match=r"no packages from http://mirror.invalid/debian"):
        one.run_system_script(RetryPolicy(wait_seconds=20, retries=1, pause=1), packages=("quick",))


def test_a_source_that_apt_refuses_does_not_stop_the_others(team: Start) -> None:
    """As that of a vendor whose key has expired."""
    one = team("a")
    (host,) = one.hosts
    host.exec("sh", "-c", "rm -r /var/lib/apt/lists/*")
    host.write("/etc/apt/sources.list.d/vendor.list", "deb file:/nowhere stable main\n")
    lines = one.run_system_script(packages=("quick",))
    assert any("file:/nowhere stable Release' does not have a Release file" in x for x in lines)
    assert who_ran(host) == ["quick"]


def test_what_does_not_pass_is_tried_once(team: Start) -> None:
    one = team("a")
    lines: list[str] = []
    wrong = {
        "no-such": "Unable to locate package no-such",
        "needs-more": "needs-more : Depends: no-such-package",
        "fails": "returned an error code",
    }
    with one.sessions() as opened:
        session = opened["a"]
        facts = session.facts()
        for package, says in wrong.items():
            with pytest.raises(RailheadError, match=says):
                run_system_script(
                    session, facts, Changes(packages=(package,)), lines.append, policy=BRIEF
                )
    assert not any("trying again" in line for line in lines)
    assert timers(one.hosts[0]) == {"active"}
