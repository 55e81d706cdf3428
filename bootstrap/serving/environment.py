"""The environment that serves a model on a host: a runtime, the packages of locks/serving.txt, and
training/.

The packages are wheels of pure Python, one megabyte. They are fetched here by hash and sent in a
folder named by a digest, so that a host needs no outbound access for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from railhead.documents.agent.runs import PlacePrograms
from railhead.documents.lazy import dataclass

from ..errors import Command, RailheadError, UsageError
from ..host.base import programs
from ..host.base.programs import NAME
from ..inventory import caches, local_state
from ..inventory.host_programs import archive, name_of
from ..plan.runtimes import LOCKS, REPO, choose_runtime
from ..provision import uv, wheels
from ..ssh.bundle import Bundle, pack_folder, pack_training
from .place import EndpointPlace

LOCK = LOCKS / "serving.txt"
SERVER, CLIENT = "serving.__main__", "serving.client"


@dataclass(frozen=True)
class Server:
    """A server of models: its command without options, and the path of its health check."""

    command: Sequence[str]
    health: str = "/healthz"


@dataclass(frozen=True)
class Environment:
    """Paths on a host: the runtime's Python, our archive, our training code and the packages."""

    python: str
    programs: str
    code: str
    packages: str

    def server(self) -> Server:
        """Our own server."""
        return Server(self.argv(SERVER, ()))

    def argv(self, module: str, options: Sequence[str]) -> list[str]:
        """Runs a module of `training` on the host."""
        program = programs.SERVER if module == SERVER else programs.CLIENT
        start = [self.python, "-I", self.programs, program, f"training.{module}", "main"]
        return [*start, self.code, self.packages, *options]


def place_environment(place: EndpointPlace, python: str) -> Environment:
    """Send what a host lacks to serve with this Python of a runtime.

    Raises:
        RailheadError: the packages could not be fetched, or the runtime does not work.
    """
    minor = wheels.python_version(place.session, python).rpartition(".")[0]
    packages = _send(place, _packages(minor))
    code = _send(place, pack_training(REPO))
    return Environment(place.absolute(python), _place_programs(place), code, packages)


def _place_programs(place: EndpointPlace) -> str:
    """The path on the host of Railhead's archive, in a folder named by its digest, so that a
    running program keeps its archive when another version is placed."""
    folder = f"~/.railhead/serving/{name_of(archive())[:16]}"
    place.session.call(PlacePrograms(folder))
    return place.absolute(f"{folder}/{NAME}")


def _send(place: EndpointPlace, bundle: Bundle) -> str:
    """The path on the host of a folder that is named by its digest; sent if it is missing."""
    path = f"~/.railhead/serving/{bundle.digest[:16]}"
    place.session.send_folder(bundle, path)
    return place.absolute(path)


def _packages(python: str) -> Bundle:
    """The packages for this version of Python, fetched once."""
    text = f"{python} {LOCK.read_text()}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    folder = caches.cache("serving") / digest
    return pack_folder(local_state.filled_once(folder, lambda partial: _fetch(partial, python)))


def _fetch(folder: Path, python: str) -> None:
    options = ["--require-hashes", "--no-deps", "--python-platform", "x86_64-manylinux_2_28"]
    options += ["--python-version", python, "--target", str(folder), "-r", str(LOCK)]
    process = uv.pip("install", *options)
    if process.returncode:
        raise RailheadError(
            f"the packages that serve a model could not be fetched:\n{process.stderr.strip()}",
            hint="the same command again, where the package index can be reached",
        )


def python_on_host(place: EndpointPlace, run_digest: str | None) -> str:
    """The Python of the run's runtime, or of the one that `fab bootstrap` installs there.

    Raises:
        UsageError: the host has no such runtime.
    """
    digests = [run_digest] if run_digest else []
    for launcher in (None, "tensorflow"):
        digests.append(choose_runtime({place.host: place.facts}, launcher, None).digest)
    for digest in digests:
        if digest in place.facts.envs:
            return f"~/.railhead/envs/{digest}/bin/python"
    raise UsageError(
        f"{place.host} has no runtime to serve with",
        hint=Command("bootstrap", launcher="tensorflow", **place.target),
    )
