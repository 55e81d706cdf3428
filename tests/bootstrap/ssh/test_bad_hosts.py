"""Each task of `fab` with a chief that is silent, never ends or answers wrongly: the task ends with
a documented exit code and without a traceback, and does its part on the host beside it.

No sshd: the real session and agent on the pipes of a shell. The bad chief's channel lets each limit
of time pass at once.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from standins.options import program
from standins.runs.run_documents import HOST

import bootstrap
from bootstrap.cli.program import TASKS
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Host, parse_hosts
from bootstrap.runs.request import record_of
from bootstrap.serving import records
from bootstrap.ssh import connect, session
from campaigns.fuzz import chief, sandbox
from campaigns.fuzz.sandbox import Sandbox
from railhead.documents.agent.request import Bounds
from railhead.documents.codec import encode
from railhead.documents.runs.run_record import RunRecord
from railhead.documents.serving.endpoint import Deployed

# The same cases again: RAILHEAD_TEST_SEED=N. Workers of one run must agree: they get it by the day.
SEED = int(os.environ.get("RAILHEAD_TEST_SEED") or date.today().toordinal())
HOSTS = "bad,good"
LONGEST = 3600.0  # seconds that any operation of these tasks may be silent
TRAINING = ["--preset", "digits"]
# What a task needs besides --hosts. A new task is called without.
OPTIONS = {
    "train": TRAINING, "sweep": [*TRAINING, "--set", "learning_rate=0.1,0.2"],
    "exec": ["--cmd", "true"],
    "scale": [*TRAINING, "--counts", "1,2"], "evaluate": [chief.RUN, "--script", "train.py"],
    "deploy": ["--run", chief.RUN, "--name", "another"], "cancel": ["--run", chief.RUN],
    "predict": [chief.ENDPOINT, "--samples", "1"], "undeploy": [chief.ENDPOINT],
    "logs": ["--run", chief.RUN], "ssh-key": ["bob.pub"], "tunnel": ["8501"],
}  # fmt: skip
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBTkB+CnT0vqWgcl2EcN2m8yWFOXPHwWBQz5x0YMTLj4"
OF_RESULTS = ("evaluate",)  # it needs results here
# What is there after the part of the good host was done.
PARTS: dict[str, Callable[[Path, str], bool]] = {
    "teardown": lambda home, _: home.is_dir() and not (home / "cluster").exists(),
    "status": lambda _, printed: "[good] reachable" in printed,
    "cancel": lambda _, printed: "  good  ok" in printed,
}
# They open no session with a host: OpenSSH does, or the cloud, or nobody.
WITHOUT = {
    "adopt", "costs", "data-index", "data-list", "data-push", "data-shard", "demo", "doctor",
    "extend", "init", "leaks", "price", "report", "runs", "ssh", "ssh-config", "start", "stop",
    "trust", "up", "wheel",
}  # fmt: skip


def right_answers(descriptor: int) -> chief.Answers:
    """The output of a shell, as it is."""
    return chief.Answers(descriptor, bytes, -1, facts=False)


class Channel(chief.Channel):
    """A channel with a bad chief, which notes that it was opened."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, right_answers)
        self.agent = False

    def exec_command(self, command: str) -> None:
        (self.home / "contacted").touch()
        super().exec_command(command)

    def settimeout(self, seconds: float | None) -> None:
        if seconds is None or not 0 < seconds <= LONGEST:
            print(f"Traceback (most recent call last): a limit of {seconds} s", flush=True)


class Silent(Channel):
    """It accepts the login, and nothing more comes."""

    def recv(self, size: int) -> bytes:
        raise TimeoutError


class Endless(Channel):
    """Its shell prints without end."""

    def recv(self, size: int) -> bytes:
        return b"x\n" * 100_000


class Wrong(Channel):
    """Its facts are right, and each answer of its agent is another JSON."""

    def recv(self, size: int) -> bytes:
        data = super().recv(size)
        self.agent = self.agent or data.startswith(b'{"event": {"agent"')
        if self.agent and data.startswith((b'{"ok"', b'{"event": {"line"')):
            return b'{"ok": {"rc": Infinity, "tail": [5], "left": {}}}\n'
        return data


