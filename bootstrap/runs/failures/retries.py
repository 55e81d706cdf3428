"""How often a run starts again after a failure, and with how many hosts. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from railhead.documents.runs.run import Program, Script

from ...data.inputs import DataInput
from ...errors import UsageError
from ..launch import Retries, RunOptions

DEFAULT = 3


def retries_of(program: Program, wanted: int | None) -> Retries:
    """The retries of a run. Default: for the built-in training with checkpoints, and for a script
    once it has written some. `wanted` is the value of --retries: with it, a run may also start
    again without a checkpoint."""
    if wanted is not None:
        return Retries(wanted, from_start=wanted > 0)
    if isinstance(program, Script):
        return Retries(DEFAULT)
    return Retries() if without_checkpoints(program) else Retries(DEFAULT, from_start=True)


def without_checkpoints(program: Program) -> str:
    """Why a program may have no checkpoints; "" if it writes them."""
    if isinstance(program, Script):
        return "until the script writes checkpoints to RAILHEAD_CHECKPOINT_DIR"
    if program.kind == "evaluation":
        return "an evaluation has no checkpoints"
    settings = program.settings
    writes = settings.get("checkpoint_steps") or settings.get("checkpoint_minutes")
    return "" if writes else "checkpoint_steps and checkpoint_minutes are 0"


def elastic_hosts(text: str, retries: Retries, data: Sequence[DataInput]) -> tuple[int, int]:
    """The least and the greatest number of hosts of --elastic.

    Raises:
        UsageError: `text` is not a range, or the run cannot continue with fewer hosts.
    """
    match = re.fullmatch(r"(\d{1,4}):(\d{1,4})", text)
    least, most = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= least <= most:
        raise UsageError(f"--elastic {text}: write MIN:MAX, numbers of hosts, such as 1:4")
    if not retries.most:
        raise UsageError(f"--elastic {text} needs retries, and this run has none")
    for item in data:
        if item.spec.distribution == "shard":
            raise UsageError(
                f"--elastic {text}: each host has its own part of --data {item.spec.name}; without"
                " a host its part is missing",
                hint=f"--data {item.spec.name}={item.spec.uri}   # without shard",
            )
    return least, most


def check_elastic(options: RunOptions, hosts: int) -> None:
    """UsageError if the number of hosts is not in the range of --elastic, or if their strategy
    cannot continue with fewer hosts."""
    if options.retries.hosts is None:
        return
    least, most = options.retries.hosts
    strategy = options.resolved_strategy(hosts)
    if strategy.has_servers or strategy.one_host:
        raise UsageError(f"--elastic: strategy {strategy.name} has a fixed number of hosts")
    if not least <= hosts <= most:
        raise UsageError(f"--elastic {least}:{most}: the run has {hosts} hosts")


def check_takeover(options: RunOptions, hosts: int, bucket: str | None) -> None:
    """UsageError if no other host could continue the run after the loss of its chief."""
    if not options.retries.takeover:
        return
    strategy = options.resolved_strategy(hosts)
    if strategy.has_servers or strategy.one_host:
        raise UsageError(
            f"--takeover: a run with strategy {strategy.name} cannot continue without its chief",
            hint="the same command without it",
        )
    if hosts < 2:
        raise UsageError(
            f"--takeover needs at least 2 hosts, and the run has {hosts}",
            hint="the same command without --takeover, or with more hosts",
        )
    if not options.retries.most:
        raise UsageError("--takeover needs retries, and this run has none", hint="--retries 3")
    if bucket is None:
        raise UsageError(
            "--takeover needs a bucket that the hosts can write, from which another host continues;"
            " these hosts have none",
            hint="hosts of a stack whose setting bucket is true",
        )
