"""uv, the package installer: this computer's copy, and the same release for the hosts. It never
downloads a Python."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from itertools import starmap
from pathlib import Path

from uv import find_uv_bin

from ..clouds.local.package_index import settings_of_pip
from ..console import log
from ..errors import RailheadError
from ..host.buckets import certificates
from ..inventory import caches, local_state
from ..plan.runtimes import LOCKS, uv_digest
from ..ssh.bundle import Bundle, pack_folder

FOLDER = f"~/.railhead/uv/{uv_digest()}"  # on a host
PROGRAM = f"{FOLDER}/uv"
ENVIRONMENT = {"UV_PYTHON_DOWNLOADS": "never", "UV_NO_CONFIG": "1", "NO_COLOR": "1"}
# uv trusts the certificates that it ships. A company's authority is among those of the system,
# which curl, apt and Debian's pip trust. If the system has none, uv ends with an error.
SYSTEM_TRUST = {"UV_SYSTEM_CERTS": "1"}
# The variables of this computer that uv gets here: no secrets, because a requirements file could
# use them.
KEPT: tuple[str, ...] = ("PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "NETRC")
KEPT += ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
KEPT += ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")


def local_uv() -> str:
    """The path of the uv that was installed with Railhead."""
    return find_uv_bin()


def pip(
    command: str,
    *words: str,
    program: str | None = None,
    text: str = "",
    more: Mapping[str, str] = {},
    sources: Mapping[str, Sequence[str]] = {},
) -> subprocess.CompletedProcess[str]:
    """Run `uv pip` here, for wheels only: to build a package would run its code.

    Args:
        text: what it reads from stdin.
        more: variables in addition to those of `variables`.
        sources: packages that may have no wheel, and what each requires: uv does not build them to
            find out.
    """
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "uv.toml")
        config.write_text("".join(starmap(_required, sources.items())))
        argv = [program or local_uv(), "pip", command, "--quiet", "--only-binary", ":all:"]
        argv += [word for name in sources for word in ("--no-binary", name)]
        argv += ["--config-file", str(config), *words]
        return log.run(argv, cwd="/", env={**variables(), **more}, input=text, capture_output=True)


def _required(name: str, requires: Sequence[str]) -> str:
    """The configuration that tells uv what a package requires."""
    return f"[[dependency-metadata]]\nname = {name!r}\nrequires-dist = {[*requires]!r}\n"


def environment(
    folder: Path, python: str, lock: Path, more: Mapping[str, str] = {}
) -> subprocess.CompletedProcess[str]:
    """Create an environment here with exactly the packages of a lock; the step that failed, or the
    last one. `more`: as in `pip`."""
    argv = [local_uv(), "venv", "--quiet", "--no-config", "--allow-existing", "--python", python]
    env = {**variables(), **more}
    created = log.run([*argv, str(folder)], cwd="/", env=env, capture_output=True)
    if created.returncode:
        return created
    into = str(folder / "bin" / "python")
    return pip("sync", "--require-hashes", "--python", into, str(lock), more=more)


def variables() -> dict[str, str]:
    """The variables of uv and pip here."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name.upper() in KEPT or name.startswith(("UV_", "PIP_", "XDG_"))
    }
    trust = SYSTEM_TRUST if certificates.of_system() else {}
    # `pip` passes its own config file.
    return {**trust, **settings_of_pip(), **kept, **ENVIRONMENT, "UV_NO_CONFIG": "0"}


def uv_for_hosts() -> Bundle:
    """The uv binary for Linux on x86_64, on any control machine; downloaded once, by hash."""
    return pack_folder(
        local_state.filled_once(caches.cache("uv-for-hosts") / uv_digest(), _fetch_uv)
    )


def _fetch_uv(folder: Path) -> None:
    options = ["--require-hashes", "--no-deps", "--python-platform", "x86_64-manylinux_2_28"]
    target = folder.with_name("target")
    process = pip("install", *options, "--target", str(target), "-r", str(LOCKS / "uv.txt"))
    if process.returncode:
        raise RailheadError(f"uv for the hosts could not be fetched:\n{process.stderr.strip()}")
    (target / "bin/uv").replace(folder / "uv")
