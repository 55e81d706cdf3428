"""The real `fab`, with a fabfile of three tasks: arguments, usage errors and exit codes.

Most commands run in a fork of this process, which has imported it already: the same program in a
tenth of the time.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from places import ROOT, TESTS
from standins.forks import FAB, Done, forked_fab

FABFILE = """
import sys
from dataclasses import dataclass
from select import select

from bootstrap.cli.fabric_tasks import collection
from bootstrap.cli.task import task
from bootstrap.errors import (
    BelowThreshold, Command, Hint, NothingReached, RailheadError, RunInterrupted, UsageError,
)
from railhead.documents.options.option import option


WRONG = {
    "usage": UsageError("a rule", hint="fab --list"),
    "next": UsageError(
        "a rule", hint=Hint(Command("train", detach=True), "   # or: ", Command("attach"))
    ),
    "failed": RailheadError("it failed"),
    "below": BelowThreshold("too low"),
    "away": NothingReached("not there", {"h1": "refused"}),
    "left": RunInterrupted("detached"),
    "ours": ZeroDivisionError("ours"),
    "ctrl-c": KeyboardInterrupt(),
    "full": OSError(28, "No space left on device", "/x y/a"),
    "full-pipe": OSError(28, "No space left on device"),
    "root's": PermissionError(13, "Permission denied", "/x y/a"),
}


@dataclass(frozen=True)
class Options:
    hosts: str | None = option(None, "hosts")
    preset: str | None = option(None, "a preset")
    detach: bool = option(False, "a switch")
    min: dict[str, float] = option({}, "thresholds")


@dataclass(frozen=True)
class How:
    how: str = option(text="how it ends", positional=True)


@task("Train")
def train(given: Options):
    if given.preset in WRONG:
        raise WRONG[given.preset]
    print(f"train {given.hosts!r} {given.preset!r} {given.detach}")


@task("Hosts")
def ssh_config(given: How):
    raise WRONG[given.how]


@task("Train")
def attach():
    print("ready", flush=True)
    while not select([sys.stdin], [], [], 0.5)[0]:  # one wait could begin just after Ctrl-C
        pass
    print(f"went on: {input()}")


ns = collection({one.name: one for one in (train, ssh_config, attach)})
"""
SPACE = "  next: free some disk space, then: fab status   # shows the hosts and the run\n"
OWNER = "   # whose it is; its folder too\n"
Fab = Callable[..., Done]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the command, with the fabfile."""
    (tmp_path / "fabfile.py").write_text(FABFILE)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.fixture
def fab(folder: Path) -> Fab:
    """Run a command in that folder."""

    def typed(*args: str) -> Done:
        process = forked_fab(folder, *args)
        assert ("Traceback" in process.stdout + process.stderr) is ("ours" in args)
        return process

    return typed


@pytest.mark.parametrize(
    ("args", "code", "out", "err"),
    [
        ("-H a,b train", 0, "train 'a,b' None False\n", ""),
        ("ssh-config failed", 1, "", "fab ssh-config: it failed\n"),
    ],
)
def test_the_command_itself_does_what_its_fork_does(
    folder: Path, args: str, code: int, out: str, err: str
) -> None:
    process = subprocess.run([FAB, *args.split()], cwd=folder, capture_output=True, text=True)
    assert (process.returncode, process.stdout, process.stderr) == (code, out, err)


@pytest.mark.parametrize(
    ("args", "reached"),
    [
        ("--hosts=a,b train", "train 'a,b' None False"),
        ("-H a,b train --preset smoke --detach", "train 'a,b' 'smoke' True"),
        ("train --hosts ann@a:22*2,[::1] --preset=smoke", "train 'ann@a:22*2,[::1]' 'smoke' False"),
        ("train", "train None None False"),
    ],
)
def test_hosts_are_passed_to_the_task_once_and_unchanged(fab: Fab, args: str, reached: str) -> None:
    process = fab(*args.split())
    assert (process.returncode, process.stdout, process.stderr) == (0, reached + "\n", "")


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("-H a ssh-config usage", "fab ssh-config takes no hosts"),
        ("train --hosts a -- x", "fab train --hosts a --args=x"),
        ("--bogus train", "--bogus"),
        ("train --hosts", "--hosts: expected one argument"),
        ("--help trian", "trian"),
        ("train --detach more", "more"),
        ("ssh-config", "HOW"),
    ],
)
def test_a_usage_error_exits_with_2_and_runs_no_task(fab: Fab, args: str, expected: str) -> None:
    process = fab(*args.split())
    assert process.returncode == 2, process.stderr
    assert expected in process.stderr
    assert process.stdout == ""


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        ("train --prest x", "fab train --preset x"),
        ("ssh-confg", "fab ssh-config"),
        ("nonsense", "fab --list"),
        ("attach train", "fab attach ... && fab train ..."),
        ("train --hosts", "fab --help train"),
    ],
)
def test_an_unknown_task_or_option_is_answered_with_the_next_command(
    fab: Fab, args: str, hint: str
) -> None:
    assert fab(*args.split()).stderr.endswith(f"\n  next: {hint}\n")


