"""Chooses the transport of a host: paramiko, which is faster, or the user's own ssh."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from paramiko.ssh_exception import IncompatiblePeer, SSHException

from ...console import log
from ...console.output import print_lines
from ...errors import UsageError
from ...inventory.hosts import Host
from ..connection import Connection
from ..host_keys import UnknownHostKey
from . import jump_hosts, openssh
from .hop import Hop
from .jump_hosts import JumpHostFailed
from .keys import NotAccepted, public_part
from .openssh import OpenSshFailed

KLIST_SECONDS = 5  # a daemon may hold the cache
FORCED = "RAILHEAD_SSH"  # set by --ssh
# Settings that paramiko does not support, each with its values without effect.
OF_SSH_ALONE = {
    "addressfamily": ("any",),
    "bindaddress": (),
    "bindinterface": (),
    "certificatefile": (),
    "hostbasedauthentication": ("no",),
    "knownhostscommand": (),
    "pkcs11provider": (),
    "proxyusefdpass": ("no",),
    "pubkeyauthentication": ("yes", "true", "unbound", "host-bound"),
}


def open_connection(host: Host, hops: Sequence[Hop], begun: float) -> Connection:
    """Log in to a host by the transport that it needs; prints it if it is not paramiko. `begun`:
    when the logins to all hosts began, monotonic."""
    if not all(hop.config.is_read for hop in hops):
        _say_without_client()
    if connection := openssh.kept(host, hops):
        return connection
    if reason := _wanted(hops):
        return _by_ssh(host, hops, reason)
    try:
        return jump_hosts.log_in(host, hops, begun)
    except (SSHException, OSError) as error:
        reason = _instead(error, hops)
        if not reason or not shutil.which("ssh"):
            raise
        try:
            return _by_ssh(host, hops, reason)
        except OpenSshFailed:
            if isinstance(error, NotAccepted) and error.others:
                raise error from None  # this error names the key
            raise


def open_for_key(host: Host, hops: Sequence[Hop], begun: float) -> Connection:
    """As `open_connection`, to learn the host's key: an unknown key raises UnknownHostKey before a
    login."""
    try:
        return jump_hosts.log_in(host, hops, begun)
    except IncompatiblePeer as error:
        reason = _instead(error, hops)
        if not shutil.which("ssh"):
            raise
    openssh.require_known_key(hops)
    return _by_ssh(host, hops, reason)


def _by_ssh(host: Host, hops: Sequence[Hop], reason: str) -> Connection:
    if not shutil.which("ssh"):
        raise UsageError(f"{reason}: that needs an ssh client, and this computer has none")
    print_lines(f"{host.name}: by your ssh: {reason}")
    return openssh.log_in(host, hops)


@cache
def _say_without_client() -> None:
    print_lines("~/.ssh/config is not read: this computer has no ssh client")


def _wanted(hops: Sequence[Hop]) -> str:
    """Why the configuration requires ssh itself; empty: paramiko can try."""
    if os.environ.get(FORCED):
        return "--ssh"
    for hop in hops:
        for setting, without_effect in OF_SSH_ALONE.items():
            value = hop.config.get(setting)
            if value and value not in without_effect:
                return f"{setting} {value}"
        methods = hop.config.get("preferredauthentications")
        if methods and "publickey" not in methods.split(","):
            return f"preferredauthentications {methods}"
        files = [] if hop.key_file else [file for file in hop.config.key_files if file.exists()]
        of_devices = [file for file in files if b"sk-" in (public_part(file) or b"")[4:7]]
        if files and files == of_devices and not hop.config.agent:
            return f"{files[0]} is the key of a device"
    return ""


def _instead(error: Exception, hops: Sequence[Hop]) -> str:
    """Why ssh itself may log in after paramiko has failed; empty: it cannot either."""
    cause = error.cause if isinstance(error, JumpHostFailed) else error
    if isinstance(cause, IncompatiblePeer):
        return "paramiko has no algorithm in common with it"
    if isinstance(cause, UnknownHostKey):
        certified = any(_is_certified(hop) for hop in hops)
        return "a certificate authority is known for it" if certified else ""
    if not isinstance(cause, NotAccepted) or cause.closed:
        return ""
    if cause.others:
        return f"paramiko cannot use {cause.others[0]}"
    wanted = hops[-1].config.get("gssapiauthentication") != "no"
    if wanted and any("gssapi" in method for method in cause.methods) and _has_ticket():
        return "it accepts Kerberos"
    typed = " or ".join(sorted(openssh.PROMPTS & cause.methods))
    if not openssh.has_terminal():
        return ""
    if cause.locked:
        return f"{cause.locked[0]} has a passphrase"
    return f"it wants {typed}" if typed else ""


def _is_certified(hop: Hop) -> bool:
    """Whether a certificate authority is known for the host of a hop."""
    names = (hop.pins.name or hop.config.host, f"[{hop.config.host}]:{hop.config.port}")
    files = [file for file in hop.pins.files if file.is_file()]
    lines = (
        line.split() for file in files for line in file.read_text(errors="replace").split("\n")
    )
    return any(
        fnmatch(name, pattern)
        for words in lines
        if len(words) > 2 and words[0] == "@cert-authority"
        for pattern in words[1].split(",")
        for name in names
    )


def _has_ticket() -> bool:
    """Whether there is a Kerberos ticket. `klist` finds it in any cache."""
    if klist := shutil.which("klist"):
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = log.run([klist, "-s"], env=os.environ, cwd="/", timeout=KLIST_SECONDS)
            return done.returncode == 0
        return False
    return "KRB5CCNAME" in os.environ or Path(f"/tmp/krb5cc_{os.getuid()}").exists()