class Connection(chief.Connection):
    """A connection that has ended when it is needed for more than its channel."""

    def is_active(self) -> bool:
        return False


KINDS: dict[str, type[Channel]] = {"silent": Silent, "endless": Endless, "wrong": Wrong}


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Sandbox]:
    """Two hosts with a run that has ended, and the records of it here."""
    for module in pkgutil.walk_packages(bootstrap.__path__, "bootstrap."):
        if module.name.split(".")[1] in ("workflows", "health", "serving", "evaluation", "cli"):
            importlib.import_module(module.name)  # once for all forks
    folder = tmp_path_factory.mktemp("bad")
    made, box = Sandbox(folder / "template"), Sandbox(folder / "box")
    made.make()
    document = chief.make(made.chief)
    shutil.copytree(made.chief, made.folder / "good", symlinks=True)
    (made.folder / "good/.railhead/cluster").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made.home))
        inventory = parse_hosts(HOSTS)
        local_state.save_cluster(inventory)
        hosts = [{**HOST, "name": name} for name in inventory.names]
        run = {**document, "cluster": inventory.name, "hosts": hosts}
        given = encode(replace(record_of(program(preset="digits")), folder=str(box.cwd)))
        results = str(box.cwd / "results" / chief.RUN)
        local_state.save_run(RunRecord(chief.RUN, inventory.name, results, run, given))
        records.save(Deployed(chief.ENDPOINT, inventory.name, "bad", 8501, chief.RUN))
    there = made.chief / ".railhead/runs" / chief.RUN
    shutil.copytree(there / "results", made.folder / "fetched" / chief.RUN)
    shutil.copy(there / "run.json", made.folder / "fetched" / chief.RUN)
    (made.cwd / "train.py").write_text("print(1)")
    (made.cwd / "bob.pub").write_text(f"{KEY} bob")
    return made.folder, box


def reach(box: Sandbox, kind: type[Channel]) -> None:
    """From now on there are these hosts; nothing else is reached."""
    setattr(session, "OPEN", Bounds(60, 60, 100_000))  # noqa: B010
    os.environ.update(dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY"), "http://127.0.0.1:1"))

    def connection(host: Host, *_: object) -> Any:
        if host.name == "bad":
            return Connection(lambda: kind(box.chief))
        return Connection(lambda: chief.Channel(box.folder / "good", right_answers))

    setattr(connect, "open_connection", connection)  # noqa: B010


def test_the_exceptions_are_tasks() -> None:
    assert {*TASKS} >= WITHOUT | {*OPTIONS} | {*PARTS}


def cases() -> list[tuple[str, str]]:
    """Each task with a chief whose answers are wrong; and with one that is silent or never ends,
    which both end the greeting: with both of them where a good host has its part."""
    draw = random.Random(SEED)
    found = []
    for name in sorted({*TASKS} - WITHOUT):
        drawn = draw.choice(("silent", "endless"))
        kinds = KINDS if name in PARTS else ("wrong", drawn)
        found += [(name, kind) for kind in kinds]
    return found


@pytest.mark.parametrize(("name", "kind"), cases())
def test_a_task_ends_though_its_chief_is_bad(
    template: tuple[Path, Sandbox], name: str, kind: str
) -> None:
    folder, box = template
    box.make(folder)
    if name in OF_RESULTS:
        (box.folder / "fetched").rename(box.cwd / "results")
    argv = [name, *OPTIONS.get(name, []), "--hosts", HOSTS]
    codes = (0, 1, 2) if kind == "wrong" else (1, 2)
    good = (box.folder / "good",)
    wrong = sandbox.run(box, argv, lambda: reach(box, KINDS[kind]), codes, good)
    assert not wrong, f"RAILHEAD_TEST_SEED={SEED}\n{box.output.read_text()}"
    assert (box.chief / "contacted").exists(), f"{name} is of WITHOUT?"
    if name in PARTS:
        assert PARTS[name](box.folder / "good/.railhead", box.output.read_text())
