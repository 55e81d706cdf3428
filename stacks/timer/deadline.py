"""The first deadline of a cloud machine: a systemd timer on it, from its user data. Pure.

It depends on nothing else: no second resource of the cloud, no connection, no `fab`. So it also
works on a machine whose `pulumi up` broke off. User data installs deadline.sh and, beside it,
idle.py.
"""

from __future__ import annotations

from pathlib import Path

TOOL, IDLE_TOOL = "/usr/local/sbin/railhead-deadline", "/usr/local/sbin/railhead-idle"
IDLE_MINUTES = 30  # if the config has none
SCRIPT = Path(__file__).with_name("deadline.sh")
IDLE = Path(__file__).with_name("idle.py")


def seconds(hours: float) -> int:
    """Hours of the config as whole seconds, for all deadlines of a stack."""
    return round(hours * 3600)


def install_script(hours: float, idle_minutes: int = 0) -> str:
    """The POSIX sh script, for the user data of a machine, that installs the tools and their timer.
    It may run again at each boot: deadline and minutes are written at the first run only."""
    tools = {TOOL: SCRIPT.read_text(), IDLE_TOOL: IDLE.read_text()}
    return f"""#!/bin/sh
set -e
mkdir -p {Path(TOOL).parent}
{"".join(_written(path, text) for path, text in tools.items())}\
exec {TOOL} install {seconds(hours)} {idle_minutes}
"""


def _written(path: str, text: str) -> str:
    return f"""cat >{path}.part <<'END OF THE TOOL'
{text}END OF THE TOOL
chmod 755 {path}.part
mv {path}.part {path}
"""
