"""The chief's logins on the other hosts, tried against a real sshd before a run starts."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from standins.runs.supervised_run import Run
from standins.stores.servers import free_port

from bootstrap.clouds.local import host as local_host
from bootstrap.console.wait import wait_until
from bootstrap.host.base.programs import SHARED
from bootstrap.host.run import cluster_key
from bootstrap.runs.start import BEGIN_LOGINS, END_LOGINS, LOGIN_CHECK

SSH_CONFIG = """Host railhead-2
  HostName 127.0.0.1
  Port {port}
  IdentityFile "{folder}/key"
  IdentitiesOnly yes
  IdentityAgent $RAILHEAD_KEY_AGENT
  UserKnownHostsFile "{folder}/known_hosts"
  HostKeyAlias railhead-2
  StrictHostKeyChecking yes
  BatchMode yes
"""
Serve = Callable[[str], Callable[[], None]]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Starts an sshd with one more setting; `tmp_path` is the folder of the run."""
    for name in ("host_key", "key"):
        local_host.make_key(tmp_path / name, name)
    (tmp_path / "known_hosts").write_text(f"railhead-2 {(tmp_path / 'host_key.pub').read_text()}")
    port = free_port()
    (tmp_path / "ssh_config").write_text(SSH_CONFIG.format(port=port, folder=tmp_path))
    settings = [f"ListenAddress=127.0.0.1:{port}", f"HostKey={tmp_path}/host_key"]
    keys = f"{tmp_path}/key.pub {tmp_path}/.railhead/cluster/key.pub"
    settings += [f"AuthorizedKeysFile={keys}", "StrictModes=no", "UsePAM=no"]
    settings += ["PidFile=none"]
    started = []

    def one(setting: str) -> Callable[[], None]:
        options = [word for each in [setting, *settings] for word in ("-o", each)]
        log = tmp_path / "sshd.log"
        argv = [local_host.program(), "-D", "-f", "/dev/null", "-E", str(log), *options]
        process = subprocess.Popen(argv)
        started.append(process)
        listens = lambda: log.exists() and "Server listening" in log.read_text()  # noqa: E731
        assert wait_until(listens, seconds=60, every=0.02)

        def stop() -> None:
            process.terminate()
            process.wait()

        return stop

    yield one
    for process in started:
        process.terminate()
        process.wait()


def check(folder: Path, *, begun: bool = False) -> str:
    """What the check writes: nothing for a host that lets the chief in. `begun`: a first command
    has returned at once, and the second waits for what it does."""
    for script in (BEGIN_LOGINS, END_LOGINS) if begun else (END_LOGINS,):
        argv = ["sh", "-c", script, "login_check", "railhead-2"]
        code = subprocess.run(argv, cwd=folder, timeout=60).returncode
    text = (folder / "login_check.txt").read_text()
    assert code == bool(text)
    return text


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    ("setting", "output"),
    [
        ("LogLevel=INFO", ""),
        ("KexAlgorithms=sntrup761x25519-sha512@openssh.com", ""),
        ("KexAlgorithms=ecdh-sha2-nistp256", ""),
        ("AuthorizedKeysFile=none", "railhead-2 {user}@127.0.0.1: Permission denied (publickey"),
    ],
    ids=["of today", "against quantum computers only", "of yesterday", "another key"],
)
def test_the_chief_logs_in_whatever_key_exchange_a_host_wants(
    serve: Serve, tmp_path: Path, setting: str, output: str, begun: bool
) -> None:
    serve(setting)
    reported = check(tmp_path, begun=begun)
    assert reported == output or (output and reported.startswith(output.format(user=local_user())))


def test_the_second_check_of_a_run_is_not_answered_by_the_first(
    serve: Serve, tmp_path: Path
) -> None:
    """A run in progress gets another host, whose name the first check has let in."""
    stop = serve("LogLevel=INFO")
    assert check(tmp_path, begun=True) == ""
    stop()
    subprocess.run(["ssh", "-F", "ssh_config", *SHARED, "-O", "exit", "railhead-2"], cwd=tmp_path)
    assert check(tmp_path).startswith("railhead-2 ssh: connect to host 127.0.0.1 port")


def test_a_check_that_was_killed_is_made_again(serve: Serve, tmp_path: Path) -> None:
    """It had written nothing yet, as one that has let all in."""
    (tmp_path / "login_check.lock").touch()
    (tmp_path / "login_check.txt").touch()
    assert check(tmp_path).startswith("railhead-2 ssh: connect to host 127.0.0.1 port")


