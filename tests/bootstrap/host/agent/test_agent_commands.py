"""The agent runs commands."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from standins.agent_process import Agent, Failed

from bootstrap.console.wait import wait_until
from bootstrap.host.agent import commands

COMMANDS: dict[str, tuple[str, int, list[str]]] = {
    "lines": (r"printf 'a\nb\n'", 0, ["a", "b"]),
    "both streams and a code": (r"echo a; echo b >&2; exit 3", 3, ["a", "b"]),
    "an empty line between": (r"printf 'a\n\n b\n'", 0, ["a", "", " b"]),
    "no newline at the end": (r"printf 'a\nb'", 0, ["a", "b"]),
    "a progress bar": (r"printf '1%%\r2%%\r100%%\ndone\n'", 0, ["100%", "done"]),
    "a bar's unfinished state": (r"printf 'a\n1%%\r2%%\r'", 0, ["a", "2%"]),
    "lines of another system": (r"printf 'a\r\nb\r\n'", 0, ["a", "b"]),
    "no text": (r"printf 'a\377b\n'", 0, ["a\ufffdb"]),
    "more than the tail": (r"seq 100000", 0, [str(n) for n in range(99961, 100001)]),
    "a signal": (r"kill -9 $$", -9, []),
}


@pytest.mark.parametrize("script, code, tail", COMMANDS.values(), ids=COMMANDS)
def test_run_answers_the_code_and_the_last_lines(
    agent: Agent, script: str, code: int, tail: list[str]
) -> None:
    assert agent.call("run", argv=["sh", "-c", script])[0] == {"rc": code, "tail": tail}


def test_run_gives_input_environment_and_folder(agent: Agent, home: Path) -> None:
    script = 'cat; echo "$WHERE"; pwd'
    options: dict[str, Any] = {"text": "in\n", "env": {"WHERE": "~/x"}, "cwd": "~"}
    answer, _ = agent.call("run", argv=["sh", "-c", script], **options)
    assert answer["tail"] == ["in", f"{home}/x", str(home)]


def test_run_does_not_mind_input_that_nobody_reads(agent: Agent) -> None:
    assert agent.call("run", argv=["true"], text="x" * 1_000_000)[0] == {"rc": 0, "tail": []}


@pytest.mark.root
@pytest.mark.parametrize("options, says", [("noexec", commands.NOEXEC), ("exec", "")])
def test_a_program_on_a_disk_without_programs_names_the_mount(
    agent: Agent, home: Path, options: str, says: str
) -> None:
    disk = home / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "test", disk], check=True)
    try:
        shutil.copy("/bin/true", disk / "uv")
        with pytest.raises(Failed, match="mounted noexec") if says else contextlib.nullcontext():
            agent.call("run", argv=["~/disk/uv"])
        (disk / "text").touch(0o644)
        with pytest.raises(Failed, match=f"{disk}/text" if says else "Permission denied"):
            agent.call("run", argv=["~/disk/text"])
    finally:
        subprocess.run(["umount", disk], check=True)


BACKGROUND = {
    "a silent one": "while [ -e ~/going ]; do sleep 0.1; done &",
    "a talkative one": "while [ -e ~/going ]; do sleep 0.001; echo still here; done &",
    "one that closed our pipe first": "exec >&- 2>&-; sleep 0.2;",
}


@pytest.mark.parametrize("background", BACKGROUND.values(), ids=BACKGROUND)
def test_what_a_command_leaves_behind_does_not_hold_the_answer(
    agent: Agent, home: Path, background: str
) -> None:
    (home / "going").touch()  # it also ends when this home is removed
    answer, _ = agent.call("run", argv=["sh", "-c", f"echo started; {background} exit 4"])
    assert answer["rc"] == 4
    (home / "going").unlink()
    assert answer["tail"][0] in ("started", "still here")


def test_output_that_never_pauses_is_read_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As of a background process that prints all the time."""
    monkeypatch.setattr(commands, "send_event", lambda _: None)
    monkeypatch.setattr(commands, "LINGER", 0.01)
    until = time.monotonic() + 60

    def some_bytes() -> bytes:
        assert time.monotonic() < until
        return b"still here\n"

    with subprocess.Popen(["true"], stdout=subprocess.PIPE) as process:
        process.wait()
        watched = commands.Watched(process, 60.0, None)
        monkeypatch.setattr(watched, "read_available", some_bytes)
        assert watched.end().rc == 0


ENDLESS = {
    "silent": "exec sleep 600",
    "through a child": "sleep 600; echo never",
    "loud": "while :; do echo x; done",
    "with its output closed": "exec >&- 2>&-; sleep 600",
}


