"""What tests of `fab leaks` share: a stack that lives, and reports by status."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from standins.pulumi_command import exported, on_aws

from bootstrap.errors import RailheadError
from railhead.documents.leaks import Leak, LeakReport

LIVES = "aaaaaaaaaaaa"  # the id of the stack `dev`
STATE = exported(*on_aws("i-1", cluster_id=LIVES))
Run = Callable[..., tuple[LeakReport, RailheadError | None]]


class HasStacks(Protocol):
    """Lets the Pulumi backend have these stacks, all with one state."""

    def __call__(self, *names: str, export: str = STATE) -> None: ...


def of(report: LeakReport, status: str) -> dict[str, Leak]:
    """The resources of a status by kind."""
    return {leak.kind: leak for leak in report.resources if leak.status == status}


def ids(report: LeakReport, status: str) -> dict[str, str]:
    """Their ids."""
    return {kind: leak.id for kind, leak in of(report, status).items()}
