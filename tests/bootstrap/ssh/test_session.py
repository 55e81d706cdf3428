"""One channel to a real host: sh, the agent, trees by content, and the message when it breaks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.operator import Cluster
from standins.runs.run_documents import run_json
from standins.waiting import wait_until

from bootstrap.clouds.local import processes
from bootstrap.errors import RailheadError
from bootstrap.host.run.manifest import snapshot
from bootstrap.inventory import local_state
from bootstrap.inventory.hosts import Inventory
from bootstrap.lifecycle import reach
from bootstrap.runs import results
from bootstrap.runs.run import Run
from bootstrap.ssh import connect
from bootstrap.ssh.bundle import pack_folder
from bootstrap.ssh.session import LOGIN, OPEN, ConnectionLost, Session
from bootstrap.untrusted.unpack import Hostile
from railhead.documents.agent.commands import CommandResult, Line, Start
from railhead.documents.agent.commands import Run as RunCommand
from railhead.documents.agent.files import Placed, Read, TextFile, Write
from railhead.documents.agent.request import COMMAND


@pytest.fixture
def agent(session: Session) -> Session:
    """A session whose channel the agent has."""
    session.start_agent("python3")
    return session


@pytest.fixture
def there(one_host: Cluster) -> Path:
    """The host's home, as this machine sees it."""
    return one_host.machines[0].home


# sh

SHELLS = [*filter(shutil.which, ("sh", "bash", "zsh", "fish", "ksh", "tcsh", "bsd-csh", "busybox"))]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("path", [os.environ["PATH"], "/nowhere"])
def test_the_session_begins_in_whatever_shell_the_account_has(
    tmp_path: Path, shell: str, path: str
) -> None:
    """Also where its PATH has none of the system's folders."""
    argv = [str(shutil.which(shell)), *(["sh"] if shell == "busybox" else []), "-c", LOGIN]
    lines = "printf 'first\\n'\ncat /dev/null && echo second\n@go\necho third\n@go\n"
    process = subprocess.run(
        argv,
        input=lines,
        env={"HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert process.stdout.splitlines()[-4:] == ["@loop", "first", "second", "third"]


def test_the_command_of_a_session_has_nothing_that_csh_and_fish_read_otherwise() -> None:
    """They may not be here: a line that is not quoted once more, `!`, and two backslashes."""
    assert LOGIN.count("'") == 2 and not re.search(r"\n|!|\\\\", LOGIN)


@pytest.mark.parametrize(
    ("startup", "says"),
    [
        ("echo 'Load a project first: module load gpu'; exit 3", "module load gpu"),
        ("seq 100; echo Last; exec /usr/sbin/nologin", "98\n99\n100\nLast\nThis account is"),
        ("echo 'no room' >&2; exit 1", "no room"),
    ],
)
def test_what_a_host_says_before_it_closes_is_shown(
    inventory: Inventory, there: Path, startup: str, says: str
) -> None:
    (there / ".bashrc").write_text(startup)
    try:
        sessions = connect.open_sessions(inventory)
    finally:
        (there / ".bashrc").unlink()
    assert not sessions and says in sessions.reasons[inventory.chief.name]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("echo one", "one\n\n"),
        ("echo one; echo two", "one\ntwo\n\n"),
        ("printf 'no newline'", "no newline\n"),
        ("printf '%s' \"it's \\$HOME\"", "it's $HOME\n"),
        ("false; echo $?", "1\n\n"),
        ("echo '@go'; echo x >&2", "@go\n\n"),
        ("echo '@end'; echo '@loop'", "@end\n@loop\n\n"),
        ("for i in 1 2\ndo echo $i\ndone", "1\n2\n\n"),
        ("true", "\n"),
    ],
)
def test_sh_answers_what_was_printed(session: Session, text: str, says: str) -> None:
    assert [session.sh(text), session.sh("echo after")] == [says, "after\n\n"]


def test_a_long_answer_comes_whole(session: Session) -> None:
    assert session.sh("seq 100000").splitlines()[99_999] == "100000"


