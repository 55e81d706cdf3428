"""Commands that stay after the logout, where systemd-logind ends what a login has started
(KillUserProcesses=yes in logind.conf, as on machines that many people share)."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Sequence

# A part of the user's own manager, which stays after the logout if the user lingers.
SCOPE = ("systemd-run", "--user", "--scope", "--quiet", "--collect", "--")
# The daemons of Open MPI stay in their logins to the other hosts, so that these do not end.
ATTACHED = (
    "env",
    "OMPI_MCA_orte_leave_session_attached=1",  # Open MPI 4.1
    "PRTE_MCA_prte_leave_session_attached=1",  # 5.0
)
MANAGER = ("/org/freedesktop/login1", "org.freedesktop.login1.Manager")
SELF = ("/org/freedesktop/login1/user/self", "org.freedesktop.login1.User")
CGROUP = "/proc/{}/cgroup"
SECONDS = 10.0  # for one answer of logind, or for systemd-run


def outlasting(argv: Sequence[str]) -> tuple[str, ...]:
    """The command, moved out of the login where logind ends what that has started.

    Raises:
        PermissionError: the user does not linger, so the command would end all the same.
    """
    if not ends_at_logout():
        return (*argv,)
    if _properties(SELF, "Linger") != ["b true"]:
        user = _user()
        raise PermissionError(
            f"systemd ends all processes of {user} at the logout (KillUserProcesses=yes): type"
            f" `loginctl enable-linger` there, or as root `loginctl enable-linger {user}`"
        )
    return (*SCOPE, *ATTACHED, *argv)


def ends_at_logout() -> bool:
    """Whether logind ends the processes of this login at its end, by logind's own rule."""
    if not _is_in_login("self"):
        return False
    names = ("KillUserProcesses", "KillExcludeUsers", "KillOnlyUsers")
    kills, *users = _properties(MANAGER, *names) or ("b false", "as 0", "as 0")
    excluded, only = ([name.strip('"') for name in line.split()[2:]] for line in users)
    user = _user()
    if user in (excluded or ["root"]):
        return False
    return kills == "b true" and (not only or user in only)


def wait_outside(pid: int) -> None:
    """Wait until systemd has moved a command out of the login, which may end at any time.

    Raises:
        TimeoutError: it has not.
    """
    until = time.monotonic() + SECONDS
    while _is_in_login(pid):
        if time.monotonic() > until:
            raise TimeoutError(f"systemd-run has not begun within {SECONDS:g} s")
        time.sleep(0.01)


def _is_in_login(process: int | str) -> bool:
    """Whether a process is one of a login; not if it has ended."""
    try:
        with open(CGROUP.format(process)) as file:
            return "/session-" in file.read()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _properties(place: tuple[str, str], *names: str) -> list[str]:
    """Properties of logind, a line for each: `b true`, `as 2 "ann" "bo"`; empty without logind."""
    from ..base import bounded  # loaded late: most agents start nothing in a login

    argv = ["busctl", "get-property", "org.freedesktop.login1", *place, *names]
    lines = bounded.run(argv, SECONDS).out.splitlines()
    return lines if len(lines) == len(names) else []


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name
