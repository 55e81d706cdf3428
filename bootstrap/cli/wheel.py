"""`fab wheel`: the Horovod wheel of a runtime, built and tested on this computer."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from railhead.documents.options.hosts import WheelOptions

from ..console.output import print_lines
from ..errors import UsageError
from ..facts.host import HostFacts
from ..inventory.files import atomic_write
from ..plan import open_mpi
from ..plan.runtimes import Environment
from ..provision import local_wheel


def make(options: WheelOptions, runtime: str | None, facts: HostFacts | None = None) -> None:
    """Build the wheel unless it exists, test it, and print where it is and how to install it.

    Args:
        facts: those of this computer; None: read them.

    Raises:
        UsageError: this computer cannot build it, or the folder has another wheel of this name.
        RailheadError: a download, the build or the test failed.
    """
    if options.out and Path(options.out).exists() and not Path(options.out).is_dir():
        raise UsageError(f"--out: {options.out} is not a folder")
    facts = facts or local_wheel.facts_here()
    open_mpi.refuse({"this computer": facts})
    environment = local_wheel.environment_here(
        facts, gpu=options.gpu, name=runtime, python=options.python
    )
    built = local_wheel.make(environment, facts)
    data = built.read_bytes()
    path = Path(options.out or built.parent, built.name).absolute()
    digest = hashlib.sha256(data).hexdigest()
    lines = [*_about(environment, facts), local_wheel.result_of(built)]
    lines += [_install_command(environment, path)]
    if options.out:
        # Wheels for several TensorFlows have one name.
        if path.exists() and path.read_bytes() != data:
            raise UsageError(
                f"--out: {path} is another wheel of the same name; name another folder"
            )
        atomic_write(path, data, mode=0o644)
        texts = {".sha256": f"{digest}  {path.name}\n", ".txt": "\n".join(lines) + "\n"}
        for ending, text in texts.items():
            atomic_write(path.with_name(path.name + ending), text, mode=0o644)
    print_lines(str(path), f"sha256 {digest}", *lines)


def _about(environment: Environment, facts: HostFacts) -> list[str]:
    mpi = open_mpi.series(facts).split(".")[0]
    needs = f"TensorFlow {environment.runtime.version}, Open MPI {mpi}"
    return [f"for {facts.os} on {facts.arch}, Python {environment.python}, {needs}"]


def _install_command(environment: Environment, path: Path) -> str:
    """Horovod's launcher imports distutils, which setuptools has for Python 3.12 and later."""
    python = [f"python{environment.python}", "-m", "pip", "install"]
    return shlex.join([*python, environment.runtime.requirement, "setuptools", str(path)])
