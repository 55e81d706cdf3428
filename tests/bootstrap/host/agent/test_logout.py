"""Commands that outlive their login, with a stand-in for what logind answers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bootstrap.host.agent import logout

IN_LOGIN = "0::/user.slice/user-1000.slice/session-7.scope\n"
BUSCTL = """#!/bin/sh
shift 4
for name; do case $name in
  Kill*) grep "^$name " {logind} | cut -d' ' -f2-;;
  Linger) cat {linger};;
esac; done
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with `logind`, `linger` and `cgroup`: what a process of ann's login sees. logind
    ends what its users have started, and ann lingers."""
    (tmp_path / "cgroup").write_text(IN_LOGIN)
    (tmp_path / "linger").write_text("b true\n")
    logind(tmp_path)
    busctl = tmp_path / "busctl"
    busctl.write_text(BUSCTL.format(logind=tmp_path / "logind", linger=tmp_path / "linger"))
    busctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(logout, "CGROUP", str(tmp_path / "cgroup"))
    monkeypatch.setattr(logout, "_user", lambda: "ann")
    return tmp_path


def logind(host: Path, kills: str = "b true", excluded: str = "as 0", only: str = "as 0") -> None:
    lines = f"KillUserProcesses {kills}\nKillExcludeUsers {excluded}\nKillOnlyUsers {only}\n"
    (host / "logind").write_text(lines)


@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        ({}, True),
        ({"kills": "b false"}, False),
        ({"excluded": 'as 2 "root" "ann"'}, False),
        ({"excluded": 'as 2 "root" "anna"'}, True),
        ({"only": 'as 2 "bo" "ann"'}, True),
        ({"only": 'as 2 "bo" "anna"'}, False),
    ],
)
def test_logind_ends_processes_by_its_lists(
    host: Path, settings: dict[str, str], ends: bool
) -> None:
    logind(host, **settings)
    assert logout.ends_at_logout() is ends


def test_roots_processes_stay_unless_a_list_of_others_is_set(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logout, "_user", lambda: "root")
    assert not logout.ends_at_logout()
    logind(host, excluded='as 1 "ann"')
    assert logout.ends_at_logout()


@pytest.mark.parametrize("place", ["0::/user.slice/user@1000.service\n", "0::/\n"])
def test_outside_of_a_login_no_command_changes(host: Path, place: str) -> None:
    (host / "cgroup").write_text(place)
    (host / "busctl").write_text("#!/bin/sh\nexit 7\n")
    assert logout.outlasting(["sleep", "1"]) == ("sleep", "1")


def test_a_host_without_logind_changes_no_command(host: Path) -> None:
    (host / "busctl").write_text("#!/bin/sh\necho 'Failed to get property' >&2; exit 1\n")
    assert logout.outlasting(["sleep", "1"]) == ("sleep", "1")


def test_a_command_of_a_user_who_lingers_leaves_the_login(host: Path) -> None:
    moved = logout.outlasting(["sleep", "1"])
    assert moved[:3] == ("systemd-run", "--user", "--scope") and moved[-2:] == ("sleep", "1")


def test_the_error_for_a_user_who_does_not_linger_has_the_command(host: Path) -> None:
    (host / "linger").write_text("b false\n")
    with pytest.raises(PermissionError, match="`loginctl enable-linger ann`"):
        logout.outlasting(["sleep", "1"])


def test_a_command_is_waited_for_until_it_is_outside_of_the_login(
    host: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (host / "of-8").write_text(IN_LOGIN)
    monkeypatch.setattr(logout, "CGROUP", f"{host}/of-{{}}")
    waits: list[float] = []

    def moved_at_the_second(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            (host / "of-8").write_text("0::/user.slice/user@1000.service/run-1.scope\n")

    monkeypatch.setattr(time, "sleep", moved_at_the_second)
    logout.wait_outside(8)
    logout.wait_outside(9)  # it has ended
    assert len(waits) == 2
    (host / "of-8").write_text(IN_LOGIN)
    monkeypatch.setattr(logout, "SECONDS", -1)
    with pytest.raises(TimeoutError):
        logout.wait_outside(8)
