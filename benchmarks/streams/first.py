"""Seconds until the first record through a link of 60 MB/s, by mode and by other clients.

The link of S3 is a relay before the server. That of Google's storage is a relay before a proxy with
TLS (tests/standins/gcp/google_host.py): each client gets its token from a metadata server, as on a
machine of Google Cloud. TensorFlow's own reader of gs:// works there too.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from statistics import median

from standins.gcp.google_host import on_google
from standins.relay import Relay

from benchmarks.object_stores.__main__ import install

from .runtime import probe

RATE = 60e6  # bytes per second
PEERS = {"s3": ("s5cmd cp", "s3fs get", "s3fs open"), "gs": ("gcsfs get", "gcsfs open")}
LIMIT = 0.1
Environ = dict[str, str]
Readers = dict[str, Callable[[Environ], float]]
Link = Callable[[], AbstractContextManager[Environ]]


@contextlib.contextmanager
def link_to_s3(environ: Environ) -> Iterator[Environ]:
    """The variables with which a client reaches the S3 server through the link."""
    with Relay(environ["AWS_ENDPOINT_URL"], bytes_per_s=RATE) as relay:
        yield {**environ, "AWS_ENDPOINT_URL": relay.endpoint}


@contextlib.contextmanager
def link_to_google(emulator: str, folder: Path) -> Iterator[Environ]:
    """The variables of a machine of Google Cloud that reaches its storage through the link."""
    with (
        on_google(emulator, folder) as host,
        Relay(host.environ["HTTPS_PROXY"], bytes_per_s=RATE) as relay,
    ):
        yield {**host.environ, "HTTPS_PROXY": relay.endpoint}


def first_records(python: str, scheme: str, link: Link, rounds: int, folder: Path) -> bool:
    """Measure all ways in turns, and print them; whether the limit of mode file is kept."""
    readers = readers_of(python, scheme, folder)
    seconds: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(rounds):
        for name, reader in readers.items():
            with link() as environ:
                seconds[name].append(reader(environ))
    ratios: dict[str, float] = {}
    for name, each in seconds.items():
        ratios[name] = median(a / b for a, b in zip(seconds["stream"], each, strict=True))
        least, most = min(each), max(each)
        print(f"{scheme}:// {name:<10} {median(each):6.2f} s  ({least:.2f}-{most:.2f})", end="")
        print(f"; stream / {name} {ratios[name]:.3f}", flush=True)
    print(f"limit of stream / file {LIMIT}")
    return ratios["file"] <= LIMIT


def readers_of(python: str, scheme: str, folder: Path) -> Readers:
    """The ways to read from a store; a client that cannot be installed is left out."""
    uri = f"{scheme}://data/large"
    modes = ("stream", "file")
    readers: Readers = {mode: partial(by_mode, python, uri, mode, folder) for mode in modes}
    if scheme == "gs":
        readers["TensorFlow"] = partial(by_tensorflow, python, uri)
    programs = {name.split()[0] for name in PEERS[scheme]}
    installed = {program: install(program, folder) for program in sorted(programs)}
    for name in PEERS[scheme]:
        if client := installed[name.split()[0]]:
            readers[name] = partial(by_peer, str(client.python), name)
    return readers


def by_mode(python: str, uri: str, mode: str, folder: Path, environ: Environ) -> float:
    """Ours; mode file downloads into a new cache."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        more = {**environ, "RAILHEAD_DATA_CACHE": cache}
        return float(probe(python, more, "first", uri, mode))


def by_tensorflow(python: str, uri: str, environ: Environ) -> float:
    """TensorFlow's own reader."""
    return float(probe(python, environ, "plain", uri))


def by_peer(python: str, name: str, environ: Environ) -> float:
    """Another client's, in its own environment."""
    command = [python, str(Path(__file__).with_name("peers.py")), name]
    done = subprocess.run(
        command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True, check=True
    )
    return float(done.stdout.splitlines()[-1])
