"""The records in tested-on/: test results per GPU and per cloud, and the row that README shows.

Each file is one JSON document with `schema` and `kind`: `gpu` from `make gpu-check`, `cloud` from
`make test-cloud`. The rows in README come from them; `python -m bootstrap.gpu_tools.tested_on`
rewrites them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from railhead.documents.codec import decode, encode, key
from railhead.documents.lazy import dataclass

from ..errors import RailheadError

REPO = Path(__file__).resolve().parents[2]
FOLDER = "tested-on"
SCHEMA = 1
GPU, CLOUD = "gpu", "cloud"
MAKERS = {GPU: "make gpu-check", CLOUD: "make test-cloud"}
ROW = re.compile(r"^\| training \|.*\n", re.MULTILINE)
CLOUD_ROW = re.compile(r"^\| AWS, Google Cloud \|.*\n", re.MULTILINE)
CLOUDS = {"aws": "AWS", "gcp": "Google Cloud"}
NEVER = (
    "TensorFlow on a GPU: GPU runtimes are locked, and the Horovod wheel for them is compiled and"
)
NEVER += " run over two CPU ranks (`make gpu-wheel`)"


@dataclass(frozen=True)
class Check:
    """The result of one check: whether it passed, and its figure or its error message."""

    name: str
    passed: bool
    figure: str


@dataclass(frozen=True)
class Machine:
    """The results of `make gpu-check` on one machine with `count` GPUs of one kind."""

    gpu: str
    count: int
    driver: str
    date: str
    system: str
    versions: Mapping[str, str]
    checks: tuple[Check, ...]

    @property
    def file(self) -> str:
        """The file name of the record: nvidia-l4.json."""
        return re.sub(r"[^a-z0-9]+", "-", self.gpu.lower()).strip("-") + ".json"

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the failed checks."""
        return tuple(check.name for check in self.checks if not check.passed)

    def save(self, root: Path = REPO) -> Path:
        """Write the file; replaces an earlier one."""
        return write(self.file, GPU, encode(self), root)


@dataclass(frozen=True)
class Record:
    """One file of tested-on/; its other keys depend on its kind."""

    schema: int = key(choices=(SCHEMA,))
    kind: str = key(choices=MAKERS)
    content: Mapping[str, Any] = key({}, rest=True)


def write(name: str, kind: str, content: Mapping[str, Any], root: Path = REPO) -> Path:
    """Write a record of this kind into tested-on/; replaces an earlier one."""
    path = root / FOLDER / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(encode(Record(SCHEMA, kind, content)), indent=2) + "\n")
    return path


def record(path: Path) -> Record:
    """One file, of any kind. RailheadError: it is not JSON, or its schema or kind is unknown."""
    try:
        document = json.loads(path.read_text())
    except ValueError as error:
        raise RailheadError(f"{path} is not a JSON document: {error}") from None
    hint = f"{' or '.join(MAKERS.values())}   # writes it again"
    subject = f"{path} is not a record of tested-on"
    return decode(Record, document, what=subject, error=partial(RailheadError, hint=hint))


def machines(root: Path = REPO) -> list[Machine]:
    """Every GPU record in tested-on/, sorted by file name; skips cloud records.

    Raises:
        RailheadError: a file is not a record, or its name does not match its GPU.
    """
    files = sorted((root / FOLDER).glob("*.json"))
    by_file = {path: read(path) for path in files if record(path).kind == GPU}
    for path, machine in by_file.items():
        if path.name != machine.file:
            raise RailheadError(
                f"{path} is the record of {machine.gpu}, whose file is {machine.file}",
                hint=f"git mv {FOLDER}/{path.name} {FOLDER}/{machine.file}",
            )
    return list(by_file.values())


def read(path: Path) -> Machine:
    """Read a GPU record that `save` wrote. RailheadError: it is not a GPU record."""
    subject, hint = f"{path} is not a complete GPU record", f"{MAKERS[GPU]}   # writes it again"
    return decode(
        Machine, record(path).content, what=subject, error=partial(RailheadError, hint=hint)
    )


def row(tested: Sequence[Machine]) -> str:
    """The training row of the table in README; for a GPU it names the checks only."""
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


def cloud_row(root: Path = REPO) -> str:
    """The row of the clouds of the table in README: which parts passed in an account, and when.

    Raises:
        RailheadError: a file in tested-on/ is not a record.
    """
    files = {name: root / FOLDER / f"{name}.json" for name in CLOUDS}
    seen = {name: record(path) for name, path in files.items() if path.exists()}
    ran = ["Pulumi's engine and the API calls, against stand-ins"]
    ran += [_in_account(name, cloud_record) for name, cloud_record in seen.items()]
    without = [f"an account of {title}" for name, title in CLOUDS.items() if name not in seen]
    never = " or ".join(without) if seen else "a real account"
    return f"| AWS, Google Cloud | {'; '.join(ran)} | {never or 'other machines'} |\n"


def _in_account(name: str, seen: Record) -> str:
    content = seen.content
    ended = {part["name"]: not part["error"] for part in content["parts"]}
    passed = ", ".join(part for part, whole in ended.items() if whole) or "none"
    failed = ", ".join(part for part, whole in ended.items() if not whole)
    machine = content["config"]["machine_type"]
    where = f"in an account of {CLOUDS[name]} ([{machine}]({FOLDER}/{name}.json)"
    result = f"{where}, {content['date']}): passed {passed}"
    return result + (f"; failed {failed}" if failed else "")


def write_row(root: Path = REPO) -> None:
    """Update the rows of training and of the clouds in README from the records.

    Raises:
        RailheadError: a file in tested-on/ is not a record.
    """
    page = root / "README.md"
    text = ROW.sub(lambda _: row(machines(root)), page.read_text())
    page.write_text(CLOUD_ROW.sub(lambda _: cloud_row(root), text))


if __name__ == "__main__":
    write_row()
