"""The end of a stack that a test made in somebody's account, whatever is left of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from places import ROOT

from bootstrap.inventory import pulumi_stack
from bootstrap.lifecycle import stack_machines


def typed(
    *argv: str,
    codes: tuple[int, ...] = (0,),
    folder: Path = ROOT,
    seconds: float | None = None,
    merged: bool = True,
) -> str:
    """Run a command in the clone, for so many seconds at most, and show it; what it printed, on
    stdout alone unless `merged`."""
    print("$", *argv, flush=True)
    err = subprocess.STDOUT if merged else None
    try:
        done = subprocess.run(
            argv, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=err, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{argv[:2]} did not end in {seconds:.0f} s, the budget") from None
    print(done.stdout, flush=True)
    last = done.stdout.strip().splitlines()[-1:]
    assert done.returncode in codes, f"{argv[:2]} ended with {done.returncode}: {last}"
    return done.stdout


def clean_up(stack: str, folder: Path = ROOT) -> None:
    """End everything that has the stack's id, also after an `up` that broke off.

    Raises:
        AssertionError: something could not be ended; the message names it.
    """
    machines = stack_machines.find(stack)
    destroy = ["fab", "teardown", "--destroy", "--discard-results", "--yes", "--stack", stack]
    destroy += ["--with-bucket"] if machines.state.bucket else []
    printed = typed(*destroy, codes=(0, 1, 2), folder=folder)
    if "pulumi cancel" in printed:
        typed("pulumi", "cancel", "--yes", "--stack", stack, folder=folder)
        typed(*destroy, codes=(0, 1, 2), folder=folder)
    remaining = stack_machines.of_id(machines)
    assert remaining is None, f"NOT ENDED, and they cost money: {[h.id for h in remaining.hosts]}"
    kinds = pulumi_stack.resources(stack)
    assert not kinds, f"NOT REMOVED: {kinds}; next: pulumi destroy --stack {stack}"
    typed("pulumi", "stack", "rm", stack, "--yes", folder=folder)
