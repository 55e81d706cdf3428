"""The records of tested-on/: what was run on which GPU and in which cloud, and README's row of it.

Each file is one JSON document with `schema` and `kind`: `gpu` from `make gpu-check`, `cloud` from
`make test-cloud`. README's row is made from the GPU records alone; `python -m
bootstrap.gpu_tools.tested_on` writes it again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bootstrap.errors import RailheadError

REPO = Path(__file__).resolve().parents[2]
FOLDER = "tested-on"
SCHEMA = 1
GPU, CLOUD = "gpu", "cloud"
MAKERS = {GPU: "make gpu-check", CLOUD: "make test-cloud"}
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
        return write(self.file, GPU, asdict(self), root)


def write(name: str, kind: str, record: Mapping[str, Any], root: Path = REPO) -> Path:
    """Write a record of this kind into tested-on/, over the one of an earlier time."""
    path = root / FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"schema": SCHEMA, "kind": kind, **record}, indent=2) + "\n")
    return path


def record(path: Path) -> dict[str, Any]:
    """The document of one file, whatever its kind.

    Raises:
        RailheadError: it is not JSON, or its schema or kind is unknown.
    """
    try:
        document = json.loads(path.read_text())
    except ValueError as error:
        raise RailheadError(f"{path} is not a JSON document: {error}") from None
    whole = document if isinstance(document, dict) else {}
    schema, kind = whole.get("schema"), whole.get("kind")
    if schema != SCHEMA or kind not in list(MAKERS):
        raise RailheadError(
            f"{path} is not a record of tested-on: schema {schema!r}, kind {kind!r}; "
            f"expected schema {SCHEMA} and kind {' or '.join(MAKERS)}",
            hint=f"{' or '.join(MAKERS.values())}   # writes it again",
        )
    return whole


def machines(root: Path = REPO) -> list[Machine]:
    """Every GPU record of tested-on/, in the order of its file name; records of a cloud are none.

    Raises:
        RailheadError: a file there is no record, or has not the name of its GPU.
    """
    files = sorted((root / FOLDER).glob("*.json"))
    found = {path: read(path) for path in files if record(path)["kind"] == GPU}
    for path, machine in found.items():
        if path.name != machine.file:
            raise RailheadError(
                f"{path} is the record of {machine.gpu}, whose file is {machine.file}",
                hint=f"git mv {FOLDER}/{path.name} {FOLDER}/{machine.file}",
            )
    return list(found.values())


def read(path: Path) -> Machine:
    """The GPU record that `save` wrote.

    Raises:
        RailheadError: it is not a GPU record.
    """
    document = record(path)
    fields = {key: value for key, value in document.items() if key not in ("schema", "kind")}
    try:
        checks = tuple(Check(**check) for check in fields.pop("checks"))
        return Machine(**fields, checks=checks)
    except (KeyError, TypeError) as error:
        raise RailheadError(
            f"{path} is not a whole GPU record: {error}", hint=f"{MAKERS[GPU]}   # writes it again"
        ) from None


def row(tested: Sequence[Machine]) -> str:
    """The line of README's table about training; of a GPU it names the checks and nothing more."""
    ran = "; ".join(["on CPUs, over local and named SSH hosts", *map(_checked, tested)])
    if not tested:
        return f"| training | {ran} | {NEVER} |\n"
    never = "`fab train` on a GPU; the checks on any other GPU and over several hosts"
    if all(each.count == 1 for each in tested):
        never += ", or over several GPUs of one host"
    return f"| training | {ran} | {never} |\n"


def _checked(tested: Machine) -> str:
    many = f"{tested.count} x " if tested.count > 1 else ""
    where = f"on {many}[{tested.gpu}]({FOLDER}/{tested.file}), {tested.date}"
    passed = [check.name for check in tested.checks if check.passed]
    result = f"passed: {', '.join(passed) or 'none'}"
    if tested.failed:
        result += f"; failed: {', '.join(tested.failed)}"
    return f"{where}, the checks of `make gpu-check` alone ({result})"


def write_row(root: Path = REPO) -> None:
    """Put the row that the GPU records make into README.

    Raises:
        RailheadError: a file of tested-on/ is no record.
    """
    page = root / "README.md"
    line = row(machines(root))
    page.write_text(ROW.sub(lambda _: line, page.read_text()))


if __name__ == "__main__":
    write_row()
