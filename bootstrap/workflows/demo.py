"""`fab demo`: start two SSH hosts on this computer, train on them, tear them down."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from railhead.documents.options.runs import ProgramOptions

from ..clouds.local import cluster as local_cluster
from ..console.output import print_lines
from ..errors import Command
from ..inventory import local_state
from ..lifecycle.receipt import check
from ..lifecycle.teardown import remove_from_hosts
from ..plan.cluster import Options
from ..plan.runtimes import uses_horovod
from ..provision import local_wheel
from ..runs.request import read_request
from ..runs.strategies import STRATEGIES
from .train import TrainOptions, train

HOSTS = 2
STRATEGY = "multiworker"  # nothing is compiled for it
SETTINGS = {"epochs": "12"}  # seconds faster than the default of 20, with nearly the same accuracy


def demo(results: Path, strategy: str | None) -> None:
    """Start two local hosts, train on them, and always tear them down.

    Raises:
        UsageError: the strategy does not run on two hosts, or this computer has no compiler for it.
    """
    program = ProgramOptions(preset="digits", settings=SETTINGS, strategy=strategy or STRATEGY)
    request = read_request(program)
    launcher = request.options.resolved_strategy(HOSTS).launcher
    if strategy == STRATEGIES["horovod"].name:
        _announce_compilation()
    inventory = local_cluster.start(local_state.DEMO, HOSTS)
    print_lines("two SSH hosts on this computer: " + ", ".join(str(h) for h in inventory.hosts))
    try:
        run = train(inventory, TrainOptions(request, Options(launcher=launcher), results))
    finally:
        receipt = remove_from_hosts(inventory)
        print_lines(*receipt.describe())
    check(receipt, Command("teardown"))
    print_lines(*_next_commands(run.run_id, launcher))


def _announce_compilation() -> None:
    """Print that Horovod will be compiled, unless its wheel exists.

    Raises:
        UsageError: the compiler or MPI's headers are missing.
    """
    facts = local_wheel.facts_here()
    environment = local_wheel.environment_here(facts)
    if not local_wheel.is_built_here(environment, facts):
        local_wheel.refuse_missing(facts)
        print_lines(f"Horovod is compiled first, once: {local_wheel.MINUTES}")


def _next_commands(run_id: str, launcher: str) -> list[str]:
    """What to type after the demo. Its hosts are stopped: --start starts them again."""
    lines = [
        f"next: {Command('train', script='train.py', launcher='tensorflow', start=True)}"
        "   # your script",
        f"next: {Command('report', run_id, open=_has_browser())}   # its curves, as a page",
    ]
    if not uses_horovod(launcher):
        what = f"compiles Horovod first, {local_wheel.MINUTES}"
        lines.append(f"next: {Command('demo', strategy='horovod')}   # {what}")
    return lines


def _has_browser() -> bool:
    """Whether a page can be shown on the desktop of this computer."""
    has_desktop = any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return has_desktop and shutil.which("xdg-open") is not None
