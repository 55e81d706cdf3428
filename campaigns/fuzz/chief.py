"""A chief on this machine without ssh: the real `Session` and agent over the pipes of a shell.

Its home has one run that has ended, and an endpoint whose supervisor is gone. Its answers pass
through `Answers`, which can damage one.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paramiko
from standins.runs.supervised_run import Run, says

from bootstrap.inventory.hosts import Host
from bootstrap.ssh import connect
from bootstrap.ssh.connection import PortsOff
from bootstrap.ssh.session import SYSTEM_PATH

RUN, ENDPOINT = "20261121-112656-c507", "digits"
SILENCE = 3.0  # seconds without an answer, after a damaged one, until the connection breaks
TOOLS = (
    *("awk", "cat", "chmod", "cut", "date", "df", "dirname", "echo", "env", "expr", "grep", "head"),
    *("hostname", "id", "ip", "ls", "mkdir", "mv", "nproc", "readlink", "rm", "sed"),
    *("sleep", "sort", "stat", "tail", "test", "tr", "true", "uname", "uniq", "wc"),
)
# A damaged process id may be that of a process of this machine.
SHELL = """#!/bin/sh
[ "$1" = -c ] && shift && exec /bin/sh -c "kill() { :; }
$1"
exec /bin/sh "$@"
"""
DOCUMENT = {
    "schema": 2, "cluster": "hosts", "created": "2026-11-21T11:26:56Z", "strategy": "horovod",
    "runtime": {"name": "tf2.18-cpu", "digest": "d" * 16}, "bundle": "b" * 16, "roles": None,
    "program": {"kind": "script", "path": "train.py", "args": [], "sagemaker": False},
    "launcher": "horovod", "outputs": ["**"], "metrics": [], "resumes": None, "max_hours": None,
    "keras": 3, "thresholds": [], "evaluates": None,
    "stop": None, "bucket": None, "data": [], "env": {"A": "b"}, "tf_cluster": None,
    "hosts": [{"name": "h1", "peer_address": "127.0.0.1", "interface": "lo", "slots": 2}],
}  # fmt: skip
ENDPOINT_FILES: dict[str, dict[str, Any]] = {
    "endpoint.json": {
        "schema": 1, "name": ENDPOINT, "run_id": RUN, "port": 8501, "stop": None, "until": 2e9,
        "argv": ["~/.railhead/envs/none/bin/python", "-I", "-c", "", "~/code", "~/packages"],
    },
    "state.json": {
        "state": "ready", "pid": 2_000_000_000, "heartbeat": 1.8e9, "until": 2e9, "restarts": 1,
        "version": 2, "requests": 9, "reason": "", "failed": {"1": "why"},
    },
}  # fmt: skip
PROGRAM = "; ".join(
    [
        says(0, "begun"),
        says(1, "also begun"),
        says(0, '{"kind": "epoch", "epoch": 1, "epochs": 2, "loss": 0.5, "accuracy": 0.5}'),
        says(0, '{"kind": "evaluation", "accuracy": 0.9, "loss": 0.1, "samples": 9}'),
        "echo text >results/notes.txt",
    ]
)


def make(home: Path) -> dict[str, Any]:
    """Fill a chief's home with a run that the real supervisor ended, and with an endpoint; returns
    the run.json."""
    run = Run(home, PROGRAM, RUN, **DOCUMENT)
    run.result()
    step = run.folder / "checkpoints" / "step-5"
    step.mkdir(parents=True)
    (step / "weights").write_text("w")
    endpoint = home / ".railhead/endpoints" / ENDPOINT
    endpoint.mkdir(parents=True)
    for name, content in ENDPOINT_FILES.items():
        (endpoint / name).write_text(json.dumps(content))
    shutil.rmtree(home / "bin")
    (home / "bin").mkdir()
    for tool in TOOLS:
        if path := shutil.which(tool):
            (home / "bin" / tool).symlink_to(path)
    (home / "bin/python3.11").symlink_to(getattr(sys, "_base_executable", sys.executable))
    (home / "bin/sh").write_text(SHELL)
    (home / "bin/sh").chmod(0o755)
    document: dict[str, Any] = run.read("run.json")
    return document


class Answers:
    """The output of a shell; `damage` changes what is read for the `nth` time: from the start
    with `facts`, else from the agent."""

    def __init__(
        self, descriptor: int, damage: Callable[[bytes], bytes], nth: int, facts: bool
    ) -> None:
        self.descriptor, self.damage, self.left, self.counting = descriptor, damage, nth, facts
        self.data, self.damaged = b"", False

    def read(self) -> bytes:
        """One line, or what there is of a longer one; b"" at the end."""
        while b"\n" not in self.data and len(self.data) < 1 << 16 and self._more():
            pass
        line, end, self.data = self.data.partition(b"\n")
        return self._passed(line) + end

    def _passed(self, data: bytes) -> bytes:
        self.counting = self.counting or data.startswith(b'{"event": {"agent"')
        self.left -= self.counting
        if self.left or not self.counting:
            return data
        self.damaged = True
        return self.damage(data)

    def _more(self) -> bool:
        if self.damaged and not select.select([self.descriptor], [], [], SILENCE)[0]:
            return False
        data = os.read(self.descriptor, 1 << 16)
        self.data += data
        return bool(data)


class Channel:
    """A channel with a shell on the chief."""

    def __init__(self, home: Path, answers: Callable[[int], Answers]) -> None:
        self.home, self.answers = home, answers

    def exec_command(self, command: str) -> None:
        """Start it as sshd does, with the tools and the sh of this chief alone."""
        command = command.replace(SYSTEM_PATH, "").replace("exec /bin/sh ", "exec sh ")
        assert "/bin" not in command
        self.process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self.home,
            env={"HOME": str(self.home), "PATH": str(self.home / "bin")},
        )

        assert self.process.stdout
        self.printed = self.answers(self.process.stdout.fileno())

    def recv(self, size: int) -> bytes:
        """What it prints."""
        return self.printed.read()

    def send(self, data: bytes) -> int:
        """Type into it."""
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()
        return len(data)

    def settimeout(self, seconds: float | None) -> None:
        """Nothing: after damage it is `SILENCE`."""

    def recv_stderr_ready(self) -> bool:
        """It writes no errors."""
        return False

    def close(self) -> None:
        """End the shell, and wait for it."""
        self.process.kill()
        self.process.wait()


class Connection:
    """In place of a connection, with its transport."""

    is_connected = True
    host_key = paramiko.PKey()

    def __init__(self, channel: Callable[[], Channel]) -> None:
        self.channel = channel

    def shell(self, command: str) -> Channel:
        """A shell on the chief."""
        channel = self.channel()
        channel.exec_command(command)
        return channel

    def open_port(self, port: int) -> Any:
        """Its sshd forwards no ports."""
        raise PortsOff("prohibited")

    def close(self) -> None:
        """Nothing: the channel ends the shell."""


def reachable(
    home: Path, damage: Callable[[bytes], bytes] = bytes, nth: int = -1, facts: bool = False
) -> None:
    """From now on every host but those on port 1 is this chief."""

    def connection(host: Host, *_: object) -> Any:
        if host.port == 1:
            raise ConnectionRefusedError
        return Connection(lambda: Channel(home, lambda fd: Answers(fd, damage, nth, facts)))

    setattr(connect, "open_connection", connection)  # noqa: B010
