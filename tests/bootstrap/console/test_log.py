"""The debug log of a command: its content, what it never contains, and that it fails no command.

The commands are those of the real `fab`, with a fabfile whose tasks run commands on this computer.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hosts.operator import Cluster
from standins.forks import Done, run_fab

from bootstrap.cli import shell
from bootstrap.console import log, redact
from bootstrap.inventory import local_state
from railhead.documents.agent.files import TextFile

PLAIN: Any = {"env": {}, "cwd": "/", "stdin": subprocess.DEVNULL}
FABFILE = """
from bootstrap.cli.fabric_tasks import collection
from bootstrap.cli.task import task
from bootstrap.console import log
from bootstrap.errors import UsageError
from dataclasses import dataclass
from railhead.documents.options.option import option


@dataclass(frozen=True)
class Options:
    cmd: str = option("true", "a command")
    env: dict[str, str] = option({}, "variables")


@task("Hosts")
def status(given: Options):
    log.run(["sh", "-c", given.cmd], env={}, cwd="/")


@task("Train")
def train(given: Options):
    log.run(["sh", "-c", given.cmd], env={}, cwd="/")
    raise ZeroDivisionError("ours")


@task("Hosts")
def plan():
    raise UsageError("a rule")


ns = collection({one.name: one for one in (status, train, plan)})
"""
Fab = Callable[..., Done]


@pytest.fixture(autouse=True)
def no_secret_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process knows the secrets of all its commands: one of "1" would redact every log."""
    monkeypatch.setattr(redact, "_secrets", set())


@pytest.fixture
def fab(tmp_path: Path) -> Fab:
    """Type a command beside the fabfile."""
    (tmp_path / "fabfile.py").write_text(FABFILE)

    def typed(*args: str, **process: Any) -> Done:
        return run_fab(tmp_path, args, os.environ, 60, **process)

    return typed


def log_files(home: Path) -> list[Path]:
    return sorted((home / ".railhead/logs").glob("*"))


def test_a_command_logs_what_it_ran_with_exit_code_and_duration(fab: Fab, home: Path) -> None:
    assert fab("status", "--cmd", "exit 3").stderr == ""
    (file,) = log_files(home)
    text = file.read_text()
    assert text.startswith("fab status --cmd 'exit 3'\n")
    assert "Z here: sh -c 'exit 3' ...\n" in text
    assert "Z here: sh -c 'exit 3': exit 3 (0." in text
    assert text.splitlines()[-1].partition("Z ")[2].startswith("exit 0 (0.")


def test_a_program_is_logged_with_its_exit_code_or_as_still_running(home: Path) -> None:
    with log.command("tensorboard", []) as file:
        with log.started(["sh", "-c", "exit 4"], **PLAIN) as process:
            process.wait()
        with log.started(["sleep", "600"], **PLAIN) as process:
            pass
        process.kill()
        process.wait()
        assert file.path
    text = file.path.read_text()
    assert "Z here: sh -c 'exit 4': exit 4 (" in text
    assert "Z here: sleep 600: still running (" in text


def test_a_program_of_a_fab_that_ignores_ctrl_c_does_not_ignore_it(fab: Fab, home: Path) -> None:
    """In a script `fab ... &` starts with SIGINT ignored, and programs inherit that."""
    process = fab("status", "--cmd", "kill -INT $$; echo not reached", ignores_interrupt=True)
    assert (process.returncode, process.stdout) == (0, "")
    assert ": exit -2 (" in log_files(home)[0].read_text()


@pytest.mark.parametrize(("ignores_interrupt", "sessions"), [(True, 2), (False, 1)])
def test_ctrl_c_reaches_programs_only_where_it_reaches_fab(
    fab: Fab, ignores_interrupt: bool, sessions: int
) -> None:
    """The terminal sends it to the whole group of a script, `fab ... &` and its programs included.
    A program in its own session is in no such group."""
    command = "cut -d ' ' -f 6 /proc/$$/stat /proc/$PPID/stat"
    process = fab("status", "--cmd", command, ignores_interrupt=ignores_interrupt)
    assert len({*process.stdout.split()}) == sessions


def test_only_its_owner_reads_the_log(fab: Fab, home: Path) -> None:
    fab("status", umask=0)
    (file,) = log_files(home)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_command_that_runs_nothing_leaves_no_log(fab: Fab, home: Path) -> None:
    assert fab("plan").returncode == 2
    assert fab("--list").returncode == 0
    assert not (home / ".railhead").exists()


