"""Builds the Horovod wheel on one host, tests it there on two ranks and downloads it to here."""

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
from bootstrap.provision.wheel_store import wheel_folder
from bootstrap.untrusted import unpack

BUILD = "~/.railhead/build"
WHEEL_LIMIT = 1 << 30  # bytes; a wheel with NCCL has a few MB
APT = f"{BUILD}/apt.conf"
# Replaces the host's own settings, which may name an unreachable proxy.
APT_SETTINGS = """Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Acquire::http::Proxy "{0}";
Acquire::https::Proxy "{0}";
"""


def build(step_host: HostStep) -> Path:
    """Build the wheel, test it and download it into this machine's cache.

    Raises:
        RailheadError: the build or the test failed.
    """
    environment = step_host.cluster.environment
    recipe = environment.runtime.recipe
    files = [[f"{BUILD}/{path.name}", 0o644, path.read_text()] for path in recipe]
    step_host.session.call("write", files=files)
    argv = ["sh", f"{BUILD}/horovod.sh", environment.folder, f"{BUILD}/out"]
    with supplied(step_host) as found:
        built = step_host.run("horovod", [*argv, f"{BUILD}/horovod.txt"], env=found)
    step_host.install_wheel(built.tail[-1])
    _test(step_host)
    wheel = _download(step_host)
    step_host.session.call("remove", paths=[BUILD])
    return wheel


@contextmanager
def supplied(step_host: HostStep) -> Iterator[Mapping[str, str]]:
    """Environment variables with the sources of a build's downloads. For a host without outbound
    access, wheels are copied to it for the block, and apt uses a proxy over SSH."""
    facts, gpu = step_host.facts, step_host.cluster.environment.runtime.gpu
    fetches_nvcc = gpu and not facts.gpu.toolkit
    archive = step_host.cluster.archive
    found = {"DEBIAN_MIRROR": archive} if archive else {}
    with ExitStack() as stack:
        if downloads.cut_off(facts):
            for folder in _wheel_folders(step_host, fetches_nvcc):
                report = step_host.reporter("horovod")
                stack.enter_context(wheels.deliver(step_host.session, folder, report))
            found |= wheels.FOR_PIP
        if fetches_nvcc and facts.egress.apt.open is False:
            proxy = stack.enter_context(apt_proxy())
            origins = downloads.archives(facts, archive)
            address = stack.enter_context(proxy.on(step_host.session, origins))
            step_host.session.call("write", files=[[APT, 0o644, APT_SETTINGS.format(address)]])
            found |= {"APT_CONFIG": APT}
        yield found


def _wheel_folders(step_host: HostStep, with_nvcc: bool) -> Iterator[Path]:
    """Folders with Horovod's source and, if nvcc is downloaded, the CUDA headers for it."""
    report = step_host.reporter("horovod")

    def report_bytes(count: int) -> None:
        report(f"{size(count)} fetched here")

    yield wheels.fetch_source((runtimes.LOCKS / "horovod.txt").read_text(), report_bytes)
    if with_nvcc:
        interpreter = step_host.facts.pythons[step_host.cluster.environment.python]
        python = wheels.python_version(step_host.session, interpreter)
        for name in runtimes.CUDA_LOCKS:  # separate: some versions conflict
            yield wheels.fetch([(runtimes.LOCKS / name).read_text()], python, report_bytes)


def _test(step_host: HostStep) -> None:
    """Check the wheel's features and a sum over two ranks, before other hosts get the wheel."""
    environment = step_host.cluster.environment
    python = environment.interpreter
    argv = [*runtimes.TRY_WHEEL, python, f"{BUILD}/try_wheel.py", *environment.runtime.parts]
    step_host.run("horovod", argv, env={**QUIET, **runtimes.TRY_VARIABLES})


def _download(step_host: HostStep) -> Path:
    """Copy the wheel to this machine's cache, where it appears complete or not at all."""
    folder = wheel_folder(step_host.cluster)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as part:
        packed, files = Path(part) / "wheel.tar.gz", Path(part) / "files"
        step_host.session.get(f"{BUILD}/out", ["horovod-*.whl"], packed, limit=WHEEL_LIMIT)
        unpack.unpack(packed, files, WHEEL_LIMIT)
        wheel = wheel_store.local_wheel(files)
        assert wheel is not None, "the build ended well and left no wheel"
        return wheel.replace(folder / wheel.name)
