"""How this Railhead is installed: as a clone, or from a wheel, in which the packages `bootstrap`,
`stacks` and `training` are inside `railhead`. Messages name the commands of this installation."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

DISTRIBUTION = "railhead-training"  # as in pyproject.toml: `railhead` is another project's
PROJECT = Path(__file__).parent / "project"  # the files of a project
IS_WHEEL = (Path(__file__).parent / "bootstrap").is_dir()
PREFIX = "railhead." if IS_WHEEL else ""  # before the names of the three packages
PROGRAM = "railhead" if IS_WHEEL else "fab"
DOCS = str(Path(__file__).parent / "docs") if IS_WHEEL else "docs"
ADD_STACKS = (
    f"{shlex.quote(sys.executable)} -m pip install '{DISTRIBUTION}[stacks]'"
    if IS_WHEEL
    else "scripts/setup --stacks"
)
UPGRADE = (
    "install a newer wheel, as this one was installed"
    if IS_WHEEL
    else "git pull && scripts/setup   # in the clone of this Railhead"
)
INSTALL_SSHD = (
    "sudo apt-get install openssh-server"
    if IS_WHEEL
    else "scripts/setup   # installs it without starting or enabling it"
)
