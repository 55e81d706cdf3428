"""The user's own ssh as the transport: what is typed and verified, and that nothing is left."""

from __future__ import annotations

import os
import pty
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.operator import Cluster, Operator, line, make_key, named
from places import ROOT
from standins.forks import forked_fab
from standins.sshd import CODE, Sshd, sshd

from bootstrap.console.wait import wait_until
from bootstrap.inventory.hosts import Host
from bootstrap.lifecycle import reach
from bootstrap.ssh import connect
from bootstrap.ssh.bundle import pack_folder
from bootstrap.ssh.connect import start_agent
from bootstrap.ssh.host_keys import Pins
from bootstrap.ssh.login import openssh
from bootstrap.ssh.login.hop import Hop
from bootstrap.ssh.login.ssh_config import HostConfig


@pytest.fixture
def by_ssh(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with --ssh."""
    monkeypatch.setenv("RAILHEAD_SSH", "1")


@pytest.fixture
def guarded(operator: Operator, tmp_path: Path) -> Iterator[Sshd]:
    """A host that wants a code after the key."""
    with sshd(tmp_path, "key", "code") as server:
        operator.write_known([server.known])
        yield server
    for master in [*openssh._masters.values()]:
        master.close()
    openssh._masters.clear()


def test_the_agent_works_and_nothing_is_left(
    operator: Operator, cluster: Cluster, by_ssh: None, tmp_path: Path
) -> None:
    operator.knows(*cluster.machines[:2])
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/big").write_bytes(os.urandom(3_000_000))
    with reach.sessions(named(cluster.host(0), cluster.host(1))) as opened:
        session = opened["h1"]
        folders = {opened[name].connection.master.folder for name in opened}  # type: ignore[attr-defined]
        start_agent(session)
        session.send_tree(pack_folder(tmp_path / "tree"), "~/tree")
        assert session.run(["wc", "-c", "tree/big"], cwd="~").tail == ("3000000 tree/big",)
        machine = cluster.machines[0]
        assert " ".join(line(machine).split()[1:]) == (
            f"{session.host_key.get_name()} {session.host_key.get_base64()}"
        )
        assert all(folder.exists() for folder in folders) and len(folders) == 2
    assert not any(folder.exists() for folder in folders)
    running = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True).stdout
    assert not any(str(folder) in running for folder in folders)


@pytest.mark.parametrize("where", ["the host", "its jump host"])
@pytest.mark.parametrize("known", ["another", "none"])
def test_host_keys_are_as_strict(
    operator: Operator, cluster: Cluster, by_ssh: None, tmp_path: Path, where: str, known: str
) -> None:
    """Also where the user's own ssh would take any key; our pin outweighs that of the user."""
    jump, inner = cluster.machines[:2]
    wrong = inner if where == "the host" else jump
    pins = operator.home / ".railhead/known_hosts"
    pins.parent.mkdir(exist_ok=True)
    pins.write_text(line(wrong, make_key(tmp_path / "old")) if known == "another" else "")
    operator.write_known([line(one) for one in (jump, inner) if one != wrong or known != "none"])
    operator.configures(
        f"Host inner\n  HostName {inner.address}\n  Port {inner.port}\n"
        f"  ProxyJump {cluster.user}@{jump.address}:{jump.port}\n"
        f"Host *\n  User {cluster.user}\n  StrictHostKeyChecking no\n"
    )
    sessions = connect.open_sessions(named(Host("inner", "inner")))
    words = "its host key changed" if known == "another" else "unknown host key"
    assert not sessions and words in sessions.reasons["inner"]
    operator.write_known([line(jump), line(inner)])
    pins.unlink()
    with reach.sessions(named(Host("inner", "inner"))) as opened:
        assert opened["inner"].shell("echo in")[0] == ["in"]


def test_a_code_is_typed_once_for_a_command(
    guarded: Sshd, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Here a program types it, as SSH_ASKPASS."""
    program = tmp_path / "types"
    program.write_text(f"#!/bin/sh\necho typed >> {tmp_path}/log\necho {CODE}\n")
    program.chmod(0o755)
    monkeypatch.setenv("SSH_ASKPASS", str(program))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    host = Host("a", "127.0.0.1", user="me", port=guarded.port)
    for _ in range(2):
        with reach.sessions(named(host)) as opened:
            assert opened["a"].shell("echo in")[0] == ["in"]
    assert (tmp_path / "log").read_text() == "typed\n"


def test_a_code_is_typed_at_the_terminal_and_not_shown(guarded: Sshd, tmp_path: Path) -> None:
    argv = [str(Path(sys.executable).with_name("fab")), "-r", str(ROOT), "exec", "--cmd", "echo in"]
    argv += ["--hosts", f"me@127.0.0.1:{guarded.port}"]
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execve(argv[0], argv, {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"})
    shown = b""

    def ended() -> bool:
        nonlocal shown
        try:
            data = os.read(terminal, 4096)
        except OSError:
            return True
        if b"Code: " in data:
            os.write(terminal, f"{CODE}\n".encode())
        shown += data
        return not data

    assert wait_until(ended, seconds=120, every=0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
    assert b"[127.0.0.1] in" in shown and CODE.encode() not in shown
    assert b"by your ssh: it wants keyboard-interactive" in shown


def test_ssh_as_an_option_is_for_one_command(
    operator: Operator, cluster: Cluster, tmp_path: Path
) -> None:
    operator.knows(cluster.machines[0])
    argv = ["exec", "--hosts", str(cluster.host(0)), "--cmd", "echo in"]
    with_it, without = forked_fab(tmp_path, *argv, "--ssh"), forked_fab(tmp_path, *argv)
    assert [one.returncode for one in (with_it, without)] == [0, 0]
    assert "by your ssh: --ssh" in with_it.stdout and "by your ssh" not in without.stdout


def test_without_a_terminal_what_is_wanted_is_named(guarded: Sshd) -> None:
    sessions = connect.open_sessions(named(Host("a", "127.0.0.1", user="me", port=guarded.port)))
    assert not sessions and "keyboard-interactive" in sessions.reasons["a"]
    assert not guarded.logins


@pytest.mark.parametrize("home", [pwd.getpwuid(os.getuid()).pw_dir, "/another/home"])
def test_a_cluster_of_ours_types_its_own_key_alone(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in the account's home, where ssh itself finds the keys of the user."""
    monkeypatch.setenv("HOME", home)
    ours, key = HostConfig("h1", {}), str(tmp_path / "key")
    options = openssh.login_options([Hop(ours, Pins(()), key)], tmp_path)
    settings = {"IdentitiesOnly=yes", "IdentityAgent=none", f'IdentityFile="{key}"'}
    assert settings <= {*options}
    assert not settings & {*openssh.login_options([Hop(ours, Pins(()))], tmp_path)}
