"""What serves a model on a host: a runtime, the packages of locks/serving.txt, and training/.

The packages are wheels of pure Python, one megabyte. They are fetched here by hash and sent in a
folder named by a digest, so that a host needs no outbound access for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from bootstrap.console import log
from bootstrap.errors import RailheadError, UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.inventory import local_state
from bootstrap.inventory.files import atomic_folder
from bootstrap.plan.runtimes import LOCKS, REPO, choose_runtime
from bootstrap.provision import uv, wheels
from bootstrap.ssh.bundle import Bundle, pack_folder, pack_training
from bootstrap.ssh.session import Session
from bootstrap.untrusted.unpack import Hostile

LOCK = LOCKS / "serving.txt"
# The packages come last: nothing of the runtime is replaced by them. The server ends when its
# standard input closes, so that none outlives its supervisor.
START = """
import os, sys, threading
code, packages, module = sys.argv[1:4]
sys.path[:0] = [code]
sys.path.append(packages)
sys.argv = sys.argv[3:]
def end_with_parent():
    while os.read(0, 1):
        pass
    os._exit(0)
if module == "serving.__main__":
    threading.Thread(target=end_with_parent, daemon=True).start()
import importlib
sys.exit(importlib.import_module("training." + module).main())
"""
SERVER, CLIENT = "serving.__main__", "serving.client"


@dataclass(frozen=True)
class Environment:
    """Paths on a host: the runtime's Python, our code and the packages."""

    python: str
    code: str
    packages: str

    @property
    def home(self) -> str:
        """The home folder of the host's user."""
        return self.code.rpartition("/.railhead/")[0]

    def argv(self, module: str, options: Sequence[str]) -> list[str]:
        """Runs a module of `training` on the host."""
        return [self.python, "-I", "-c", START, self.code, self.packages, module, *options]


def place_environment(session: Session, python: str) -> Environment:
    """Send what a host lacks to serve with this Python of a runtime.

    Raises:
        RailheadError: the packages could not be fetched, or the runtime does not work.
    """
    minor = wheels.python_version(session, python).rpartition(".")[0]
    packages, code = _packages(minor), pack_training(REPO)
    paths = [f"~/.railhead/serving/{bundle.digest[:16]}" for bundle in (packages, code)]
    for bundle, path in zip((packages, code), paths, strict=True):
        session.send_folder(bundle, path)
    home = home_of(session)
    return Environment(*(path.replace("~", home, 1) for path in (python, *reversed(paths))))


def home_of(session: Session) -> str:
    """The home folder of the host's user; Hostile if that is no path."""
    tail = session.run(["sh", "-c", 'echo "$HOME"']).tail
    if not tail or not tail[-1].startswith("/"):
        raise Hostile("a home folder that is no path")
    return tail[-1]


def _packages(python: str) -> Bundle:
    """The packages for this version of Python, fetched once."""
    text = f"{python} {LOCK.read_text()}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = local_state.cache("serving") / digest
    with local_state.alone(folder.with_suffix(".lock")):
        if not folder.exists():
            _fetch(folder.name, python)
    return pack_folder(folder)


def _fetch(name: str, python: str) -> None:
    argv = [uv.local_uv(), "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
    argv += ["--python-platform", "x86_64-manylinux_2_28", "--python-version", python]
    argv += ["--only-binary", ":all:", "--no-config"]
    with atomic_folder(local_state.cache("serving") / name) as part:
        done = log.run([*argv, "--target", str(part), "-r", str(LOCK)], capture_output=True)
        if done.returncode:
            raise RailheadError(
                f"the packages that serve a model could not be fetched:\n{done.stderr.strip()}",
                hint="the same command again, where the package index can be reached",
            )


def python_on_host(facts: HostFacts, host: str, run_digest: str | None) -> str:
    """The Python of the run's runtime, else of the one that `fab bootstrap` installs there.

    Raises:
        UsageError: the host has no such runtime.
    """
    wanted = [run_digest] if run_digest else []
    for launcher in (None, "tensorflow"):
        wanted.append(choose_runtime({host: facts}, launcher, None).digest)
    for digest in wanted:
        if digest in facts.envs:
            return f"~/.railhead/envs/{digest}/bin/python"
    raise UsageError(f"{host} has no runtime to serve with", hint="fab bootstrap")
