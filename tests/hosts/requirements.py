"""Checks that this machine can run full hosts: namespaces, overlay mounts, tools, root."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from hosts import cleanup
from hosts.base import base_image
from hosts.command import PATH, CommandFailed, run

TOOLS = {
    "debootstrap": "debootstrap",
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "ssh-keygen": "openssh-client",
    "unshare": "util-linux",
}


def missing() -> str:
    """Why this machine cannot run full hosts, in one line; empty if it can."""
    if not sys.platform.startswith("linux"):
        return "full hosts need Linux"
    if os.geteuid() != 0:
        return "full hosts need root"
    packages = {package for tool, package in TOOLS.items() if not shutil.which(tool, path=PATH)}
    if packages:
        return f"full hosts need: apt-get install {' '.join(sorted(packages))}"
    return refused()


def refused() -> str:
    """What the kernel, or the container that we are in, refuses; empty if nothing."""
    cleanup.ROOT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cleanup.ROOT, prefix="probe") as folder:
        for name in ("lower", "upper", "work", "root"):
            Path(folder, name).mkdir()
        options = f"lowerdir={folder}/lower,upperdir={folder}/upper,workdir={folder}/work"
        overlay = f"mount -t overlay overlay -o {options} {folder}/root"
        wire = f"ip link add rhprobe{os.getpid() % 1000} type veth"
        rules = "echo 'add table ip probe' | nft -f -"
        apart = ["unshare", "--mount", "--pid", "--uts", "--ipc", "--net", "--fork"]
        try:
            run(*apart, "sh", "-ec", f"{overlay}\n{wire}\n{rules}", stdin="")
            run("ip", "netns", "list")
            os.close(os.open("/dev/net/tun", os.O_RDWR))
        except (CommandFailed, OSError) as error:
            return f"full hosts are refused here: {error}"
    return ""


def base_or_reason() -> str:
    """Build the base image if it is missing; returns the reason if that fails, otherwise ""."""
    try:
        base_image()
    except CommandFailed as error:
        return f"the full hosts' base image cannot be built: {str(error)[-500:]}"
    return ""
