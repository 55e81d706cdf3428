"""How often a run starts again after a failure, from its options and its program. Pure."""

from __future__ import annotations

from railhead.documents.run import Program, Script

from .launch import Retries

DEFAULT = 3


def retries_of(program: Program, wanted: int | None) -> Retries:
    """The retries of a run. Default: for the built-in training with checkpoints, and for a script
    once it has written some. `wanted` (--retries) counts from the first step on."""
    if wanted is not None:
        return Retries(wanted, from_start=wanted > 0)
    if isinstance(program, Script):
        return Retries(DEFAULT)
    return Retries() if without_checkpoints(program) else Retries(DEFAULT, from_start=True)


def without_checkpoints(program: Program) -> str:
    """Why a program may have no checkpoints; "" for one that writes them."""
    if isinstance(program, Script):
        return "until the script writes checkpoints to RAILHEAD_CHECKPOINT_DIR"
    if program.kind == "evaluation":
        return "an evaluation has no checkpoints"
    settings = program.settings
    writes = settings.get("checkpoint_steps") or settings.get("checkpoint_minutes")
    return "" if writes else "checkpoint_steps and checkpoint_minutes are 0"
