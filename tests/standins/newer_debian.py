"""Programs of a newer Debian than this computer's: unpacked into the caches, and run from there.

apt fetches and verifies the packages of another release, with lists of its own; nothing is
installed. Each program is a script that names the loader and the libraries beside it.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

import pytest
from file_lock import locked
from hosts.base import mirror
from hosts.command import CommandFailed, run

from bootstrap.inventory import caches

SUITE = "forky"
OPENSSH = (*("openssh-common", "openssh-client-gssapi", "openssh-server-gssapi", "openssh-tests"),)
KERBEROS = ("krb5-kdc", "krb5-admin-server", "krb5-user")
PACKAGES = (*OPENSSH, *KERBEROS, "dropbear-bin", "tinysshd")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
LIBRARIES = ("lib", "zlib1g")
PLACES = ("usr/bin", "usr/sbin", "usr/lib/openssh")
# What is compiled into a program as a path of the system.
OWN_PATHS = {"sshd": "-o SshdSessionPath={bin}/sshd-session -o SshdAuthPath={bin}/sshd-auth"}
SCRIPT = """\
#!/bin/sh
export SSH_SK_HELPER={bin}/ssh-sk-helper
exec {loader} --argv0 "$0" --library-path {libraries} {program} {options} "$@"
"""


class NotThere(Exception):
    """The packages cannot be had here; the message says why."""


def unpacked() -> Path:
    """The folder of this release: its programs are in `bin`, its files in `usr`.

    Raises:
        NotThere: apt cannot fetch the packages.
    """
    recipe = (SUITE, *PACKAGES, *LIBRARIES, *PLACES, *OWN_PATHS.values(), SCRIPT)
    digest = hashlib.sha256("\n".join(recipe).encode()).hexdigest()[:16]
    folder = caches.cache("test-debian") / digest
    with locked(folder.with_suffix(".lock")):
        if not folder.exists():
            partial = folder.with_suffix(".part")
            shutil.rmtree(partial, ignore_errors=True)
            try:
                _unpack(partial)
            except (CommandFailed, OSError) as error:
                raise NotThere(f"no packages of {SUITE} here: {str(error)[-300:]}") from error
            for place in PLACES:
                for program in (partial / place).iterdir():
                    _write_script(partial, folder, program)
            partial.rename(folder)
    return folder


def here() -> Path:
    """The same; the test is skipped where the packages cannot be had."""
    try:
        return unpacked()
    except NotThere as error:
        pytest.skip(str(error))


def _unpack(root: Path) -> None:
    """Fetch the packages and the libraries that they need, and unpack them."""
    apt = root / "apt"
    for folder in ("lists/partial", "cache/archives/partial"):
        (apt / folder).mkdir(parents=True)
    if not (source := mirror()):
        raise NotThere("apt knows no mirror of Debian here")
    (apt / "sources").write_text(f"deb [signed-by={KEYRING}] {source} {SUITE} main\n")
    settings = (
        *(f"Dir::State::lists={apt}/lists", f"Dir::Cache={apt}/cache"),
        *(f"Dir::Etc::sourcelist={apt}/sources", "Dir::Etc::sourceparts=-"),
        *("Dir::State::status=/dev/null", "Acquire::Languages=none", "APT::Sandbox::User=root"),
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false",
    )
    get = ("apt-get", "-qq", *(word for setting in settings for word in ("-o", setting)))
    run(*get, "update")
    planned = run(*get, "install", "--simulate", "--no-install-recommends", *PACKAGES)
    names = [line.split()[1] for line in planned.splitlines() if line.startswith("Inst ")]
    fetched = [name for name in names if name in PACKAGES or name.startswith(LIBRARIES)]
    (root / "debs").mkdir()
    run("sh", "-ec", 'cd "$0"; exec "$@"', str(root / "debs"), *get, "download", *fetched)
    for package in (root / "debs").iterdir():
        run("dpkg-deb", "--extract", str(package), str(root))
    for name in ("apt", "debs", "usr/share", "etc"):
        shutil.rmtree(root / name)


def _write_script(partial: Path, folder: Path, program: Path) -> None:
    """The script for a program, which is going to be in `folder`."""
    if not program.is_file() or program.read_bytes()[:4] != b"\x7fELF":
        return
    (library,) = (path.parent for path in partial.glob("usr/lib/*/libc.so.6"))
    (loader,) = library.glob("ld-linux*")
    bin_ = folder / "bin"
    text = SCRIPT.format(
        bin=bin_,
        loader=folder / loader.relative_to(partial),
        libraries=folder / library.relative_to(partial),
        program=folder / program.relative_to(partial),
        options=OWN_PATHS.get(program.name, "").format(bin=bin_),
    )
    script = partial / "bin" / program.name.removesuffix(".mit")  # a name of alternatives
    script.parent.mkdir(exist_ok=True)
    script.write_text(text)
    script.chmod(0o755)


if __name__ == "__main__":  # so that no test waits for it
    try:
        unpacked()
    except NotThere as error:
        print(f"tests with other SSH servers are skipped: {error}", file=sys.stderr)
