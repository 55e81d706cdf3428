"""A Kerberos realm: its KDC on a loopback port, and the settings with which programs find it."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from hosts.ssh_servers import free_port, listens, run
from standins import newer_debian

REALM = "RAILHEAD.TEST"
ADDRESS = "127.0.0.1"
CLIENT = """\
[libdefaults]
  default_realm = {realm}
  dns_lookup_kdc = false
  dns_canonicalize_hostname = false
  rdns = false
  default_ccache_name = DIR:{folder}/tickets
[realms]
  {realm} = {{
    kdc = {address}:{port}
  }}
"""
SERVER = """\
[kdcdefaults]
  kdc_listen = {address}:{port}
  kdc_tcp_listen = {address}:{port}
[realms]
  {realm} = {{
    database_name = {folder}/principals
    key_stash_file = {folder}/stash
  }}
[dbmodules]
  db_module_dir = {modules}
"""


@dataclass(frozen=True)
class Realm:
    """A realm with a KDC; `environment` is for its programs, ssh and sshd."""

    folder: Path
    environment: dict[str, str]

    def ticket(self, principal: str) -> None:
        """Log somebody in."""
        key = str(self.folder / "keys")
        self.run("kinit", "-k", "-t", key, principal)

    def run(self, program: str, *args: str) -> None:
        """One of Kerberos' programs."""
        argv = [str(newer_debian.here() / "bin" / program), *args]
        subprocess.run(
            argv, check=True, env={**os.environ, **self.environment}, capture_output=True
        )


def realm(folder: Path, ending: ExitStack, *principals: str) -> Realm:
    """A realm with these, whose keys are in a file; each has a ticket when it asks for one."""
    folder.mkdir()
    (folder / "tickets").mkdir()
    (modules,) = newer_debian.here().glob("usr/lib/*/krb5/plugins/kdb")
    port = free_port(ADDRESS)
    values = {"realm": REALM, "folder": folder, "address": ADDRESS, "port": port}
    (folder / "krb5.conf").write_text(CLIENT.format(**values))
    (folder / "kdc.conf").write_text(SERVER.format(**values, modules=modules))
    made = Realm(
        folder,
        {
            "KRB5_CONFIG": f"{folder}/krb5.conf",
            "KRB5_KDC_PROFILE": f"{folder}/kdc.conf",
            "KRB5_KTNAME": f"{folder}/keys",
        },
    )
    made.run("kdb5_util", "create", "-s", "-P", "secret")
    for principal in principals:
        made.run("kadmin.local", "addprinc", "-randkey", principal)
        made.run("kadmin.local", "ktadd", "-k", str(folder / "keys"), principal)
    argv = [str(newer_debian.here() / "bin/krb5kdc"), "-n"]
    run(argv, lambda: listens(ADDRESS, port), ending, {**os.environ, **made.environment})
    return made
