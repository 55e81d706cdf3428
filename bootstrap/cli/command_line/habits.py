"""What to type instead of an unknown task or option: habits of other programs, and slips. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from railhead.installation import PROGRAM

SLIP = 2  # letters that a slip changes at most
# Tasks of SkyPilot, dstack, Docker, Slurm and others.
TASKS = {
    "apply": "up",
    "check": "doctor",
    "cluster": "status",
    "cost": "status",
    "delete": "teardown --destroy",
    "destroy": "teardown --destroy",
    "down": "teardown",
    "download": "fetch",
    "fit": "train",
    "help": "--help",
    "install": "bootstrap",
    "jupyter": "notebook",
    "kill": "cancel",
    "launch": "train",
    "list": "runs",
    "login": "doctor",
    "ls": "runs",
    "price": "status",
    "ps": "runs",
    "pull": "fetch",
    "push": "data push",
    "queue": "runs",
    "resume": "train --resume",
    "run": "train",
    "serve": "deploy",
    "setup": "bootstrap",
    "shell": "ssh",
    "squeue": "runs",
    "submit": "train",
    "terminate": "teardown --destroy",
    "upload": "data push",
    "version": "--version",
}
# Options of `fab train`, and a task in place of one.
TRAIN = {
    "--batch-size": "--set batch_size=64",
    "--cloud": "--stack",
    "--dryrun": "plan",
    "--dry-run": "plan",
    "--epochs": "--set epochs=3",
    "--gpus": "--slots",
    "--lr": "--set learning_rate=0.01",
    "--learning-rate": "--set learning_rate=0.01",
    "--model": "--preset",
    "--nodes": "--hosts a,b",
    "--num-gpus": "--slots",
    "--num-nodes": "--hosts a,b",
    "--timeout": "--max-hours",
}


def task_for(unknown: str, tasks: Iterable[str]) -> str:
    """The command for an unknown task, otherwise the one that lists the tasks."""
    return f"{PROGRAM} {TASKS.get(unknown) or slip(unknown, tasks) or '--list'}"


def option_for(task: str, unknown: str, options: Iterable[str]) -> str:
    """The command for an unknown option of a task, otherwise the one that shows its options."""
    habit = TRAIN.get(unknown, "") if task == "train" else ""
    if habit and not habit.startswith("-"):
        return f"{PROGRAM} {habit}"
    near = habit or slip(unknown, options)
    return f"{PROGRAM} {task} {near}" if near else f"{PROGRAM} --help {task}"


def slip(unknown: str, names: Iterable[str]) -> str:
    """The name from which an unknown one differs in the fewest letters, at most SLIP and less than
    half of them; empty if there is none."""
    near = min(((distance(unknown, name), name) for name in names), default=(SLIP + 1, ""))
    return near[1] if near[0] <= min(SLIP, (len(unknown) - 1) // 2) else ""


def distance(first: str, second: str) -> int:
    """How many letters must be added, removed or replaced (Levenshtein)."""
    row: list[int] = [*range(len(second) + 1)]
    for number, letter in enumerate(first, 1):
        before, row[0] = row[0], number
        for at, other in enumerate(second, 1):
            changed = before + (letter != other)
            before = row[at]
            row[at] = min(changed, row[at] + 1, row[at - 1] + 1)
    return row[-1]
