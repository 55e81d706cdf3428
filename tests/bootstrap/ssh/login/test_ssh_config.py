"""What the user's own ssh says about a host is how Railhead reaches it."""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hosts.operator import named
from standins.forks import forked_fab

from bootstrap.clouds.local import cluster
from bootstrap.console.wait import wait_until
from bootstrap.errors import UsageError
from bootstrap.inventory.hosts import Host
from bootstrap.ssh import connect
from bootstrap.ssh.login import choice, ssh_config
from bootstrap.ssh.login.ssh_config import resolve

SETTINGS = """Include {home}/more
Match originalhost gpu exec "test %n = gpu"
  HostName 192.0.2.1   # the first one
  ProxyCommand sh -c 'relay %h %p | tee %n%%'
  ProxyJump ann@door:2222,[2001:db8::7]
  IdentityFile ${{OURS}}/%n-%h
  IdentityFile ~/.ssh/mine
  IdentityAgent ~/agent
  UserKnownHostsFile ~/ours /etc/theirs
  GlobalKnownHostsFile none
  HostKeyAlias of-%h
"""


@pytest.fixture
def config(home: Path) -> Path:
    """The file of a user; it is empty."""
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh/config").touch()
    return home / ".ssh/config"


def test_a_host_has_the_settings_that_ssh_uses(
    config: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the tokens and variables that `ssh -G` leaves as they are, and $HOME as the home."""
    monkeypatch.setenv("OURS", "/keys")
    (home / "more").write_text("Host gpu\n  Port 2201\n  User lab\n")
    config.write_text(SETTINGS.format(home=home))
    gpu, other = resolve("gpu"), resolve("other", "me", 7)
    assert (gpu.host, gpu.port, gpu.user) == ("192.0.2.1", 2201, "lab")
    assert gpu.key_files == (Path("/keys/gpu-192.0.2.1"), home / ".ssh/mine")
    assert gpu.agent == str(home / "agent")
    assert gpu.known_hosts == (home / "ours", Path("/etc/theirs"))
    assert gpu.alias == "of-192.0.2.1"
    assert gpu.proxy_command == "sh -c 'relay 192.0.2.1 2201 | tee gpu%'"
    assert (other.host, other.port, other.user) == ("other", 7, "me")
    assert home / ".ssh/id_ed25519" in other.key_files and not other.alias


def test_jump_hosts_are_in_order(config: Path) -> None:
    config.write_text("ProxyJump ann@door:2222,[2001:db8::7]\n")
    assert resolve("gpu").jumps == ("ann@door:2222", "[2001:db8::7]")


def test_a_file_in_the_home_of_the_account_is_meant_where_it_is_there(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").touch()
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_dir=str(tmp_path)))
    config.write_text(f"IdentityFile {tmp_path}/there\nIdentityFile {tmp_path}/mine\n")
    assert resolve("gpu").key_files == (tmp_path / "there", config.parents[1] / "mine")


def test_a_change_of_the_file_counts_at_once(config: Path) -> None:
    config.write_text("Port 2201\n")
    assert resolve("gpu").port == 2201
    config.write_text("Port 2202\n")
    os.utime(config, (1, 1))
    assert resolve("gpu").port == 2202


def test_what_ssh_refuses_is_a_usage_error_with_its_words(config: Path) -> None:
    config.write_text("Port 22\nUser\n")
    with pytest.raises(UsageError) as refused:
        resolve("gpu")
    assert f"{config} line 2: " in refused.value.message
    assert refused.value.hint == f"ssh -G -F {config} -- gpu"


def test_what_hangs_is_ended_with_its_commands(
    config: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh_config, "SECONDS", 0.5)
    config.write_text(f'Match exec "echo $$ > {home}/pid; exec sleep 600"\n')
    began = time.monotonic()
    with pytest.raises(UsageError, match="Match exec"):
        resolve("gpu")
    assert time.monotonic() - began < 30
    process = Path("/proc") / (home / "pid").read_text().strip()
    assert wait_until(lambda: not process.exists(), seconds=30, every=0.01)


def test_without_an_ssh_client_there_are_defaults_and_one_line(
    config: Path,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    choice._say_without_client.cache_clear()
    config.write_text("Port 2201\n")
    monkeypatch.setenv("PATH", str(home))
    assert resolve("gpu").port == 22 and resolve("other", "me", 7).port == 7
    assert resolve("other", "me", 7).user == "me"
    assert home / ".ssh/id_ed25519" in resolve("gpu").key_files
    connect.open_sessions(named(Host("a", "127.0.0.1", port=9), Host("b", "127.0.0.2", port=9)))
    assert capsys.readouterr().out.count("no ssh client") == 1


@pytest.mark.parametrize(("line", "started"), [("SendEnv LANG", False), ("User lab", True)])
def test_ssh_is_started_only_where_a_file_says_something(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, started: bool
) -> None:
    """It costs 7 ms for each name."""
    (tmp_path / "ssh_config.d").mkdir()
    (tmp_path / "ssh_config").write_text("# of all\nHost *\n    HashKnownHosts yes\n")
    (tmp_path / "ssh_config.d/lab.conf").write_text(f"{line}\n")
    (tmp_path / "ssh").write_text("#!/bin/sh\necho user started\n")
    (tmp_path / "ssh").chmod(0o755)
    monkeypatch.setattr(ssh_config, "SYSTEM", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    ssh_config._resolved.cache_clear()
    assert (resolve("gpu").user == "started") is started
    assert resolve("gpu", "me", 7).port == (22 if started else 7)


def test_a_configuration_that_ssh_refuses_is_the_outcome_of_its_host(
    config: Path, tmp_path: Path
) -> None:
    config.write_text("Host a\n  User\n")
    process = forked_fab(tmp_path, "exec", "--hosts", "a", "--cmd", "true")
    assert process.returncode == 2 and f"{config} line 2" in process.stdout + process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize("work", [lambda: resolve("gpu"), lambda: cluster.start("none", 1)])
def test_a_user_id_without_an_account_is_refused_as_ssh_does(
    home: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]
) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    with pytest.raises(UsageError, match="the user id 54321 has no account"):
        work()
    assert not (home / ".railhead/clusters/none/key").exists()