@pytest.mark.parametrize(
    ("how", "code", "expected"),
    [
        ("usage", 2, "fab ssh-config: a rule\n  next: fab --list\n"),
        ("failed", 1, "fab ssh-config: it failed\n"),
        ("below", 3, "fab ssh-config: too low\n"),
        ("away", 4, "fab ssh-config: not there\n  h1  refused\n"),
        ("left", 130, "fab ssh-config: detached\n"),
        (
            "ctrl-c",
            130,
            "fab ssh-config: interrupted\n  next: fab status   # shows the hosts and the run\n",
        ),
        ("full", 1, "fab ssh-config: /x y/a: No space left on device\n" + SPACE),
        ("full-pipe", 1, "fab ssh-config: this computer: No space left on device\n" + SPACE),
        ("root's", 1, "fab ssh-config: /x y/a: Permission denied\n  next: ls -ld '/x y/a'" + OWNER),
    ],
)
def test_an_error_becomes_its_message_and_its_exit_code(
    fab: Fab, how: str, code: int, expected: str
) -> None:
    process = fab("ssh-config", how)
    assert (process.returncode, process.stdout, process.stderr) == (code, "", expected)


@pytest.mark.parametrize("target", [("--hosts", "a,b"), ("-H", "a,b")])
def test_the_next_command_has_the_hosts_that_were_typed(fab: Fab, target: tuple[str, str]) -> None:
    error = fab(*target, "train", "--preset", "next").stderr
    assert error.endswith("next: fab train --hosts a,b --detach   # or: fab attach\n")
    assert "--hosts" not in fab("train", "--preset", "next").stderr
    interrupted = fab(*target, "train", "--preset", "ctrl-c").stderr
    assert "next: fab status   # shows" in interrupted  # this fabfile has no such task


