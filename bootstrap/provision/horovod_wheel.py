"""Horovod's wheel: built on one host, tried there on two ranks, and brought here for the others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bootstrap.console.text import size
from bootstrap.plan import downloads, runtimes
from bootstrap.provision import wheel_store, wheels
from bootstrap.provision.apt_proxy import apt_proxy
from bootstrap.provision.host_step import QUIET, HostStep
from bootstrap.provision.survey import wheel_folder
from bootstrap.untrusted import unpack

BUILD = "~/.railhead/build"
WHEEL_LIMIT = 1 << 30  # bytes; a wheel with NCCL has a few MB
APT = f"{BUILD}/apt.conf"
# In place of the host's own, where a proxy may be named that does not answer.
APT_SETTINGS = """Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Acquire::http::Proxy "{0}";
Acquire::https::Proxy "{0}";
"""


def build(step_host: HostStep) -> Path:
    """Build the wheel, try it, and bring it into this computer's cache.

    Raises:
        RailheadError: it could not be built, or does not serve.
    """
    environment = step_host.cluster.environment
    recipe = environment.runtime.recipe
    files = [[f"{BUILD}/{path.name}", 0o644, path.read_text()] for path in recipe]
    step_host.session.call("write", files=files)
    argv = ["sh", f"{BUILD}/horovod.sh", environment.folder, f"{BUILD}/out"]
    with supplied(step_host) as found:
        built = step_host.run("horovod", [*argv, f"{BUILD}/horovod.txt"], env=found)
    step_host.install_wheel(built.tail[-1])
    _try(step_host)
    wheel = _bring(step_host)
    step_host.session.call("remove", paths=[BUILD])
    return wheel


@contextmanager
def supplied(step_host: HostStep) -> Iterator[Mapping[str, str]]:
    """Variables that tell a build where its parts are; on a host without outbound access they are
    there meanwhile, or come through the connection."""
    facts, gpu = step_host.facts, step_host.cluster.environment.runtime.gpu
    fetches_nvcc = gpu and not facts.gpu.toolkit
    archive = step_host.cluster.archive
    found = {"DEBIAN_MIRROR": archive} if archive else {}
    with ExitStack() as stack:
        if downloads.cut_off(facts):
            for house in _houses(step_host, fetches_nvcc):
                report = step_host.reporter("horovod")
                stack.enter_context(wheels.deliver(step_host.session, house, report))
            found |= wheels.FOR_PIP
        if fetches_nvcc and facts.egress.apt.open is False:
            proxy = stack.enter_context(apt_proxy())
            places = downloads.archives(facts, archive)
            address = stack.enter_context(proxy.on(step_host.session, places))
            step_host.session.call("write", files=[[APT, 0o644, APT_SETTINGS.format(address)]])
            found |= {"APT_CONFIG": APT}
        yield found


def _houses(step_host: HostStep, with_nvcc: bool) -> Iterator[Path]:
    """Folders with Horovod's source and, where nvcc is fetched, the headers that go with it."""
    report = step_host.reporter("horovod")

    def told(count: int) -> None:
        report(f"{size(count)} fetched here")

    yield wheels.fetch_source((runtimes.LOCKS / "horovod.txt").read_text(), told)
    for name in runtimes.CUDA_LOCKS if with_nvcc else ():  # apart: they differ in some versions
        lock = (runtimes.LOCKS / name).read_text()
        yield wheels.fetch([lock], step_host.cluster.environment.python, told)


def _try(step_host: HostStep) -> None:
    """What the wheel was built with, and a sum over two ranks, before others get it."""
    environment = step_host.cluster.environment
    python = f"{environment.folder}/bin/python"
    argv = [*runtimes.TRY_WHEEL, python, f"{BUILD}/try_wheel.py", *environment.runtime.parts]
    step_host.run("horovod", argv, env={**QUIET, **runtimes.TRY_VARIABLES})


def _bring(step_host: HostStep) -> Path:
    folder = wheel_folder(step_host.cluster)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as part:
        packed, files = Path(part) / "wheel.tar.gz", Path(part) / "files"
        step_host.session.get(f"{BUILD}/out", ["horovod-*.whl"], packed, limit=WHEEL_LIMIT)
        unpack.unpack(packed, files, WHEEL_LIMIT)
        wheel = wheel_store.local_wheel(files)
        assert wheel is not None, "the build ended well and left no wheel"
        return wheel.replace(folder / wheel.name)  # whole, or it is not there
