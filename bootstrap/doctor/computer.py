"""Checks of this computer: the programs, the disk, the login to Pulumi, and its address."""

from __future__ import annotations

import ipaddress
import platform
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from railhead.documents.doctor import Check

from ..clouds import own_address
from ..console.text import size
from ..errors import UsageError
from ..inventory import caches, local_state, pulumi_cli
from . import package

WARNS_BYTES, BLOCKS_BYTES = 5 << 30, 1 << 30  # free, in the caches and the home
INSTALL_SSH = "sudo apt-get install openssh-client"


def checks(*, with_stack: bool) -> Iterator[Check]:
    """All checks; without a stack, Pulumi may be missing."""
    yield package.check()
    version = platform.python_version()
    yield Check("Python", "ok", f"{version}, {sys.executable}")
    yield _ssh()
    for folder in dict.fromkeys((local_state.home(), caches.cache("."))):
        yield disk_check(folder)
    yield from _pulumi(with_stack)


def _ssh() -> Check:
    """Only a shell on a host needs it; tasks connect by themselves."""
    if path := shutil.which("ssh"):
        return Check("ssh", "ok", path)
    return Check("ssh", "warns", "not on PATH; a shell on a host needs it", INSTALL_SSH)


def disk_check(folder: Path) -> Check:
    """The free space where a folder is, or will be."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(place).free
    state = "blocks" if free < BLOCKS_BYTES else "warns" if free < WARNS_BYTES else "ok"
    find = f"du -sh {shlex.quote(str(place))}/* | sort -h   # what takes the space"
    return Check("disk", state, f"{size(free)} free for {folder}", "" if state == "ok" else find)


def _pulumi(with_stack: bool) -> Iterator[Check]:
    problem = "blocks" if with_stack else "warns"
    path = shutil.which("pulumi")
    if not path:
        text = "not on PATH; stacks need it, --hosts does not"
        yield Check("pulumi", problem, text, pulumi_cli.INSTALL)
        return
    version = pulumi_cli.version()
    old = _numbers(version) < _numbers(pulumi_cli.OLDEST)
    text = f"{version} at {path}" + (f"; at least {pulumi_cli.OLDEST} is needed" if old else "")
    yield Check("pulumi", problem if old else "ok", text, pulumi_cli.INSTALL if old else "")
    try:
        login = pulumi_cli.login()
        yield Check("pulumi login", "ok", f"{login.user} at {login.url}")
    except UsageError as error:
        yield Check("pulumi login", problem, error.message, str(error.hint or "pulumi login"))


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version: v3.259.0 is (3, 259, 0)."""
    return tuple(map(int, re.findall(r"\d+", version)[:3]))


def own_address_check(cidrs: str, option: str = "") -> Check:
    """Compare the address with `ssh_cidrs` of the config of the stack that `option` names."""
    try:
        return check_address(own_address.public(), cidrs, option)
    except (OSError, ValueError) as why:
        text = f"this computer's public address was not compared: {why}"
        return Check(
            "ssh_cidrs", "unknown", text, f"curl {own_address.SERVICE}   # is it in ssh_cidrs?"
        )


def check_address(address: own_address.Address, cidrs: str, option: str = "") -> Check:
    """Whether one of the networks, separated by commas, contains the address."""
    networks = [ipaddress.ip_network(text.strip(), strict=False) for text in cidrs.split(",")]
    if any(address in network for network in networks):
        return Check("ssh_cidrs", "ok", f"{address} may connect")
    text = f"{address}, the public address of this computer, is not in {cidrs}"
    wider = shlex.quote(f"{cidrs},{address}/{address.max_prefixlen}")
    return Check("ssh_cidrs", "warns", text, f"pulumi config set{option} ssh_cidrs {wider}")
