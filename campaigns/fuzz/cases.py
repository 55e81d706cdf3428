"""The cases: each is a command line and what is damaged before it, both from a random number."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from places import CASES
from standins.options import program

from bootstrap.cli.command_line.arguments import CORE, flags_of
from bootstrap.cli.program import TASKS
from bootstrap.inventory import local_state
from bootstrap.inventory.document import from_document
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.runs.request import record_of
from bootstrap.serving import records
from railhead.documents.codec import encode
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.serving.endpoint import Deployed

from . import chief
from .chief import ENDPOINT, RUN
from .damage import damaged
from .sandbox import Sandbox

CODES = (0, 1, 2, 3, 4)
HERE = "127.0.0.1"  # a case's chief answers there
# Tasks that do what they are for where the options are right: hosts, a download, the real clouds.
NEVER_RIGHT = ("demo", "tensorboard", "up")
VALUES = [
    "", " ", "-", "--", "-1", "0", "1", "1e9", "nan", "inf", "9" * 400, "9" * 5000,
    "a,b", ",", "a,,b", "a;b",
    "root@127.0.0.1:1", "127.0.0.1:1", "127.0.0.1:1,127.0.0.1:1", "[::1]:1", "a b", "@", ":", "h:x",
    "é", "\x1b[31m", "\n", "\udcff", "x" * 5000, "/nonexistent", "..", ".", "train.py", "folder",
    "empty", "binary", "pipe", "loop", "/dev/zero", "/dev/null", "s3://", "gs://b", "x://y",
    "host:/x", "x=y", "=", "K=", "=v", "x=folder", "x=loop", "K=\x1b[31m", "epochs=x", "lr=nan",
    "data=../..", "*", "**", "[", "(", "loss=(", "loss=(.*)", "%s", "{}", "$(id)", "'", '"', RUN,
    "../x", "~", "~no-such-user/x", "folder/../..",
    "horovod", "tensorflow", "mirrored", "digits", "2", "3", "../../outside",
]  # fmt: skip
GOOD = {
    "hosts": ["127.0.0.1:1", "127.0.0.1:1,[::1]:1", "root@127.0.0.1:1*2"], "run": [RUN],
    "script": ["train.py", "folder/file"], "preset": ["digits"], "set": ["epochs=2", "lr=0.1"],
    "env": ["A=b", "PYTHONPATH=src"], "secret": ["HOME"], "outputs": ["*.txt"], "slots": ["2"],
    "metric": ["loss=loss: (.*)"], "data": ["x=folder"], "workdir": [".", "folder"],
    "requirements": ["train.py"], "runtime": ["tf2.18"], "launcher": ["tensorflow", "horovod"],
    "strategy": ["multiworker", "parameter-server"], "args": ["--a 'b c'"], "keep": ["10m", "1"],
    "max-hours": ["1"], "hours": ["1"], "rank": ["0", "mpirun"], "cmd": ["true"],
    "peer-address": ["10.0.0.1"], "keras": ["2", "3"], "ps": ["1"], "counts": ["1,2"],
    "min": ["accuracy=0.9"], "model": ["folder"], "of": [RUN], "port": ["8501"], "samples": ["10"],
}  # fmt: skip
COMMANDS = [
    ["status"], ["status", "--run", RUN], ["logs"], ["logs", "--rank", "1"], ["logs", "--follow"],
    ["logs", "--rank", "9"], ["attach"], ["attach", "--run", RUN], ["fetch"], ["cancel"],
    ["fetch", "--checkpoints"], ["fetch", "--to", "there"], ["cancel", "--run", RUN], ["teardown"],
    ["teardown", "--purge", "--discard-results"], ["prune", "--keep", "0"], ["ssh-config"],
    ["exec", "--cmd", "echo hello"], ["plan"], ["teardown", "--destroy", "--yes"],
    ["undeploy", ENDPOINT], ["undeploy", ENDPOINT, "--hosts", HERE], ["deploy", "--name", ENDPOINT],
    ["deploy", "--name", ENDPOINT, "--update"], ["predict", ENDPOINT, "--samples", "1"],
    ["predict", ENDPOINT, "--file", "x.json"], ["notebook"],
]  # fmt: skip
MANAGED = [
    ["start"], ["stop", "--yes"], ["extend", "--hours", "+2"], ["status"], ["teardown", "--yes"],
    ["health"], ["data", "list"], ["trust", "--yes"],
]  # fmt: skip
DOCUMENTS = {
    "aws": "cluster-aws.json", "gcp": "cluster-gcp.json", "local": "cluster-local.json",
}  # fmt: skip
LOCAL_ONLY = [
    ["train", "--resume", RUN], ["tensorboard", "--run", "x"], ["trust"], ["ssh", "h1"], ["runs"],
    ["runs", "--json"], ["report", RUN], ["evaluate", RUN], ["scale", "--of", f"{RUN},{RUN}"],
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A command line; `lay_out` makes its folders, `prepare` runs in its process."""

    kind: str
    argv: tuple[str, ...]
    damage: str
    lay_out: Callable[[Sandbox], None]
    prepare: Callable[[], None]
    codes: tuple[int, ...] = CODES
    also_writes: tuple[Path, ...] = ()


def case(seed: int, number: int, box: Sandbox, template: Path) -> Case:
    """The case with this number: the same for the same seed."""
    rng = random.Random(f"{seed}:{number}")
    make = rng.choice((command_line, state_file, chief_file, chief_answer))
    return make(rng, box, template)