@pytest.fixture
def waiting(folder: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Start a `fab` that waits for a line of its input, by this command of a shell."""
    pipe, started = subprocess.PIPE, []

    def start(command: str) -> subprocess.Popen[str]:
        argv = ["bash", "-c", command.format(fab=f"exec {FAB} attach")]
        fab = subprocess.Popen(argv, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        started.append(fab)
        assert fab.stdout and fab.stdout.readline() == "ready\n"
        return fab

    yield start
    for fab in started:
        fab.kill()
        fab.communicate()


def test_ctrl_c_ends_fab(waiting: Callable[[str], subprocess.Popen[str]]) -> None:
    fab = waiting("{fab}")
    fab.send_signal(signal.SIGINT)
    assert fab.wait(60) == 130
    assert fab.stderr and fab.stderr.read().startswith("fab attach: interrupted\n")


def test_in_the_background_of_a_script_fab_ignores_ctrl_c(
    waiting: Callable[[str], subprocess.Popen[str]],
) -> None:
    """As every command there: such a shell starts `fab attach &` with the signal ignored."""
    fab = waiting("trap '' INT; {fab}")
    fab.send_signal(signal.SIGINT)
    assert fab.communicate("a line\n", timeout=60) == ("went on: a line\n", "")
    assert fab.returncode == 0


def test_tests_can_send_ctrl_c_in_the_background(folder: Path) -> None:
    """`make test &` in a script: its children ignore the signal. See tests/conftest.py."""
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}:{TESTS}"}
    code = "import signal, conftest; print(signal.getsignal(signal.SIGINT).__name__)"
    script = f"{shlex.join([sys.executable, '-c', code])} & wait $!"
    process = subprocess.run(["bash", "-c", script], cwd=folder, env=variables, capture_output=True)
    assert process.stdout == b"default_int_handler\n", process.stderr.decode()


def test_an_internal_error_prints_its_traceback(fab: Fab) -> None:
    process = fab("ssh-config", "ours")
    assert process.returncode == 1
    assert "ZeroDivisionError: ours" in process.stderr
    assert "this is an error in Railhead, not in your command\n  debug log: /" in process.stderr


@pytest.mark.parametrize(
    ("args", "code", "expected"),
    [
        ("data list --uri x", 2, "x is not s3://bucket/prefix"),
        ("data-push none s3://b/p", 2, "there is no file or folder none here"),
        ("-H a data list", 2, "fab data list takes no hosts"),
        ("data", 2, "--help data shard   # or: fab --help data index"),
        ("train --hosts a --data push", 2, "--data takes NAME=URI"),
        ("train --hosts a --script data push", 2, "for the job push"),
        ("data shard none new", 2, "there is no file or folder none here"),
        ("data index ~no-such-user/x", 2, "no folder can have this name"),
        ("data shard . new --shards 0", 2, "--shards"),
        ("data list --help", 0, "Usage: fab data list"),
        ("--help data", 2, "fab data takes push, list, shard or index"),
    ],
)
def test_data_push_and_data_list_may_be_two_words(
    tmp_path: Path, home: Path, args: str, code: int, expected: str
) -> None:
    process = forked_fab(tmp_path, "-r", str(ROOT), *args.split())
    assert (process.returncode, "Traceback" in process.stderr) == (code, False), process.stderr
    assert expected in process.stdout + process.stderr


def test_a_reader_that_closes_stdout_early_gets_no_traceback(folder: Path) -> None:
    many = FABFILE.replace('print(f"train', 'for _ in range(100_000): print(f"train')
    (folder / "fabfile.py").write_text(many)
    pipe = ["sh", "-c", f"{FAB} train | head -n 1"]
    process = subprocess.run(pipe, cwd=folder, capture_output=True, text=True)
    assert (process.stdout, process.stderr) == ("train None None False\n", "")


@pytest.mark.parametrize("args", ["--list", "--help train"])
def test_a_reader_that_reads_nothing_gets_no_traceback(folder: Path, args: str) -> None:
    pipe = ["sh", "-c", f"{{ sleep 0.2; {FAB} {args}; }} | true"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.run(pipe, cwd=folder, env=environment, capture_output=True, text=True)
    assert process.stderr == ""


@pytest.mark.parametrize("name", ["./hosts", "@hosts", "hosts"])
def test_the_error_for_a_file_of_hosts_names_those_in_it(tmp_path: Path, name: str) -> None:
    """Other launchers take a file."""
    (tmp_path / "hosts").write_text("a\nb\n")
    for given, hinted in ((name, True), (name.replace("hosts", "other.invalid"), False)):
        process = forked_fab(tmp_path, "-r", str(ROOT), "plan", "--hosts", given)
        assert ('"$(paste -sd, ' in process.stderr) == hinted, process.stderr


OURS = [
    ("train --hosts a --slots x", "--slots: 'x' is not a whole number from 1 to 1024"),
    ("train --hosts a;reboot", "'a;reboot' is not a host"),
    ("train --hosts=", "no hosts"),
    ("train", "no hosts"),
    ("-H a train --hosts b", "given twice"),
    ("train --hosts a --preset digts", "Did you mean digits"),
    ("train --hosts a --set epohcs=1", "epohcs"),
    ("train --hosts a --strategy miror", "'miror'"),
    ("train --hosts a,b --launcher tensorflow --strategy mirrored", "runs on one host"),
    ("train --hosts a --script none.py", "no script none.py"),
    ("train --hosts a --peer-address a.internal", "peer address 'a.internal'"),
    ("train --hosts a,a", "a: the same host twice"),
    ("logs --hosts a --rank x", "--rank: 'x' is not a whole number"),
    ("status", "no hosts"),
    ("demo --hosts a", "fab demo takes no hosts"),
    ("-H a ssh-config --run x", "--run"),
    ("train --hosts a -- --epochs 3", "--hosts a --args='--epochs 3'"),
    ("cancel --hosts a --run ../x", "is not a run's id"),
]


@pytest.mark.parametrize(("args", "expected"), OURS, ids=[args for args, _ in OURS])
def test_tasks_refuse_invalid_options_before_they_contact_a_host(
    tmp_path: Path, home: Path, args: str, expected: str
) -> None:
    process = forked_fab(tmp_path, "-r", str(ROOT), *args.split())
    assert process.returncode == 2, process.stderr
    assert expected in process.stderr
    assert "Traceback" not in process.stderr
    assert {path.name for path in (home / ".railhead").glob("*")} <= {"logs"}
