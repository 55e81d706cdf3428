"""docs/architecture.md: the keys of the documents."""

from __future__ import annotations

from typing import Any

from railhead.documents.cluster import ClusterDocument, DocumentHost
from railhead.documents.codec import described
from railhead.documents.runs.records import KINDS
from railhead.documents.runs.result import Result
from railhead.documents.runs.run import RunDocument

from .marked import table


def parts() -> dict[str, str]:
    """The generated parts of docs/architecture.md."""
    hosts = keys(DocumentHost, "hosts[].")
    return {
        "cluster-document": _table([*keys(ClusterDocument), *hosts]),
        "run-document": _table(keys(RunDocument)),
        "result": _table(keys(Result)),
        "records": table(("kind", "keys"), [(f"`{kind}`", doc) for kind, doc in KINDS.items()]),
    }


def keys(kind: type[Any], before: str = "") -> list[tuple[str, str]]:
    """The keys of a document with their meaning.

    Raises:
        SystemExit: a key is declared without one.
    """
    rows = [(f"`{before}{name}`", doc) for name, doc in described(kind).items()]
    if missing := [name for name, doc in rows if not doc]:
        raise SystemExit(f"{kind.__name__}: key(doc=...) is missing for {', '.join(missing)}")
    return rows


def _table(rows: list[tuple[str, str]]) -> str:
    """A key whose text has several lines has several rows."""
    lines = [(key, doc.split("\n")) for key, doc in rows]
    return table(
        ("key", "value"),
        [(key if line is doc[0] else "", line) for key, doc in lines for line in doc],
    )
