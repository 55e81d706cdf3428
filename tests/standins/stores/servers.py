"""Real object stores for tests: an S3 server and Google's emulator, built once from Go modules.

`python -m standins.stores.servers` builds them, so that no test waits for that.
The binaries are kept in ~/.cache/railhead/servers/NAME-VERSION. The module proxy's checksum
database verifies what is built.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from file_lock import locked

PACKAGES = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
    "fake-gcs-server": "github.com/fsouza/fake-gcs-server@v1.56.1",
}
BUILD_SECONDS = 900
COMMAND = "cd tests && ../.venv/bin/python -m standins.stores.servers"
PORTS = range(20_000, 32_000)
CLAIMS: list[socket.socket] = []  # of this process, until it ends


class NoServer(Exception):
    """A server is not there; the message says why, or the command that builds it."""


def binary(name: str, caches: Path) -> Path:
    """The path of a server. NoServer if it was not built."""
    path = _folder(name, caches) / name
    if not path.exists():
        raise NoServer(f"{name} was not built: {COMMAND}")
    return path


def _folder(name: str, caches: Path) -> Path:
    return caches / "railhead/servers" / f"{name}-{PACKAGES[name].partition('@')[2]}"


def make(name: str, caches: Path) -> None:
    """Build a server where it is not in the cache; NoServer if that fails."""
    folder = _folder(name, caches)
    with locked(folder / "lock"):  # of two that build at once
        if not (folder / name).exists():
            build(PACKAGES[name], folder)


def build(package: str, folder: Path) -> None:
    """`go install` into a folder beside, then rename."""
    go = shutil.which("go")
    if not go:
        raise NoServer(f"no Go to build {package} with")
    partial = folder / "partial"
    environment = {
        **os.environ,
        "HOME": pwd.getpwuid(os.getuid()).pw_dir,  # Go's own caches, whatever home a test has
        "GOBIN": str(partial),
        "GOFLAGS": "-trimpath -buildvcs=false",
        "GOWORK": "off",
        "CGO_ENABLED": "0",
    }
    command = [go, "install", "-ldflags", "-s -w", package]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=BUILD_SECONDS
    )
    if done.returncode:
        raise NoServer(f"{' '.join(command)}: {done.stderr.strip()[-300:]}")
    for built in partial.iterdir():
        built.replace(folder / built.name)


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ones. Nobody else takes them before the servers are started: they are below the
    ports (from 32768) that Linux gives to connections and to whoever binds port 0, and no other
    process of tests gets a port that this one has had.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        if len(ports) == count:
            break
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            claim(port)
            ports.append(port)
    return ports


def claim(port: int) -> None:
    """Keep a port from other processes of tests by an abstract socket's name, which the kernel
    frees when this process ends; OSError if another one has it."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0railhead-test-port-{port}")
    except OSError:
        name.close()
        raise
    CLAIMS.append(name)


@contextlib.contextmanager
def running(
    command: list[str], endpoint: str, log: Path, environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A server that answers at `endpoint`, ended at the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **(environ or {})}
        )
    try:
        wait_until_it_answers(process, endpoint, log)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def wait_until_it_answers(process: subprocess.Popen[bytes], endpoint: str, log: Path) -> None:
    """Any HTTP answer will do."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(endpoint, timeout=5).close()
            return
        except urllib.error.HTTPError:
            return
        except OSError:
            if process.poll() is not None:
                break
            time.sleep(0.05)
    raise RuntimeError(f"{process.args!r} does not answer: {log.read_text()[-1000:]}")


def main() -> None:
    """Build all that can be built here."""
    for name in PACKAGES:
        try:
            make(name, Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"))
        except NoServer as error:
            print(f"tests with {name} are skipped: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