def alive(group: int) -> list[int]:
    """The processes of a group that have not ended; who should bury the dead is not our matter."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, pgrp = path.read_text().rpartition(")")[2].split()[:3]
            if int(pgrp) == group and state != "Z":
                pids.append(int(path.parent.name))
    return pids


@pytest.mark.parametrize("script", ENDLESS.values(), ids=ENDLESS)
def test_a_timeout_ends_all_that_was_started(agent: Agent, home: Path, script: str) -> None:
    argv = ["sh", "-c", f"echo $$ >~/pid; {script}"]
    for seconds in (0.5, 5.0, 50.0):  # a busy machine may not have begun the shell in the first
        assert agent.call("run", argv=argv, timeout=seconds)[0]["rc"] == -9
        if (home / "pid").exists():
            break
    group = int((home / "pid").read_text())
    assert wait_until(lambda: not alive(group), seconds=60, every=0.05), alive(group)


def test_a_command_ends_with_the_command_that_waits_for_it(home: Path) -> None:
    """A compilation, which is silent for a minute: it removes its files, and its children end."""
    agent = Agent(home)
    waits = "sleep 600 & echo $$ >~/pid; wait"
    script = f"trap 'touch ~/cleaned; exit 143' TERM; {waits}"
    agent.send(json.dumps({"op": "run", "argv": ["sh", "-c", script]}).encode() + b"\n")
    started = home / "pid"
    assert wait_until(lambda: started.exists() and started.read_text(), seconds=60, every=0.05)
    group = int((home / "pid").read_text())
    assert agent.process.stdin and agent.process.stdout
    agent.process.stdin.close()
    agent.process.stdout.close()
    assert wait_until(lambda: not alive(group), seconds=5, every=0.05), alive(group)
    assert (home / "cleaned").exists()
    agent.process.wait(60)


def test_of_two_commands_with_one_lock_the_second_waits_and_shows_the_first(
    agent: Agent, home: Path
) -> None:
    """The agent of the first is killed: its command, which lives on, has the lock."""
    (home / "going").touch()
    first, lock = Agent(home), "~/.railhead/build/k.lock"
    works = "echo [50%] compiled a; while [ -e ~/going ]; do sleep 0.05; done; echo done >~/out"
    run = {"op": "run", "argv": ["sh", "-c", works], "lock": lock}
    first.send(json.dumps(run).encode() + b"\n")
    assert first.line() == {"event": {"line": "[50%] compiled a"}}
    first.process.kill()
    first.process.communicate()
    agent.send(json.dumps({**run, "argv": ["cat", str(home / "out")]}).encode() + b"\n")
    assert agent.line() == {"event": {"line": "[50%] compiled a; by another command"}}
    other = Agent(home)
    assert other.call("run", argv=["echo", "b"], lock="~/l")[0]["tail"] == ["b"]
    other.close()
    (home / "going").unlink()
    while "event" in (message := agent.line()):
        pass
    assert message["ok"] == {"rc": 0, "tail": ["done"]}


def test_a_flood_is_reported_at_a_bounded_pace(agent: Agent) -> None:
    start = time.monotonic()
    answer, events = agent.call("run", argv=["sh", "-c", "seq 2000000; sleep 0.2"])
    assert answer["tail"][-1] == events[-1]["line"] == "2000000"
    assert len(events) <= 25 * (time.monotonic() - start) + 2


def test_slow_lines_are_all_reported(agent: Agent) -> None:
    script = r"for i in 1 2 3; do echo $i; sleep 0.12; done; printf '4%%\r'; sleep 0.12; echo 5%"
    _, events = agent.call("run", argv=["sh", "-c", script])
    assert [e["line"] for e in events][:4] == ["1", "2", "3", "4%"]


def test_a_line_without_end_stays_small(agent: Agent) -> None:
    longer = "head -c 30000000 /dev/zero | tr '\\0' x; head -c 2000000 /dev/zero | tr '\\0' y"
    answer, events = agent.call("run", argv=["sh", "-c", f"{longer}; echo end"])
    assert answer["tail"][-1].endswith("yend") and "x" not in answer["tail"][-1]
    assert len(answer["tail"][-1]) <= (1 << 20) + (1 << 16)


def test_processes_of_one_machine_download_one_after_the_other(home: Path) -> None:
    """Local hosts share uv's cache: the second finds what the first has downloaded."""
    agents = [Agent(home) for _ in range(3)]
    alone = ["sh", "-c", "mkdir ~/busy || exit 7; sleep 0.2; rmdir ~/busy"]
    codes: list[int] = []

    def download(agent: Agent) -> None:
        codes.append(agent.call("run", argv=alone, fetches=True)[0]["rc"])

    threads = [threading.Thread(target=download, args=(agent,)) for agent in agents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for agent in agents:
        agent.process.communicate()
    assert codes == [0, 0, 0]


def test_growth_is_reported_while_it_fetches_and_no_longer(agent: Agent) -> None:
    before = commands.received()
    _, events = agent.call("run", argv=["sleep", "1.3"], fetches=True)
    assert [list(e) for e in events] == [["grown", "received"]]
    assert 0 <= events[0]["received"] <= commands.received() - before
    with pytest.raises(Failed, match="ENOENT"):
        agent.call("run", argv=["/not/there"], fetches=True)
    assert agent.call("run", argv=["sleep", "1.3"])[1] == []


def test_start_outlives_the_channel(home: Path) -> None:
    agent = Agent(home)
    options: dict[str, Any] = {"cwd": "~", "env": {"A": "~/b"}, "log": "~/log"}
    script = "sleep 0.5; echo $A; pwd"
    agent.call("start", argv=["sh", "-c", script], **options)
    agent.process.communicate()
    whole = f"{home}/b\n{home}\n"
    assert wait_until(lambda: (home / "log").read_text() == whole, seconds=60, every=0.05)


@pytest.mark.parametrize("released", [True, False])
def test_a_held_command_goes_on_when_it_is_released(home: Path, released: bool) -> None:
    """Otherwise its input ends with the agent."""
    agent = Agent(home)
    argv = ["sh", "-c", "read -r _ && echo released || echo ended"]
    options: dict[str, Any] = {"cwd": "~", "env": {}, "log": "~/log", "held": True}
    pid = agent.call("start", argv=argv, **options)[0]["pid"]
    assert (home / "log").read_text() == ""
    if released:
        agent.call("release", pid=pid)
    else:
        agent.process.communicate()
    text = "released\n" if released else "ended\n"
    assert wait_until(lambda: (home / "log").read_text() == text, seconds=60, every=0.05)
