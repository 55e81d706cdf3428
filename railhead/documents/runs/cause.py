"""Why an attempt of a run failed. The table is in bootstrap/host/causes/causes.py."""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

KINDS = (
    "program", "usage", "data", "memory", "disk", "network", "host", "preempted", "gpu", "stall"
)  # fmt: skip
LONGEST = 400  # characters of the evidence


@dataclass(frozen=True)
class Cause:
    """`class_` is one of KINDS. `evidence`: the line that shows it, printed by the program, by the
    kernel of the host, or a sentence about the end of the rank. `rank` is None for a whole host,
    `host` also for a failure of mpirun itself."""

    class_: str = key(choices=KINDS)
    evidence: str = key()
    host: str | None = None
    rank: int | None = None

    def __str__(self) -> str:
        return f"{self.class_}: {self.evidence[:LONGEST]}"
