"""Builds the Horovod wheel on one host, tests it there on two ranks and fetches it. Nothing opens
it on this computer: it is code of that host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath

from railhead.documents.agent.files import TextFile

from ..console.text import clean, size
from ..errors import RailheadError
from ..plan import downloads, runtimes
from ..untrusted.unpack import Hostile
from . import wheels
from .apt_proxy import apt_proxy
from .host_step import QUIET, HostStep
from .wheel_store import NAME

# The wheel stays on its host for another command that waits for it, and appears complete or not at
# all. A build that is terminated removes its files first.
ONCE = """trap : TERM
ls "$2"/*.whl 2>/dev/null && exit
rm -rf "$2.part"
sh "$0" "$1" "$2.part" "$3" && mv "$2.part" "$2" && ls "$2"/*.whl"""
WHEEL_LIMIT = 1 << 28  # bytes; a wheel with NCCL has 21 MB
APT = "~/.railhead/build/apt.conf"
# Replaces the host's own settings, which may name an unreachable proxy.
APT_SETTINGS = """Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Acquire::http::Proxy "{0}";
Acquire::https::Proxy "{0}";
"""


def build(step_host: HostStep, into: Path) -> Path:
    """Build the wheel, unless another command has done it meanwhile, test it and fetch it into the
    folder `into` of this computer.

    Raises:
        RailheadError: the build or the test failed.
        Hostile: what the host sent is not a file with the name of a wheel.
    """
    environment = step_host.cluster.environment
    recipe = environment.runtime.recipe
    folder = step_host.build_folder
    # All get the same mode, executable as one must be: so unchanged files, which another command
    # may be using, are not replaced.
    files = (TextFile(f"{folder}/{path.name}", path.read_text(), 0o755) for path in recipe)
    step_host.session.write(*files)
    argv = ["sh", "-c", ONCE, f"{folder}/horovod.sh", environment.folder, f"{folder}/out"]
    with supplied(step_host) as variables:
        reply = step_host.run("horovod", [*argv, f"{folder}/horovod.txt"], env=variables)
    try:
        name = _wheel_name(reply.tail)
        step_host.install_wheel(f"{folder}/out/{name}")
        _test(step_host)
    except RailheadError:
        step_host.session.remove(f"{folder}/out")  # the next command builds another
        raise
    wheel = into / name
    step_host.session.get_file(f"{folder}/out/{name}", wheel, limit=WHEEL_LIMIT)
    return wheel


@contextmanager
def supplied(step_host: HostStep) -> Iterator[Mapping[str, str]]:
    """Environment variables with the sources of a build's downloads. For a host without outbound
    access, wheels are copied to it for the block, and apt uses a proxy over SSH."""
    facts, gpu = step_host.facts, step_host.cluster.environment.runtime.gpu
    fetches_nvcc = gpu and not facts.gpu.toolkit
    archive = step_host.cluster.archive
    variables = {"DEBIAN_MIRROR": archive} if archive else {}
    with ExitStack() as stack:
        if downloads.cut_off(facts):
            for folder in _wheel_folders(step_host, fetches_nvcc):
                report = step_host.meter("horovod")
                stack.enter_context(wheels.deliver(step_host.session, folder, report))
            variables |= wheels.FOR_PIP
        if fetches_nvcc and facts.egress.apt.open is False:
            proxy = stack.enter_context(apt_proxy())
            origins = downloads.archives(facts, archive)
            address = stack.enter_context(proxy.on(step_host.session, origins))
            step_host.session.write(TextFile(APT, APT_SETTINGS.format(address)))
            variables |= {"APT_CONFIG": APT}
        yield variables


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


def _wheel_name(tail: Sequence[str]) -> str:
    """The name of the wheel, whose path is the last line of the build's output."""
    name = PurePosixPath(tail[-1]).name if tail else ""
    if not NAME.fullmatch(name):
        raise Hostile(f"{clean(name)[:80]!r} as the name of a wheel")
    return name


def _test(step_host: HostStep) -> None:
    """Check the wheel's features and a sum over two ranks, before other hosts get the wheel."""
    environment = step_host.cluster.environment
    python = environment.interpreter
    argv = [
        *runtimes.TRY_WHEEL,
        python,
        f"{step_host.build_folder}/try_wheel.py",
        *environment.runtime.parts,
    ]
    step_host.run("horovod", argv, env={**QUIET, **runtimes.TRY_VARIABLES})
