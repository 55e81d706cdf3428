"""All checks: this computer, the stack's cloud, and the stack's own preview."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from railhead.documents.doctor import Check, Diagnosis

from ..clouds import base
from ..clouds.request import StackRequest
from ..console.output import Reporter
from ..console.text import count
from ..errors import Command, RailheadError, UsageError
from ..inventory import pulumi_stack
from ..inventory.clouds import CLOUDS
from ..inventory.document import from_document
from . import computer, records

Examine = Callable[[StackRequest], Iterator[Check]]
MARKS = {"ok": "ok", "warns": "WARNING", "blocks": "BLOCKS", "unknown": "unknown"}


def diagnose(stack: str | None) -> Diagnosis:
    """Make all checks; without a stack only those of this computer."""
    checks = [*computer.checks(with_stack=stack is not None), *records.checks()]
    if stack and not _blocks(checks):
        checks += _output(stack)
        checks += _of_cloud(stack)
        checks += _preview(stack)
    return Diagnosis(base.utc_now(), stack, tuple(checks))


def refuse_blocked(stack: str, report: Reporter) -> None:
    """Before `fab up`: the checks that a preview does not make. UsageError: one of them says that
    the stack cannot be created."""
    checks = [*computer.checks(with_stack=True)]
    if not _blocks(checks):
        checks += _of_cloud(stack)
    for check in checks:
        if check.state == "warns":
            report(line(check))
    if blocking := _blocks(checks):
        raise UsageError(
            "\n".join(["the stack cannot be created:", *map(line, blocking)]),
            hint=Command("doctor", stack=stack),
        )


def _blocks(checks: Sequence[Check]) -> list[Check]:
    return [check for check in checks if check.state == "blocks"]


def request_of(stack: str) -> StackRequest | None:
    """What a stack requests of its cloud; None for local hosts, and where no cloud is set.
    UsageError: Pulumi does not answer, or there is no such stack."""
    config = pulumi_stack.config(stack)
    cloud = config.get("cloud", "")
    if cloud not in CLOUDS or not CLOUDS[cloud].examiner:
        return None
    config = {"name": stack.rpartition("/")[2], **config}
    return StackRequest(cloud, config, frozenset(pulumi_stack.state(stack).kinds), stack)


def policy(cloud: str, request: StackRequest | None) -> Any:
    """The document for an administrator, with all rights that a stack needs."""
    name = CLOUDS[cloud].policy
    assert name
    return base.load(name)(request)


def _output(stack: str) -> Iterator[Check]:
    """A stack whose output this version does not read: a newer one created or changed it."""
    with contextlib.suppress(RailheadError):  # the next check reports it
        document = pulumi_stack.state(stack).document
        try:
            if document is not None:
                from_document(document)
        except UsageError as error:
            yield Check("stack", "blocks", error.message, str(error.hint))


def _of_cloud(stack: str) -> Iterator[Check]:
    try:
        request = request_of(stack)
    except UsageError as error:
        yield Check("stack", "blocks", error.message, str(error.hint or "pulumi stack ls"))
        return
    if request is None:
        return
    examine: Examine = base.load(CLOUDS[request.cloud].examiner or "")
    try:
        yield from examine(request)
    except UsageError as error:
        yield Check("credentials", "blocks", error.message, str(error.hint))
    except RailheadError as error:
        yield Check(request.cloud, "unknown", error.message, str(error.hint))
    if cidrs := request.config.get("ssh_cidrs"):
        yield computer.own_address_check(cidrs, request.option)


def _preview(stack: str) -> Iterator[Check]:
    """What the stack's program refuses: config, quotas, zones, images. It creates nothing."""
    errors, cost = pulumi_stack.preview_report(stack)
    for error in errors:
        text, _, command = error.partition("\n  next: ")
        yield Check("preview", "blocks", text.strip(), command.strip())
    if not errors:
        yield Check("preview", "ok", "the config is valid; quotas, zone and image were found")
        if cost:
            yield Check("price", "ok", cost)


def lines(diagnosis: Diagnosis) -> list[str]:
    """The diagnosis for people, one line for each check, and the command that corrects it."""
    blocking = len(diagnosis.blocking)
    number = count(blocking, "check") if blocking else "no check"
    end = f"{number} would make {Command('up')} fail"
    if not blocking and any(c.name == "pulumi" and c.state != "ok" for c in diagnosis.checks):
        end = f"{Command('up')} needs Pulumi, see above; tasks with --hosts do not"
    return [*map(line, diagnosis.checks), end]


def line(check: Check) -> str:
    """One check."""
    following = f"\n  next: {check.next}" if check.next and check.state != "ok" else ""
    return f"{MARKS[check.state]:<8} {check.name:<14} {check.evidence}{following}"
