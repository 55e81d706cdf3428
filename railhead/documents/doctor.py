"""What `fab doctor` found: checks of this computer, the credentials and the cloud."""

from __future__ import annotations

from railhead.documents.codec import key
from railhead.documents.lazy import dataclass

STATES = ("ok", "warns", "blocks", "unknown")


@dataclass(frozen=True)
class Check:
    """One check. `state`: `blocks` means that `fab up` cannot succeed, `unknown` that it could not
    be determined. `next` is the command that corrects it."""

    name: str
    state: str = key(choices=STATES)
    evidence: str = ""
    next: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All checks, at a time in UTC; `stack` is null if only this computer was checked."""

    at: str
    stack: str | None
    checks: tuple[Check, ...]

    @property
    def blocking(self) -> tuple[Check, ...]:
        """The checks because of which `fab up` cannot succeed."""
        return tuple(check for check in self.checks if check.state == "blocks")