def test_each_line_is_received_as_it_comes(session: Session, there: Path) -> None:
    lines: list[str] = []

    def report(line: str) -> None:
        lines.append(line)
        (there / "seen").touch()

    text = "rm -f seen; echo first; until [ -e seen ]; do sleep 0.05; done; echo last"
    assert session.sh(text, report=report, silence=30) == "first\nlast\n\n"
    assert lines == ["first", "last", ""]
    assert session.sh("true") == "\n"
    assert session._channel._bounds.silence > 30, "it is of one call"


def test_a_connection_is_kept_alive_and_a_dead_one_is_found(session: Session) -> None:
    """A router forgets a silent connection; a host that is gone sends no FIN."""
    connection: Any = session.connection
    transport = connection.transport
    interval = transport.packetizer._Packetizer__keepalive_interval
    assert 0 < interval <= 30
    limit = transport.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert 0 < limit <= 60_000


def test_facts_then_the_agent_on_one_channel(session: Session, one_host: Cluster) -> None:
    facts = session.facts()
    assert facts.home == str(one_host.machines[0].home)
    assert facts.inside == (one_host.machines[0].address, one_host.machines[0].port)
    session.start_agent(next(iter(facts.pythons.values())))
    assert session.run(["echo", "in"]) == CommandResult(0, ("in",))


def test_the_agent_starts_once(agent: Session) -> None:
    agent.start_agent("no such python")
    assert agent.run(["true"]).rc == 0


@pytest.fixture
def talkative(there: Path) -> Iterator[None]:
    """A login shell that greets, on both streams, and whose greeting looks like an answer."""
    path = there / ".bashrc"
    path.write_text('echo Welcome; echo @end; echo "{not json"; echo noise >&2; printf dangling\n')
    yield
    path.unlink()


def test_a_talkative_login_shell_breaks_neither_facts_nor_the_agent(
    talkative: None, session: Session, one_host: Cluster
) -> None:
    assert session.sh("echo in") == "in\n\n"
    assert session.facts().home == str(one_host.machines[0].home)
    session.start_agent("python3")
    assert session.run(["echo", "in"]) == CommandResult(0, ("in",))


@pytest.mark.parametrize("command", ["'", '"', "(", "echo a; fi", "$(", "if true", "<<X"])
def test_a_command_that_is_not_sh_fails_and_the_session_remains(
    session: Session, command: str
) -> None:
    lines, code = session.shell(command)
    assert (code > 0, any("yntax" in line for line in lines)) == (command != "<<X",) * 2, lines
    assert session.shell("echo here; exit 3") == (["here"], 3)


def test_a_command_of_several_lines_runs_as_it_is(session: Session) -> None:
    command = "a='1 2'\ncat <<END\n$a \\$a\nEND\nexit 4 # '"
    assert session.shell(command) == (["1 2 $a"], 4)


@pytest.mark.parametrize(
    ("command", "lines"),
    [
        ("true", []),
        ("echo", [""]),
        ("printf end", ["end"]),
        ("echo; echo; echo 1; echo; exit 3", ["", "", "1", ""]),
        (r"printf '10 %%\r20 %%\n'", ["10 %", "20 %"]),
        ("echo '@rc '; echo @end", ["@rc ", "@end"]),
    ],
)
def test_the_lines_of_a_command_are_reported_and_nothing_else(
    session: Session, command: str, lines: list[str]
) -> None:
    reported: list[str] = []
    assert session.shell(command, report=reported.append)[0] == reported == lines


def test_the_agent_bears_a_talkative_login_shell_without_facts(
    talkative: None, session: Session
) -> None:
    session.start_agent("python3")
    assert session.run(["echo", "in"]) == CommandResult(0, ("in",))


# The agent


def test_an_operation_that_fails_is_reported_and_the_channel_continues(
    agent: Session, there: Path
) -> None:
    (there / "file").write_text("")
    with pytest.raises(RailheadError, match="write: .*File exists"):
        agent.write(TextFile("~/file/below", "x"))
    assert agent.run(["true"]).rc == 0