def test_a_host_without_sshd_is_named_with_the_last_line_of_ssh(
    serve: Serve, tmp_path: Path
) -> None:
    assert check(tmp_path).startswith("railhead-2 ssh: connect to host 127.0.0.1 port")


def test_the_run_logs_in_although_no_file_of_the_chief_has_the_key(
    serve: Serve, tmp_path: Path
) -> None:
    """mpirun of the real supervisor, and a check of `fab up --replace` meanwhile."""
    serve("LogLevel=INFO")
    folder = tmp_path / ".railhead/cluster"
    folder.mkdir(parents=True)
    for name in ("key", "key.pub"):
        (tmp_path / name).rename(folder / name)
    config = (tmp_path / "ssh_config").read_text().replace(f"{tmp_path}/key", f"{folder}/key")
    (tmp_path / "ssh_config").write_text(config)
    go_on = tmp_path / "go-on"
    login = f"ssh -n -F {tmp_path}/ssh_config railhead-2 'test -e {folder}/key || echo no file'"
    run = Run(tmp_path, f"{login} >{tmp_path}/printed; until [ -e {go_on} ]; do sleep 0.05; done")
    (tmp_path / "bin/ssh").unlink()
    printed = tmp_path / "printed"
    with run.start() as supervisor:
        try:
            is_written = lambda: printed.exists() and printed.read_text() == "no file\n"  # noqa: E731
            assert wait_until(is_written, seconds=60, every=0.02)
            environment = {**os.environ, "HOME": str(tmp_path)}
            argv = ["sh", "-c", LOGIN_CHECK, "login_check", "railhead-2"]
            subprocess.run(argv, cwd=tmp_path, env=environment, check=True, timeout=60)
            assert (tmp_path / "login_check.txt").read_text() == ""
        finally:
            go_on.touch()
            supervisor.wait(60)
    assert run.read("results/result.json")["state"] == "succeeded"
    assert wait_until((folder / "key").exists, seconds=60, every=0.02)


# At its first call, another run has just moved the key from its file into an agent.
TAKEN = """#!/bin/sh
[ -e {held} ] || echo "1 {agent}" >{held}
exec {ssh} "$@"
"""


@pytest.mark.parametrize("has_key", [True, False])
def test_a_key_that_another_run_takes_meanwhile_still_logs_in(
    serve: Serve, tmp_path: Path, has_key: bool
) -> None:
    """Then the supervisor names that run. An agent with another key changes nothing."""
    serve("LogLevel=INFO")
    held, agent = tmp_path / ".railhead/cluster/held", tmp_path / "agent"
    held.parent.mkdir(parents=True)
    ssh = tmp_path / "bin/ssh"
    ssh.parent.mkdir()
    ssh.write_text(TAKEN.format(held=held, agent=agent, ssh=shutil.which("ssh")))
    ssh.chmod(0o755)
    key = (tmp_path / ("key" if has_key else "host_key")).read_bytes()
    (tmp_path / "key").unlink()
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{ssh.parent}:{os.environ['PATH']}",
    }
    with cluster_key.agent_with(key, str(agent)):
        argv = ["sh", "-c", LOGIN_CHECK, "login_check", "railhead-2"]
        subprocess.run(argv, cwd=tmp_path, env=environment, check=True, timeout=60)
    assert ("Permission denied" in (tmp_path / "login_check.txt").read_text()) != has_key


def test_mpirun_uses_the_connection_of_the_check(serve: Serve, tmp_path: Path) -> None:
    """The sshd takes no other one meanwhile."""
    stop = serve("LogLevel=INFO")
    assert check(tmp_path) == ""
    stop()
    ssh = ["ssh", "-F", f"{tmp_path}/ssh_config"]
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert run([*ssh, "railhead-2", "echo x"]).returncode == 255
    assert run([*ssh, *SHARED, "railhead-2", "echo x"]).stdout == "x\n"


def test_a_folder_that_takes_no_socket_has_logins_all_the_same(
    serve: Serve, tmp_path: Path
) -> None:
    """As some file systems do; here there is something else of its name."""
    serve("LogLevel=INFO")
    (tmp_path / "railhead-2.ssh").mkdir()
    assert check(tmp_path) == ""


def local_user() -> str:
    """The name that ssh uses without one."""
    return subprocess.run(["id", "-un"], text=True, capture_output=True).stdout.strip()
