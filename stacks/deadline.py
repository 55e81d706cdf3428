"""The first deadline of a cloud machine: a systemd timer on it, from its user data. Pure.

It depends on nothing else: no second resource of the cloud, no connection, no `fab`. So it works
also on a machine whose `pulumi up` broke off. deadline.sh is the tool that user data installs.
"""

from __future__ import annotations

from pathlib import Path

TOOL = "/usr/local/sbin/railhead-deadline"
SCRIPT = Path(__file__).with_name("deadline.sh")


def seconds(hours: float) -> int:
    """Hours of the config as whole seconds, for all deadlines of a stack."""
    return round(hours * 3600)


def install_script(hours: float) -> str:
    """The POSIX sh script, for the user data of a machine, that installs the tool and its timer.

    It may run again at each boot: the deadline is written at the first run only.
    """
    tool = SCRIPT.read_text()
    return f"""#!/bin/sh
set -e
mkdir -p {Path(TOOL).parent}
cat >{TOOL}.part <<'END OF THE TOOL'
{tool}END OF THE TOOL
chmod 755 {TOOL}.part
mv {TOOL}.part {TOOL}
exec {TOOL} install {seconds(hours)}
"""
