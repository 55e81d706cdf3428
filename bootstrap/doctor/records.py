"""Whether this Railhead reads all that is recorded on this computer, also by another version."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from railhead.documents import cluster
from railhead.documents.codec import decode
from railhead.documents.doctor import Check
from railhead.documents.lazy import dataclass
from railhead.documents.runs import run
from railhead.documents.runs.run import RunDocument
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.serving.endpoint import Deployed
from railhead.installation import UPGRADE

from ..console.text import count
from ..errors import RailheadError
from ..inventory import local_state
from ..inventory.document import from_document
from ..inventory.stack_records import StackRecord

SHOWN = 5  # records that are not read, each in a line


def _read_run(document: Any) -> None:
    record = decode(RunRecord, document)
    if record.document is not None:
        decode(RunDocument, record.document)


@dataclass(frozen=True)
class Kind:
    """Records of one kind below ~/.railhead: what reads one, and the schema that it reads."""

    name: str
    files: str
    read: Callable[[Any], object]
    schema: int = 1


KINDS = (
    Kind("cluster", "clusters/*/cluster.json", from_document, cluster.SCHEMA),
    Kind("run", "clusters/*/runs/*.json", _read_run, run.SCHEMA),
    Kind("stack", "stacks/*.json", partial(decode, StackRecord)),
    Kind("endpoint", "deployed/*.json", partial(decode, Deployed)),
)


def checks() -> Iterator[Check]:
    """How many records are read; a warning for each that is not: it is of a newer version, or
    damaged."""
    read: list[str] = []
    problems: list[Check] = []
    for kind in KINDS:
        files = sorted(local_state.home().glob(kind.files))
        wrong = [check for file in files if (check := _problem(kind, file))]
        problems += wrong
        read += [count(len(files) - len(wrong), kind.name)] if files else []
    yield Check("records", "ok", f"of this and earlier versions: {', '.join(read) or 'none'}")
    yield from problems[:SHOWN]
    if len(problems) > SHOWN:
        yield Check("records", "warns", f"{len(problems) - SHOWN} more are not read")


def _problem(kind: Kind, file: Path) -> Check | None:
    """Why a record is not read; None if it is."""
    document: Any = None
    try:
        document = json.loads(file.read_text())
        kind.read(document)
    except (OSError, ValueError, RecursionError, RailheadError) as error:
        if _schema(document) > kind.schema:
            return Check("records", "warns", f"{file} is of a newer Railhead", UPGRADE)
        aside = f"mv {shlex.quote(str(file))} ~   # no command reads it"
        return Check("records", "warns", f"{file} is damaged: {error}", aside)
    return None


def _schema(document: Any) -> int:
    """The schema of a record, or of the document in it; 0 without one."""
    if not isinstance(document, dict):
        return 0
    schema = document.get("schema")
    return schema if isinstance(schema, int) else _schema(document.get("document"))