def command_line(rng: random.Random, box: Sandbox, template: Path) -> Case:
    """A task with some of its options, and values of which some are wrong; on no host."""
    name = rng.choice(list(TASKS))
    positional = [o for o in TASKS[name].options() if o.rule.positional]
    options = {o.flag: o for o in TASKS[name].options() if not o.rule.positional}
    argv = _core_option(rng) if rng.random() < 0.15 else []
    argv += [name, *(rng.choice(VALUES) for _ in positional if rng.random() < 0.9)]
    for option in rng.sample([*options], min(len(options), rng.choice((0, 1, 2, 3, 5)))):
        if option == "stack" and rng.random() < 0.8:
            continue  # there is no pulumi
        value = rng.choice(GOOD.get(option, VALUES) if rng.random() < 0.5 else VALUES)
        flag = f"--{option}"
        argv += [flag] if options[option].kind == "flag" else [flag, value]
    if "--hosts" not in argv and rng.random() < 0.5 and "hosts" in options:
        argv += ["--hosts", "127.0.0.1:1"]
    if name in NEVER_RIGHT or "--watch" in argv:  # it watches until Ctrl-C
        argv += ["--wrong"]
    if rng.random() < 0.03:
        argv += [rng.choice(VALUES)]
    codes = (*CODES, *_ssh(name))
    also = (box.cwd,) if name == "init" else ()  # it writes the files of a project
    return Case(
        "command line", tuple(argv), "", _folder_of_files, lambda: None, codes, also_writes=also
    )


def _core_option(rng: random.Random) -> list[str]:
    """An option of all tasks, in its short or its long form."""
    option = rng.choice(CORE)
    flag = rng.choice(flags_of(option))
    return [flag] if option.kind == "flag" else [flag, rng.choice(VALUES)]


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
    last = (template / "home/.railhead/last").read_text().strip()
    last = last if rng.random() < 0.6 else rng.choice(sorted(DOCUMENTS))
    if last in DOCUMENTS:
        argv = rng.choice([*COMMANDS, *MANAGED])
    folder = "home/.railhead" if rng.random() < 0.3 else f"home/.railhead/clusters/{last}"
    if any(word in argv for word in (ENDPOINT, "status", "teardown")) and rng.random() < 0.5:
        folder = "home/.railhead/deployed"
    file = rng.choice(_files(template, folder))
    way = _way(rng, (*["data"] * 5, "missing", "folder", "loop"))
    return _with_chief("state", argv, file, way, box, template, last)


def chief_file(rng: random.Random, box: Sandbox, template: Path) -> Case:
    """A damaged file of the run, or of the endpoint, on the chief."""
    argv = rng.choice(COMMANDS)
    of_endpoint = any(word in argv for word in (ENDPOINT, "status")) and rng.random() < 0.7
    folder = f"endpoints/{ENDPOINT}" if of_endpoint else f"runs/{RUN}"
    file = rng.choice(_files(template, f"chief/.railhead/{folder}", skip=(".py", ".pyc")))
    way = _way(rng, (*["data"] * 5, "missing", "folder", "loop", "pipe", "outside"))
    return _with_chief("chief's file", argv, file, way, box, template)


def chief_answer(rng: random.Random, box: Sandbox, template: Path) -> Case:
    """A chief that gives one wrong answer."""
    facts = rng.random() < 0.2
    number = rng.randint(1, 140 if facts else 9)
    way = f"read {number} of the {'facts' if facts else 'agent'}"
    reach = partial(chief.reachable, box.chief, partial(damaged, rng), number, facts)
    copy = partial(box.__class__.make, template=template)
    return Case("chief's answer", tuple(rng.choice(COMMANDS)), way, copy, reach)


def _files(template: Path, folder: str, skip: tuple[str, ...] = ()) -> list[str]:
    files = sorted(path for path in (template / folder).rglob("*") if path.is_file())
    return [p.relative_to(template).as_posix() for p in files if p.suffix not in skip]


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
    last: str = "",
) -> Case:
    def lay_out(box: Sandbox) -> None:
        box.make(template)
        if last:
            (box.home / ".railhead/last").write_text(f"{last}\n")
        _break(box.folder / file, *way)

    codes = (*CODES, *_ssh(argv[0]))
    damage = f"{way[0]} of {file}, on {last}" if last else f"{way[0]} of {file}"
    # The record of a run names the folder for its results.
    also = (box.cwd,) if kind == "state" else ()
    reachable = partial(chief.reachable, box.chief)
    return Case(kind, tuple(argv), damage, lay_out, reachable, codes, also)


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
    """The folders before anything is damaged: a chief with a run and an endpoint, and their records
    here. Paths in
    the record are those of `box`, into which the template is copied."""
    made = Sandbox(folder)
    made.make()
    run_document: dict[str, Any] = chief.make(made.chief)
    before = os.environ["HOME"]
    os.environ["HOME"] = str(made.home)
    try:
        for name, document in DOCUMENTS.items():
            text = (CASES / "documents" / document).read_text()
            local_state.save_cluster(replace(from_document(json.loads(text)), name=name))
        inventory = parse_hosts(HERE)
        local_state.save_cluster(inventory)
        run = {**run_document, "cluster": inventory.name}
        program_record = encode(
            replace(record_of(program(script="train.py", outputs=("*",))), folder=str(box.cwd))
        )
        results = str(box.cwd / "results" / RUN)
        local_state.save_run(RunRecord(RUN, inventory.name, results, run, program_record))
        records.save(Deployed(ENDPOINT, inventory.name, inventory.chief.name, 8501, RUN))
    finally:
        os.environ["HOME"] = before
    (made.cwd / "train.py").write_text("print('hello')\n")
    (made.cwd / "x.json").write_text("[[1, 2]]")
    known = made.home / ".railhead" / "known_hosts"
    known.write_text(f"{HERE} ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIG== comment\n")
    shutil.rmtree(made.tmp)
