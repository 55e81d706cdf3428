"""What a changed config does to a machine that exists: refused or named, in the preview already."""

from __future__ import annotations

import shlex
from typing import Any

import pulumi

from railhead.installation import PROGRAM

from ..component.logical_names import LogicalNames
from .lookups.existing import INSTANCES


def before_update(names: LogicalNames, opts: pulumi.InvokeOptions) -> pulumi.ResourceHook:
    """A hook before each change of a machine in place: EBS does not shrink a disk, and would refuse
    that in the middle of an `up`; for another type the provider stops a machine and starts it, even
    if it was stopped before."""

    async def check(args: pulumi.ResourceHookArgs) -> None:
        old, new = args.old_inputs or {}, args.new_inputs or {}
        if _disk(new) < _disk(old):
            back = f"pulumi config set disk_gb {_disk(old)} --stack {_stack()}"
            raise pulumi.RunError(
                f"disk_gb: {args.name} has a disk of {_disk(old)} GB, and EBS makes none smaller\n"
                f"  next: {back}   # or new machines, with empty disks: {PROGRAM} teardown "
                f"--destroy --stack {_stack()} && {PROGRAM} up --stack {_stack()}"
            )
        if old.get("instanceType") != new.get("instanceType") and await _is_stopped(args.id, opts):
            pulumi.log.warn(
                f"{args.name} is stopped: for another type `pulumi up` starts it, and it costs "
                f"money. Instead: {PROGRAM} up --stack {_stack()}   # stops it again; or after "
                f"`pulumi up`: {PROGRAM} stop --stack {_stack()}"
            )

    return pulumi.ResourceHook(
        names.of("change"), check, pulumi.ResourceHookOptions(on_dry_run=True)
    )


def _disk(inputs: Any) -> int:
    """The size of a machine's disk; 0 if it has none of ours."""
    return int((inputs.get("rootBlockDevice") or {}).get("volumeSize") or 0)


async def _is_stopped(machine: str, opts: pulumi.InvokeOptions) -> bool:
    args = {
        "instanceStateNames": ["stopping", "stopped"],
        "filters": [{"name": "instance-id", "values": [machine]}],
    }
    try:
        listed = await pulumi.runtime.invoke_async(INSTANCES, args, opts)
    except Exception as error:  # the type that a failed invoke raises
        pulumi.log.info(f"whether {machine} is stopped is not known: {error}")
        return False
    return bool(listed["ids"])


def _stack() -> str:
    return shlex.quote(pulumi.get_stack())
