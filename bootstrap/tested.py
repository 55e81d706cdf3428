"""What was run on which GPU: tested-on/<gpu>.json, and the row of README that is made from them.

`python -m bootstrap.tested` writes the row again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parent.parent
FOLDER = "tested-on"
ROW = re.compile(r"^\| training \|.*\n", re.MULTILINE)
NEVER = "on a GPU: the runtimes for GPUs are locked, and the Horovod wheel for them is compiled and"
NEVER += " run over two CPU ranks (`make gpu-wheel`)"


@dataclass(frozen=True)
class Check:
    """One thing that was tried: whether it did what it should, and its figure or what it said."""

    name: str
    passed: bool
    figure: str


@dataclass(frozen=True)
class Machine:
    """What `make gpu-check` found on one machine with `count` GPUs of one kind."""

    gpu: str
    count: int
    driver: str
    date: str
    system: str
    versions: Mapping[str, str]
    checks: tuple[Check, ...]

    @property
    def file(self) -> str:
        """The name of its file: nvidia-l4.json."""
        return re.sub(r"[^a-z0-9]+", "-", self.gpu.lower()).strip("-") + ".json"

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of what failed."""
        return tuple(check.name for check in self.checks if not check.passed)

    def save(self, root: Path = REPO) -> Path:
        """Write the file, over the one of an earlier time."""
        path = root / FOLDER / self.file
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({"schema": 1, **asdict(self)}, indent=2) + "\n")
        return path


def read(path: Path) -> Machine:
    """A file that `save` wrote."""
    document: dict[str, Any] = json.loads(path.read_text())
    del document["schema"]
    checks = tuple(Check(**check) for check in document.pop("checks"))
    return Machine(**document, checks=checks)


def row(tested: Sequence[Machine]) -> str:
    """The line of README's table about training."""
    ran = "; ".join(["on CPUs, over local and named SSH hosts", *map(_told, tested)])
    never = NEVER if not tested else "on any other GPU, and over several hosts with GPUs"
    if tested and all(each.count == 1 for each in tested):
        never += ", or several GPUs of one"
    return f"| training | {ran} | {never} |\n"


def _told(tested: Machine) -> str:
    many = f"{tested.count} x " if tested.count > 1 else ""
    told = f"on {many}[{tested.gpu}]({FOLDER}/{tested.file}), {tested.date}"
    return told + (f" (failed: {', '.join(tested.failed)})" if tested.failed else "")


def write_row(root: Path = REPO) -> None:
    """Put the row that the files make into README."""
    files = sorted((root / FOLDER).glob("*.json"))
    page = root / "README.md"
    page.write_text(ROW.sub(lambda _: row([read(path) for path in files]), page.read_text()))


if __name__ == "__main__":
    write_row()
