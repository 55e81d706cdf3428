"""The user's ssh_config gives what it gives to ssh, as `ssh -G` prints it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from standins.forks import forked_fab

from bootstrap.inventory.ssh_config import SshConfig

MORE = """User more
Host a
  HostName 192.0.2.1
  Port 2201
Host *
  ForwardAgent no
"""
FILES = {"more": MORE, "deep": "Include {home}/more\nHost b\n  Port 2202\n", "itself": ""}
CASES = {
    "a file": "Include {home}/more\nPort 2200\n",
    "a file, in lower case and with a comment": "include={home}/more # mine\nPort 2200\n",
    "several files": "Include {home}/none {home}/d* {home}/more\nHost b\n  User of-b\n",
    "in a block of Host": "Host a c\n  Include {home}/deep\n  User mine\nHost *\n  Port 2299\n",
    "in a block of Match": "Match host a,c\n  Include {home}/deep\n  User mine\nPort 2299\n",
    "not for a host": "Host * !a\n  Include {home}/deep\nHost a\n  User mine\n",
    "Match final all": "Host a\n  User mine\nMatch final all\n  User final\n  Port 2203\n",
    "Match all": "Match all\n  User all\n",
    "Match in upper case": "Match Host a,b\n  User mine\n",
}


def read(home: Path, text: str) -> SshConfig:
    """The configuration of a user with this ssh_config."""
    for name, content in FILES.items():
        (home / name).write_text(content.format(home=home))
    (home / "config").write_text(text.format(home=home))
    return SshConfig(user_ssh_path=str(home / "config"), system_ssh_path="/none")


def of_ssh(config: Path, host: str) -> dict[str, str]:
    """What ssh itself reads for a host."""
    argv = ["ssh", "-G", "-F", str(config), host]
    output = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in output.splitlines() if " " in line)


@pytest.mark.parametrize("case", CASES)
def test_a_host_has_the_settings_that_ssh_uses(tmp_path: Path, case: str) -> None:
    config = read(tmp_path, CASES[case])
    for host in ("a", "b", "c"):
        ours, theirs = config.base_ssh_config.lookup(host), of_ssh(tmp_path / "config", host)
        default = {"user": of_ssh(Path("/dev/null"), host)["user"], "port": "22"}
        for name in ("hostname", "user", "port"):
            assert ours.get(name, default.get(name)) == theirs[name], (host, name)


@pytest.mark.parametrize("criterion", ["tagged lab", "localnetwork 10.0.0.0/8", "version Open*"])
def test_a_block_of_criteria_that_cannot_be_tested_is_for_no_host(
    tmp_path: Path, criterion: str
) -> None:
    config = read(tmp_path, f"Match host a {criterion}\n  User lab\nHost a\n  User mine\n")
    assert config.base_ssh_config.lookup("a")["user"] == "mine"


@pytest.mark.parametrize("criteria", ["host a !localnetwork 10.0.0.0/8", "!tagged lab host a"])
def test_a_block_for_another_network_or_without_a_tag_is_for_its_hosts(
    tmp_path: Path, criteria: str
) -> None:
    """As a jump host that is needed everywhere but in one network."""
    config = read(tmp_path, f"Match {criteria}\n  ProxyJump door\n").base_ssh_config
    jumps = [config.lookup(host).get("proxyjump") for host in ("a", "b")]
    assert jumps == ["door", None]


def test_a_relative_file_is_beside_the_first_one_and_one_that_includes_itself_ends(
    tmp_path: Path,
) -> None:
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/lab").write_text("Include more\nInclude conf.d/lab\n")
    config = read(tmp_path, "Include conf.d/*\n").base_ssh_config
    assert config.lookup("a")["port"] == "2201"


def test_the_configuration_of_each_connection_has_each_block_once(tmp_path: Path) -> None:
    """A connection gets a clone. A block of Match exec runs its command as often as it is there."""
    config = read(tmp_path, "Include {home}/more\n")
    blocks = len(config.base_ssh_config._config)
    clones = [config.clone() for _ in range(3)]
    assert [len(clone.base_ssh_config._config) for clone in clones] == [blocks] * 3


def test_a_line_that_is_not_valid_is_a_usage_error_with_its_file(
    tmp_path: Path, home: Path
) -> None:
    config = home / ".ssh/config"
    config.parent.mkdir(exist_ok=True)
    config.write_text("Host a\n  User\n")
    process = forked_fab(tmp_path, "status", "--hosts", "a")
    assert process.returncode == 2 and f"{config} cannot be read" in process.stderr
    assert "Traceback" not in process.stderr
