"""Completion of tasks, options and values: the candidates, and real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from standins.forks import FAB, FORKED, forked_fab, forks

from bootstrap.cli.command_line.completion import SCRIPTS, candidates
from bootstrap.cli.program import TASKS
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import parse_hosts
from railhead.documents.runs.run_record import RunRecord
from training import presets
from training.config import describe_fields


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with a cluster and a run, and a folder with jobs and a project."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    hosts = parse_hosts("h1,h2")
    local_state.save_cluster(hosts)
    local_state.save_run(RunRecord("20261122-052802-6693", hosts.name, str(tmp_path / "r")))
    (tmp_path / "railhead.toml").write_text("[nightly]\n[smoke]\n")
    (tmp_path / "Pulumi.yaml").write_text("name: railhead\n")
    (tmp_path / "Pulumi.gpu.yaml").write_text("")
    (tmp_path / "Pulumi.team.gpu.yaml").write_text("")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("tra", "train"),
        ("data", "data"),
        ("data ", "push list shard index"),
        ("data push --st", "--stack"),
        ("ssh-c", "ssh-config"),
        ("train --no", "--no-keras-patches --no-stop --no-spare"),
        ("train --keras ", "auto 2 3"),
        ("train --keras=", "auto 2 3"),
        ("train --stack ", "gpu team.gpu"),
        ("train ni", "nightly"),
        ("plan sm", "smoke"),
        ("train --resume 2", "20261122-052802-6693"),
        ("logs -f ", "20261122-052802-6693"),
        ("evaluate 2026", "20261122-052802-6693"),
        ("train --hosts ", "h1,h2"),
        ("ssh ", "h1 h2"),
        ("--deb", "--debug"),
        ("train --script ", ""),
        ("train --save ", ""),
        ("undeploy ", ""),
    ],
)
def test_words_are_completed(known: None, typed: str, completed: str) -> None:
    *before, last = typed.replace("=", " = ").split(" ") if "=" in typed else typed.split(" ")
    assert candidates([*before, last], TASKS) == completed.split()


def test_all_presets_and_settings_are_candidates() -> None:
    assert candidates(["train", "--preset", ""], TASKS) == list(presets.PRESETS)
    assert candidates(["train", "--set", ""], TASKS) == [f"{name}=" for name in describe_fields()]


def test_what_cannot_be_read_completes_nothing(known: None, tmp_path: Path) -> None:
    (tmp_path / "railhead.toml").write_text("[nightly")
    (tmp_path / ".railhead/last").write_text("../x")
    for words in (["train", ""], ["train", "--job", ""], ["ssh", ""], ["train", "--hosts", ""]):
        assert candidates(words, TASKS) == []


STARTS = {
    "bash": ["bash", "--norc", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}
INSTALL = {
    "bash": 'eval "$(fab --print-completion-script bash)"',
    "zsh": 'eval "$(fab --print-completion-script zsh)"',
    "fish": "fab --print-completion-script fish | source",
}
PROMPT = "ready> "
PROMPTS = {
    "bash": "PS1='rea''dy> '",
    "zsh": "PS1='rea''dy> '",
    "fish": "function fish_prompt; echo -n 'rea''dy> '; end",
}
WRAPPER = """#!/bin/sh
case "$1" in --complete|--print-completion-script) exec FAB "$@" ;; esac
echo "[$*]"
"""


class Terminal:
    """A shell in a terminal of its own."""

    def __init__(self, argv: list[str]) -> None:
        here, there = pty.openpty()
        self.fd, self.seen = here, ""
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *argv], stdin=there, stdout=there, stderr=there
        )
        os.close(there)

    def type(self, text: str, *, ends: bool = True) -> None:
        self.seen = ""
        os.write(self.fd, (text + "\r" * ends).encode())

    def wait_for(self, text: str, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.fd], [], [], 1)[0]:
                self.seen += os.read(self.fd, 65536).decode(errors="replace")


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_shell_completes(
    known: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    if not shutil.which(shell):
        pytest.skip(f"there is no {shell}")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/fab").write_text(WRAPPER.replace("FAB", f"{FORKED} {FAB}"))
    (tmp_path / "bin/fab").chmod(0o755)
    (tmp_path / "own.py").write_text("")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("RAILHEAD_FORKS", forks())
    terminal = Terminal(STARTS[shell])
    try:
        terminal.type(f"{INSTALL[shell]}; {PROMPTS[shell]}")
        for typed, added in (
            ("fab boots", "trap"),
            ("fab train --preset fash", "ion-mnist"),
            ("fab train --script ow", "n.py"),
        ):
            terminal.wait_for(PROMPT)
            terminal.type(f"{typed}\t", ends=False)
            terminal.wait_for(added)
            terminal.type("")
            terminal.wait_for(f"[{typed.removeprefix('fab ')}{added}]\r\n")
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.fd)


def test_another_shell_is_refused_with_the_choices(tmp_path: Path) -> None:
    option = "--print-completion-script"
    completed = forked_fab(tmp_path, "--complete", "--", "fab", option, "bash", "--deb")
    assert completed.stdout == "--debug\n"
    process = forked_fab(tmp_path, option, "tcsh")
    assert process.returncode == 2 and "bash, fish, zsh" in process.stderr