def test_operations_of_one_round_trip_are_answered_in_their_order(
    agent: Session, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those with events, and after one that fails."""
    written, echo = TextFile("~/both", "text"), RunCommand(("echo", "in"))
    sent: list[bytes] = []
    send = agent._send

    def noted(data: bytes) -> None:
        sent.append(data)
        send(data)

    monkeypatch.setattr(agent, "_send", noted)
    found = agent.call_all(Write((written,)), Read("~/both"), echo, Read("~/none"))
    assert [found[1].text, found[2], found[3].text] == ["text", CommandResult(0, ("in",)), None]
    below = Write((TextFile("~/both/below", ""),))
    with pytest.raises(RailheadError, match=r"^write: .*/both"):
        agent.call_all(below, Write((TextFile("~/after", "it"),)))
    assert (there / "after").read_text() == "it"
    assert len(sent) == 2 and agent.read("~/both") == "text"


def test_a_command_answers_its_code_and_its_last_lines(agent: Session) -> None:
    lines: list[Any] = []
    reply = agent.run(["sh", "-c", "seq 50; exit 3"], on_event=lines.append)
    assert (reply.rc, reply.tail[0], reply.tail[-1]) == (3, "11", "50")
    assert lines[-1] == Line("50")


def test_files_come_back_by_pattern(agent: Session, there: Path, tmp_path: Path) -> None:
    for name in ("out/a.txt", "out/deep/b.txt", "out/c.bin"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text(name)
    answer = agent.get("~/out", ["**/*.txt"], tmp_path / "got", limit=1000)
    assert sorted(name for name, _ in answer.files) == ["a.txt", "deep/b.txt"]
    with tarfile.open(tmp_path / "got") as archive:
        assert sorted(archive.getnames()) == ["a.txt", "deep/b.txt"]


def test_a_run_without_an_end_is_fetched_over_a_real_connection(
    agent: Session, there: Path, tmp_path: Path
) -> None:
    folder = there / ".railhead/runs/r9"
    for name in ("run.json", "results/saved/variables/v.data", "logs/rank-0.log", "work/train.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "run.json").write_text(json.dumps(run_json()))
    (folder / "before.json").write_text(json.dumps(snapshot(str(folder))))
    (folder / "work/w.h5").write_bytes(os.urandom(3_000_000))
    os.mkfifo(folder / "results/pipe")
    lines: list[str] = []
    assert results.fetch(agent, Run("r9", tmp_path / "r9"), lines.append) is None
    here = {p.relative_to(tmp_path / "r9").as_posix() for p in (tmp_path / "r9").rglob("*.*")}
    assert here == {"run.json", "saved/variables/v.data", "logs/rank-0.log", "outputs/w.h5"}
    assert (tmp_path / "r9/outputs/w.h5").read_bytes() == (folder / "work/w.h5").read_bytes()
    assert lines == ["not fetched: results/pipe (FIFO)"]


LIES: dict[str, list[str]] = {
    "more than an archive can have": ['{"event": {"chunk": 4000000000}}'],
    "a negative length": ['{"event": {"chunk": -1}}'],
    "no length": ['{"event": {"chunk": "x"}}'],
    "no event": ["{}"],
    "no JSON": ["{"],
    "depth without end": ['{"ok":' + "[" * 100_000],
}


@pytest.mark.parametrize("lines", LIES.values(), ids=LIES)
def test_an_agent_that_lies_is_refused(session: Session, tmp_path: Path, lines: list[str]) -> None:
    """What answers in the agent's place says what it likes."""
    session._agent = True
    text = "\n".join(lines)
    script = f"cat <<'END'\n{text}\nEND\nexec cat >/dev/null\n@go\n"
    session._send(script.encode())
    with pytest.raises(Hostile):
        session.collect("~/.railhead/runs/r1", tmp_path / "got", limit=1000)
    assert (tmp_path / "got").stat().st_size == 0


def test_one_file_is_fetched_as_it_is(agent: Session, there: Path, tmp_path: Path) -> None:
    (there / "w.whl").write_bytes(content := os.urandom(600_000))
    agent.get_file("~/w.whl", tmp_path / "got", limit=600_000)
    assert (tmp_path / "got").read_bytes() == content
    (there / "link").symlink_to("w.whl")
    for path, limit in (("~/w.whl", 599_999), ("~/link", 600_000), ("~/none", 600_000)):
        with pytest.raises(RailheadError, match="^get_file: "):
            agent.get_file(path, tmp_path / f"no {limit} {path[2:]}", limit=limit)
    assert agent.run(["true"]).rc == 0


@pytest.mark.parametrize(
    "text",
    ['{"event": {"chunk": 11}}', '{"event": {"chunk": 3}}\nabc{"ok": {"sha256": "0"}}'],
    ids=["too large", "another sha256"],
)
def test_a_file_that_is_not_what_it_should_be_is_refused(
    session: Session, tmp_path: Path, text: str
) -> None:
    session._agent = True
    session._send(f"cat <<'END'\n\n@loop\n{text}\nEND\nexec cat >/dev/null\n@go\n".encode())
    with pytest.raises(Hostile):
        session.get_file("~/w.whl", tmp_path / "got", limit=10)


def test_a_line_without_an_end_is_cut_off(session: Session, monkeypatch: Any) -> None:
    monkeypatch.setattr("bootstrap.ssh.session.LONGEST_LINE", 100_000)
    session._agent = True
    session._send(b"printf '{'; while :; do printf 'x%.0s' $(seq 5000); done\n@go\n")
    with pytest.raises(Hostile, match="a line of more than 100000 bytes"):
        session.read("~/x")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files to send: two alike, one in a folder, one executable."""
    for name, text in {"a": "one", "b": "one", "sub/c": "two", "run.sh": "three"}.items():
        (tmp_path / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / name).write_text(text)
    (tmp_path / "tree/run.sh").chmod(0o755)
    return tmp_path / "tree"


def content(folder: Path) -> dict[str, tuple[str, bool]]:
    """Every file's text, and whether it can be run."""
    return {
        path.relative_to(folder).as_posix(): (
            path.read_bytes().decode("latin-1"),
            os.access(path, os.X_OK),
        )
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_tree_arrives_and_only_changed_contents_travel_again(
    agent: Session, there: Path, tree: Path
) -> None:
    def send() -> Placed:
        return agent.send_tree(pack_folder(tree), "~/tree")

    first = send()
    assert (first.sent, len(first.changed)) == (3, 4)
    assert send() == Placed(0, ())
    before = (tree / "sub/c").stat()
    (tree / "sub/c").write_text("TWO")  # the same size, and the same time
    os.utime(tree / "sub/c", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert send() == Placed(1, ("sub/c",))
    (there / "tree/a").write_text("meddled")
    (there / "tree/extra").write_text("")
    assert send() == Placed(0, ("a",))
    assert content(there / "tree") == content(tree)


# Broken connections


def test_a_connection_that_ends_while_the_installer_is_sent_leaves_none(
    one_host: Cluster,
    home_of_session: Path,
    there: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(home_of_session))
    cluster = local_state.load_cluster("session")
    (tmp_path / "uv").mkdir()
    (tmp_path / "uv/uv").write_bytes(b"#!/bin/sh\n" + os.urandom(200_000))
    (tmp_path / "uv/uv").chmod(0o755)
    bundle = pack_folder(tmp_path / "uv")
    names = {count: f"digest-{count}" for count in (0, 1, 30, 100_000)}
    for count, name in names.items():
        with reach.sessions(cluster) as opened:
            opened["h1"].start_agent("python3")
            monkeypatch.setattr(opened["h1"], "_send", ends_after(opened["h1"], count))
            with pytest.raises(ConnectionLost):
                opened["h1"].send_folder(bundle, f"~/.railhead/uv/{name}")
        assert not (there / f".railhead/uv/{name}").exists()
    with reach.sessions(cluster) as opened:
        assert not {*names.values()} & {*opened["h1"].facts().uvs}
        opened["h1"].start_agent("python3")
        sent = [
            opened["h1"].send_folder(bundle, f"~/.railhead/uv/{n}").sent for n in names.values()
        ]
    assert sent == [1, 0, 0, 0], "a content that is there is not sent again"
    for name in names.values():
        assert content(there / f".railhead/uv/{name}") == content(tmp_path / "uv")
    with reach.sessions(cluster) as opened:
        assert {*names.values()} <= {*opened["h1"].facts().uvs}


def ends_after(session: Session, count: int) -> Callable[..., None]:
    """The session's `_send` that, after the request, sends `count` bytes and then disconnects."""
    real, left = session._send, count

    def send(data: bytes, sent: Any = None) -> None:
        nonlocal left
        if data.startswith(b"{"):
            real(data)
            return
        real(data[:left])
        left -= min(left, len(data))
        if not left:
            session.close()
            raise ConnectionLost("the connection has ended")

    return send


def sshd_of(session: Session) -> int:
    """The pid of the sshd of a session without an agent."""
    return int(session.sh("echo $PPID").split()[-1])


def break_after(pid: int, seconds: float) -> threading.Thread:
    """Kill the sshd of a session from outside, as a network would."""

    def kill() -> None:
        time.sleep(seconds)
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_a_connection_that_breaks_while_querying_is_reported_at_once(
    session: Session, there: Path
) -> None:
    sshd = sshd_of(session)
    session.start_agent("python3")
    killer = break_after(sshd, 1)
    with pytest.raises(ConnectionLost, match=f"the connection to {session.host} broke"):
        session.run(["sleep", "600"])
    killer.join()


def test_a_connection_that_breaks_within_sh_is_reported(session: Session, there: Path) -> None:
    killer = break_after(sshd_of(session), 0.3)
    with pytest.raises(ConnectionLost):
        session.sh("echo half; sleep 600; echo whole")
    killer.join()


def test_a_host_that_reports_nothing_for_too_long_is_lost(session: Session) -> None:
    with pytest.raises(ConnectionLost, match=f"{session.host} has been silent for 1 s"):
        session.sh("echo alive; sleep 600", silence=1)


def test_an_agent_that_reports_nothing_for_too_long_is_lost(session: Session, there: Path) -> None:
    session.start_agent("python3")
    with pytest.raises(ConnectionLost, match=f"{session.host} has been silent for 1 s"):
        session.run(["sleep", "600"], silence=1, cwd=str(there))


@pytest.mark.parametrize(
    ("timeout", "silence"),
    [(None, COMMAND.silence), (5.0, COMMAND.silence), (7200.0, 7200.0 + OPEN.silence)],
)
def test_a_command_may_be_silent_until_the_host_ends_it(
    session: Session, timeout: float | None, silence: float
) -> None:
    session.start_agent("python3")
    session.run(["true"], timeout=timeout)
    assert session._channel._bounds.silence == silence


def test_querying_on_a_broken_connection_is_reported(session: Session, there: Path) -> None:
    sshd = sshd_of(session)
    session.start_agent("python3")
    break_after(sshd, 0).join()
    for _ in range(2):
        with pytest.raises(ConnectionLost):
            session.run(["true"])


def test_what_python_reported_last_is_reported(session: Session) -> None:
    with pytest.raises(ConnectionLost, match="broke: .*no-such-python"):
        session.start_agent("no-such-python")


def test_what_was_started_outlives_the_connection(
    agent: Session, there: Path, one_host: Cluster
) -> None:
    (there / "log").write_text("")
    argv = ["sh", "-c", "sleep 0.5; echo done"]
    agent.call(Start(tuple(argv), cwd="~", env={}, log="~/log"))
    agent.close()
    wait_until(lambda: (there / "log").read_text() == "done\n")


def test_closing_leaves_nothing_on_the_host(
    one_host: Cluster, home_of_session: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home_of_session))
    before = set(processes.of(one_host.machines[0].folder))
    with reach.sessions(local_state.load_cluster("session")) as opened:
        opened["h1"].start_agent("python3")
        assert len(set(processes.of(one_host.machines[0].folder)) - before) >= 2
    wait_until(lambda: not set(processes.of(one_host.machines[0].folder)) - before)