@pytest.mark.parametrize("named", ["--debug", "RAILHEAD_DEBUG"])
def test_the_log_is_shown_live_on_request(
    fab: Fab, home: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    if named == "--debug":
        process = fab("--debug", "status", "--cmd", "echo out")
    else:
        monkeypatch.setenv(named, "1")
        process = fab("status", "--cmd", "echo out")
    assert process.stdout == "out\n"
    assert "here: sh -c 'echo out': exit 0" in process.stderr
    (file,) = log_files(home)
    assert file.read_text().splitlines()[-1] in process.stderr


def test_without_request_nothing_is_shown(fab: Fab) -> None:
    process = fab("status", RAILHEAD_DEBUG="0")
    assert (process.stdout, process.stderr) == ("", "")


def test_an_unexpected_error_names_the_log_that_has_its_traceback(fab: Fab, home: Path) -> None:
    process = fab("train")
    (file,) = log_files(home)
    assert process.returncode == 1
    assert process.stderr.endswith(f"not in your command\n  debug log: {file}\n")
    assert "ZeroDivisionError: ours" in file.read_text()


@pytest.mark.parametrize("broken", ["folder", "disk", "home"])
def test_a_log_that_cannot_be_written_fails_no_command(
    fab: Fab, home: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    if broken == "folder":
        (home / ".railhead").mkdir()
        (home / ".railhead/logs").touch()
    if broken == "disk":
        fab = partial(fab, file_size=0)
    if broken == "home":
        monkeypatch.setenv("HOME", "/proc/no-home")
    process = fab("status", "--cmd", "echo out")
    assert (process.returncode, process.stdout, process.stderr) == (0, "out\n", "")
    process = fab("train")
    assert process.returncode == 1
    assert process.stderr.endswith(
        "ZeroDivisionError: ours\nthis is an error in Railhead, not in your command\n"
    )


def test_two_commands_at_once_write_two_files(fab: Fab, home: Path, tmp_path: Path) -> None:
    """The second ends after the first, which waits for what it writes."""
    os.mkfifo(tmp_path / "pipe")
    first = os.fork()
    if not first:
        os._exit(fab("status", "--cmd", "echo first; cat pipe").returncode)
    assert fab("status", "--cmd", "echo second >pipe").returncode == 0
    assert os.waitpid(first, 0)[1] == 0
    texts = [file.read_text() for file in log_files(home)]
    assert sorted("first" in text for text in texts) == [False, True]
    assert all(text.count("exit 0 (") == 2 for text in texts)


def test_the_value_of_a_secret_is_not_logged(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    from standins.options import program

    from bootstrap.runs.request import read_request

    monkeypatch.setenv("PIN", "4 7 1 1")
    with log.command("train", ["train"]):
        read_request(program(preset="smoke", secrets=("PIN",)))
        log.event("the host answered 4 7 1 1")
    (file,) = log_files(home)
    assert "the host answered [redacted]" in file.read_text()
    assert "4 7 1 1" not in file.read_text()


def test_a_secret_is_removed_before_a_command_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "not-like-a-key " * 10
    log.add_secret(secret)
    assert "not-like" not in log.shown("x" * (log.COMMAND_COLUMNS - 10) + secret)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("first\nlast\nend", "[redacted] [redacted] end"),
        ("last\n", "first [redacted] end"),
        ('a "last"\nfirst', "[redacted] last end"),
    ],
)
def test_each_line_of_a_secret_is_removed_unless_it_is_short(value: str, shown: str) -> None:
    log.add_secret(value)
    assert redact.redacted("first last end") == shown
    assert "last" not in redact.redacted(json.dumps(value)[1:-1])


PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blbn\n-----END OPENSSH PRIVATE KEY-----"
KEYS = [
    ("AKIAABCDEFGHIJKLMNOP", "AKIA"),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJal"),
    ("ghp_abcdefgh1234", "abcd"),
    ("hf_abcdefgh1234", "abcd"),
    ("Authorization: Bearer abc", "abc"),
    ("eyJhbGciOi.eyJzdWIi.c2ln", "eyJ"),
    ("https://ann:pw@example.com", "pw"),
    ("Ab3" * 12, "Ab3"),
    ("WANDB_API_KEY=abc", "abc"),
    ("{'password': 'abc'}", "abc"),
    ("Error: MY_TOKEN=abc", "abc"),
    ("--db-password abc", "abc"),
    (PEM, "b3Bl"),
]


@pytest.mark.parametrize(("text", "secret"), KEYS, ids=[text[:12] for text, _ in KEYS])
def test_what_looks_like_a_key_is_not_logged(text: str, secret: str) -> None:
    assert secret not in redact.redacted(f"before {text} after")
    assert redact.redacted(f"before {text} after").startswith("before ")


@pytest.mark.parametrize(
    "text",
    [
        "SHA256:Ab1" + "x" * 40,
        "sha256:" + "a1" * 32,
        "~/.railhead/runs/20261122-041500-ab12/results",
        "uv pip install --require-hashes -r /home/ann/Railhead2/locks/tf2.18-cpu.txt",
        "the passphrase must be set",
        "train --secret HF_TOKEN",
    ],
)
def test_text_without_secrets_stays_readable(text: str) -> None:
    assert redact.redacted(text) == text


def test_redaction_takes_time_in_proportion_to_the_text() -> None:
    """A host may send any text."""
    for piece in ("aB", "token ", "secret-", "eyJ.a", "://a:", "a = ", "--token  ", "gho_."):
        began = time.monotonic()
        redact.redacted(piece * (redact.LONGEST // len(piece)))
        assert time.monotonic() - began < 60, piece  # in the square of it would take hours


def test_values_of_env_options_are_not_logged(fab: Fab, home: Path) -> None:
    fab("status", "--env", "A=one", "--env=B=two")
    (file,) = log_files(home)
    assert file.read_text().startswith("fab status --env 'A=[redacted]' '--env=B=[redacted]'\n")


def test_control_characters_do_not_reach_the_log(home: Path) -> None:
    with log.command("status", []):
        log.event("a\x1b[31mb\x07c")
    (file,) = log_files(home)
    assert "Z abc\n" in file.read_text()


@pytest.fixture
def logs(home: Path) -> Path:
    """The folder of log files."""
    folder = home / ".railhead/logs"
    folder.mkdir(parents=True)
    return folder


def finished_log(folder: Path, second: int, size: int = 10) -> Path:
    """A log file of a process that has ended."""
    path = folder / f"20200101-00{second // 60:02}{second % 60:02}-train-{2**22 + 1}.log"
    path.touch()
    os.truncate(path, size)
    return path


def test_the_newest_files_are_kept(home: Path, logs: Path) -> None:
    old = [finished_log(logs, second) for second in range(log.KEPT_FILES + 10)]
    with log.command("status", []):
        log.event("a line")
    assert len(log_files(home)) == log.KEPT_FILES
    assert [path.exists() for path in old] == [False] * 11 + [True] * (log.KEPT_FILES - 1)


def test_large_files_are_removed_earlier(logs: Path) -> None:
    old = [finished_log(logs, second, size=log.KEPT_BYTES // 4) for second in range(5)]
    with log.command("status", []):
        log.event("a line")
    assert [path.exists() for path in old] == [False, False, True, True, True]


def test_the_log_of_a_command_that_runs_is_kept(logs: Path) -> None:
    running = logs / f"20190101-000000-train-{os.getpid()}.log"
    running.touch()
    for second in range(log.KEPT_FILES):
        finished_log(logs, second)
    log.remove_old(logs)
    assert running.exists()


def test_a_log_file_does_not_grow_without_limit(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "FILE_BYTES", 5000)
    with log.command("status", []):
        for _ in range(1000):
            log.event("x" * 100)
        try:
            raise ZeroDivisionError("ours")
        except ZeroDivisionError:
            log.mistake()
    (file,) = log_files(home)
    assert file.stat().st_size < 7000
    assert "ZeroDivisionError: ours" in file.read_text()


def test_a_hosts_commands_and_operations_are_logged(
    one_host: Cluster, home_of_session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home_of_session))
    inventory = local_state.load_cluster("log")
    with log.command("exec", ["exec"]) as file:
        with pytest.raises(Exception, match="failed"):
            shell.execute(inventory, "echo output; exit 3")
        assert file.path
    text = file.path.read_text()
    host = inventory.hosts[0]
    assert f"{host.address}:{host.port}: ok (" in text
    assert "h1: exit 3 of echo output; exit 3" in text
    assert "h1: sh: " in text and "bytes sent, " in text
    assert "\noutput" not in text


def test_contents_of_files_are_not_logged(one_host: Cluster, session: object, home: Path) -> None:
    from bootstrap.ssh.session import Session

    assert isinstance(session, Session)
    with log.command("train", ["train"]) as file:
        facts = session.facts()
        assert facts.python
        session.start_agent(facts.python)
        session.write(TextFile("~/a.txt", "the content", 0o600))
        assert session.run(["sh", "-c", "exit 4"]).rc == 4
    assert file.path
    text = file.path.read_text()
    assert "h1: agent write: ~/a.txt (11 characters)" in text
    assert "the content" not in text
    assert "h1: agent run: sh -c 'exit 4': exit 4, " in text
