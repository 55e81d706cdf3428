"""The cases: each is a command line and what is damaged before it, both from a random number."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from invoke import Collection

from bootstrap.cli import tasks
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.runs.request import TrainArgs

from . import chief
from .chief import RUN
from .damage import damaged
from .sandbox import Sandbox

CODES = (0, 1, 2, 3)
HERE = "127.0.0.1"  # a case's chief answers there
# Tasks that do what they are for where the options are right: hosts, a download, the real clouds.
NEVER_RIGHT = ("demo", "tensorboard", "up")
VALUES = [
    "", " ", "-", "--", "-1", "0", "1", "1e9", "nan", "inf", "9" * 400, "a,b", ",", "a,,b", "a;b",
    "root@127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1,127.0.0.1:1", "[::1]:1", "a b", "@", ":", "h:x",
    "é", "\x1b[31m", "\n", "\udcff", "x" * 5000, "/nonexistent", "..", ".", "train.py", "folder",
    "empty", "binary", "pipe", "loop", "/dev/zero", "/dev/null", "s3://", "gs://b", "x://y",
    "host:/x", "x=y", "=", "K=", "=v", "x=folder", "x=loop", "K=\x1b[31m", "epochs=x", "lr=nan",
    "data=../..", "*", "**", "[", "(", "loss=(", "loss=(.*)", "%s", "{}", "$(id)", "'", '"', RUN,
    "../x", "horovod", "tensorflow", "mirrored", "digits", "2", "3", "../../outside",
]  # fmt: skip
CORE = ["--dry", "-e", "--echo", "-p", "--warn-only", "-D", "x", "--list", "-h", "--help", "-V"]
COMMANDS = [
    ["status"], ["status", "--run", RUN], ["logs"], ["logs", "--rank", "1"], ["logs", "--follow"],
    ["logs", "--rank", "9"], ["attach"], ["attach", "--run", RUN], ["fetch"], ["cancel"],
    ["fetch", "--checkpoints"], ["fetch", "--to", "there"], ["cancel", "--run", RUN], ["teardown"],
    ["teardown", "--purge", "--discard-results"], ["prune", "--keep", "0"], ["ssh-config"],
    ["exec", "--cmd", "echo hello"], ["plan"], ["teardown", "--destroy", "--yes"],
]  # fmt: skip
LOCAL_ONLY = [["train", "--resume", RUN], ["tensorboard", "--run", "x"], ["trust"], ["ssh", "h1"]]


@dataclass(frozen=True)
class Case:
    """A command line; `lay_out` makes its folders, `prepare` runs in its process."""

    kind: str
    argv: tuple[str, ...]
    damage: str
    lay_out: Callable[[Sandbox], None]
    prepare: Callable[[], None]
    codes: tuple[int, ...] = CODES


def case(seed: int, number: int, box: Sandbox, template: Path) -> Case:
    """The case with this number: the same for the same seed."""
    rng = random.Random(f"{seed}:{number}")
    make = rng.choice((command_line, state_file, chief_file, chief_answer))
    return make(rng, box, template)


@cache
def _options() -> dict[str, tuple[list[str], int]]:
    """For each task its options, and how many words it takes without one."""
    found = Collection.from_module(tasks).tasks.values()
    return {
        task.name.replace("_", "-"): (
            [f"--{a.name.replace('_', '-')}" for a in task.get_arguments()],
            len(task.positional),
        )
        for task in found
    }


def command_line(rng: random.Random, box: Sandbox, template: Path) -> Case:
    """A task with some of its options, and values that are mostly wrong; on no host."""
    name = rng.choice(list(_options()))
    options, words = _options()[name]
    argv = [rng.choice(CORE)] if rng.random() < 0.1 else []
    argv += [name, *(rng.choice(VALUES) for _ in range(words) if rng.random() < 0.8)]
    for option in rng.sample(options, min(len(options), rng.choice((0, 1, 1, 2, 3)))):
        argv += [option, rng.choice(VALUES)] if rng.random() < 0.9 else [option]
    if name in NEVER_RIGHT:
        argv += ["--wrong"]
    if rng.random() < 0.1:
        argv += [rng.choice(VALUES)]
    return Case(
        "command line", tuple(argv), "", _folder_of_files, lambda: None, (*CODES, *_ssh(name))
    )


def _ssh(name: str) -> tuple[int, ...]:
    """The exit code of ssh itself, which takes the place of `fab ssh`."""
    return (255,) if name == "ssh" else ()


def _folder_of_files(box: Sandbox) -> None:
    """A folder of the command with some files to name."""
    box.make()
    (box.cwd / "train.py").write_text("print('hello')\n")
    (box.cwd / "folder").mkdir()
    (box.cwd / "folder" / "file").write_text("x")
    (box.cwd / "empty").write_text("")
    (box.cwd / "binary").write_bytes(bytes(range(256)))
    os.mkfifo(box.cwd / "pipe")
    (box.cwd / "loop").symlink_to("loop")


def state_file(rng: random.Random, box: Sandbox, template: Path) -> Case:
    """A damaged file of ~/.railhead, and a chief that answers."""
    argv = rng.choice([*COMMANDS, *LOCAL_ONLY])
    file = rng.choice(_files(template, "home/.railhead"))
    way = _way(rng, (*["data"] * 5, "missing", "folder", "loop"))
    return _with_chief("state", argv, file, way, box, template)


def chief_file(rng: random.Random, box: Sandbox, template: Path) -> Case:
    """A damaged file of the run on the chief."""
    file = rng.choice(_files(template, f"chief/.railhead/runs/{RUN}", skip=(".py", ".pyc")))
    way = _way(rng, (*["data"] * 5, "missing", "folder", "loop", "pipe", "outside"))
    return _with_chief("chief's file", rng.choice(COMMANDS), file, way, box, template)


def chief_answer(rng: random.Random, box: Sandbox, template: Path) -> Case:
    """A chief that gives one wrong answer."""
    at = rng.choice((rng.randint(1, 200), rng.randint(190, 230)))
    way = f"read {at}"
    found = partial(chief.reachable, box.chief, partial(damaged, rng), at)
    copy = partial(box.__class__.make, template=template)
    return Case("chief's answer", tuple(rng.choice(COMMANDS)), way, copy, found)


def _files(template: Path, folder: str, skip: tuple[str, ...] = ()) -> list[str]:
    found = sorted(path for path in (template / folder).rglob("*") if path.is_file())
    return [p.relative_to(template).as_posix() for p in found if p.suffix not in skip]


def _way(rng: random.Random, ways: tuple[str, ...]) -> tuple[str, Callable[[bytes], bytes]]:
    """How a file is damaged, and what that makes of its data."""
    return rng.choice(ways), partial(damaged, random.Random(rng.random()))


def _with_chief(
    kind: str,
    argv: list[str],
    file: str,
    way: tuple[str, Callable[[bytes], bytes]],
    box: Sandbox,
    template: Path,
) -> Case:
    def lay_out(box: Sandbox) -> None:
        box.make(template)
        _break(box.folder / file, *way)

    codes = (*CODES, *_ssh(argv[0]))
    damage = f"{way[0]} of {file}"
    return Case(kind, tuple(argv), damage, lay_out, partial(chief.reachable, box.chief), codes)


def _break(path: Path, way: str, change: Callable[[bytes], bytes]) -> None:
    data = path.read_bytes()
    path.unlink()
    if way == "data":
        path.write_bytes(change(data))
    elif way == "folder":
        path.mkdir()
    elif way == "loop":
        path.symlink_to(path.name)
    elif way == "pipe":
        os.mkfifo(path)
    elif way == "outside":
        path.symlink_to("/etc/passwd")


def make_template(folder: Path, box: Sandbox) -> None:
    """The folders before anything is damaged: a chief with a run, and its record here. Paths in
    the record are those of `box`, into which the template is copied."""
    made = Sandbox(folder)
    made.make()
    document: dict[str, Any] = chief.make(made.chief)
    before = os.environ["HOME"]
    os.environ["HOME"] = str(made.home)
    try:
        inventory = parse_hosts(HERE)
        local_state.save_cluster(inventory)
        run = {**document, "cluster": inventory.name}
        given = {**TrainArgs(script="train.py", outputs=("*",)).record(), "folder": str(box.cwd)}
        local_state.save_run(run, box.cwd / "results" / RUN, given)
    finally:
        os.environ["HOME"] = before
    (made.cwd / "train.py").write_text("print('hello')\n")
    known = made.home / ".railhead" / "known_hosts"
    known.write_text(f"{HERE} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG== comment\n")
    shutil.rmtree(made.tmp)
