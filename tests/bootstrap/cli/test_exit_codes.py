"""The exit codes of the command, and which error has which."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from standins.forks import forked_fab

from bootstrap import errors
from bootstrap.clouds.base import StockOut
from bootstrap.errors import EXIT_CODES, RailheadError
from bootstrap.inventory.hosts import parse_hosts
from bootstrap.lifecycle import power, reach
from bootstrap.provision.requirements.lines import read_requirements
from bootstrap.ssh.connect import Sessions
from bootstrap.ssh.host_keys import UnknownHostKey


def every(kind: type[RailheadError]) -> Iterator[type[RailheadError]]:
    yield kind
    for subclass in kind.__subclasses__():
        yield from every(subclass)


def test_each_error_has_one_of_the_declared_codes() -> None:
    assert {error.code for error in every(RailheadError)} == {*EXIT_CODES} - {errors.DONE}
    assert {StockOut.code, power.NoRoom.code} == {errors.NOT_REACHED}


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ("--version", 0),
        ("train --preset smok", 2),
        ("train --hosts", 2),
        ("status --hosts 127.0.0.1:9", 4),
        ("exec --hosts 127.0.0.1:9 --cmd ls", 4),
        ("trust --hosts 127.0.0.1:9", 4),
    ],
)
def test_a_command_ends_with_its_code(tmp_path: Path, args: str, code: int) -> None:
    assert forked_fab(tmp_path, *args.split()).returncode == code


@pytest.mark.parametrize(
    ("failed", "code"),
    [
        ([ConnectionRefusedError()], 4),
        ([TimeoutError(), OSError(113, "No route to host")], 4),
        ([TimeoutError(), UnknownHostKey("h1", paramiko.RSAKey.generate(1024))], 2),
        ([PermissionError(13, "Permission denied", "~/.ssh/id")], 2),
    ],
)
def test_hosts_that_may_answer_later_have_another_code(failed: list[Exception], code: int) -> None:
    inventory = parse_hosts("h1,h2")
    by_host = dict(zip(inventory.names, failed, strict=False))
    error = reach.not_reached("some", Sessions(inventory, {}, by_host))
    assert error.code == code and isinstance(error, errors.UsageError)


def test_sigterm_is_an_interruption() -> None:
    assert errors.RunInterrupted.code == errors.INTERRUPTED == 128 + signal.SIGINT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("numpy>=2\n# a comment\n--pre\nx @ https://a/b.whl\n", ""),
        ("keras==3.9.0 --hash=sha256:0\nrich[all] ; python_version > '3'\n", ""),
        ("numpy=>2\n", "line 1 must be"),
        ("./mine\n", "line 1, ./mine: packages come as wheels"),
        ("horovod\n", "installs horovod"),
        (None, "No such file"),
    ],
)
@pytest.mark.parametrize("task", ["train --preset smoke", "plan", "bootstrap", "health"])
def test_requirements_are_checked_before_a_host_is_contacted(
    tmp_path: Path, task: str, text: str | None, message: str
) -> None:
    file = tmp_path / "r.txt"
    if text is not None:
        file.write_text(text)
    if not message:
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert read_requirements(file).text.splitlines() == lines
        return
    done = forked_fab(tmp_path, *task.split(), "--requirements", "r.txt", "--hosts", "127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--requirements r.txt" in done.stderr and message in done.stderr
