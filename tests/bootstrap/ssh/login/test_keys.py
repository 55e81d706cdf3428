"""Keys are offered as ssh offers them: in its order, and no others; a silent agent is named."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.operator import Cluster, Operator, make_key, named
from paramiko import PKey
from paramiko.ssh_exception import AuthenticationException, BadAuthenticationType

from bootstrap.console.wait import wait_until
from bootstrap.host.run.cluster_key import listens
from bootstrap.lifecycle import reach
from bootstrap.ssh import connect
from bootstrap.ssh.login import keys
from bootstrap.ssh.login.keys import Keys, NotAccepted
from bootstrap.ssh.login.ssh_config import HostConfig, resolve

ADD = ("ssh-add", "-q")


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Path], None]]:
    """An ssh-agent; call it to add a key."""
    path = tmp_path / "agent"
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=-3)
    assert wait_until(lambda: listens(str(path)), seconds=30, every=0.01)

    def add(key: Path) -> None:
        subprocess.run([*ADD, str(key)], check=True)

    yield add
    process.terminate()
    process.wait()


class Refusing:
    """A transport of a host that takes no key, and then asks for a password."""

    farewell = ""

    def __init__(self) -> None:
        self.offered: list[bytes] = []

    def is_active(self) -> bool:
        return True

    def get_banner(self) -> bytes:
        return b"Only for members of the lab.\n"

    def ask(self, user: str, key: PKey) -> Any:
        self.offered.append(getattr(key, "blob", None) or key.asbytes())
        raise AuthenticationException("Authentication failed.")

    auth_publickey = ask

    def auth_none(self, user: str) -> Any:
        raise BadAuthenticationType("Bad authentication type", ["publickey", "password"])


def offered(config: HostConfig) -> list[bytes]:
    """The keys that such a host is offered."""
    transport: Any = Refusing()
    with pytest.raises(NotAccepted) as refused:
        Keys(config).authenticate(transport)
    assert refused.value.methods == {"publickey", "password"} and not refused.value.partial
    assert refused.value.printed == "Only for members of the lab."
    return list(transport.offered)


@pytest.mark.parametrize("only", [False, True])
def test_keys_of_the_agent_that_a_file_names_are_first_and_with_identities_only_alone(
    operator: Operator, tmp_path: Path, agent: Callable[[Path], None], only: bool
) -> None:
    other, named_, public, plain = (make_key(tmp_path / str(number)) for number in range(4))
    for key in (other, named_, public):
        agent(key)
    lock = ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(named_)]
    subprocess.run(lock, check=True, capture_output=True)
    named_.with_suffix(".pub").rename(tmp_path / "away.pub")  # it is in the private file too
    public.unlink()  # as of a hardware key
    files = "".join(f"IdentityFile {file}\n" for file in (plain, named_, f"{public}.pub"))
    operator.configures(files + f"IdentitiesOnly {'yes' if only else 'no'}\n")
    right = [keys.public_part(path) for path in (named_, public, other, plain)]
    assert None not in right and len({*right}) == 4
    if only:
        del right[2]
    assert offered(resolve("h1")) == right


def test_a_key_of_the_cluster_is_offered_alone(
    operator: Operator, tmp_path: Path, agent: Callable[[Path], None]
) -> None:
    agent(make_key(tmp_path / "other"))
    own = make_key(tmp_path / "own")
    transport: Any = Refusing()
    with pytest.raises(NotAccepted):
        Keys(resolve("h1"), str(own)).authenticate(transport)
    assert transport.offered == [keys.public_part(own)]


@pytest.mark.parametrize("name", ["key", "key.pub"])
def test_the_right_one_of_many_keys_is_found_by_its_file(
    operator: Operator,
    cluster: Cluster,
    tmp_path: Path,
    agent: Callable[[Path], None],
    name: str,
) -> None:
    """Where all of them are too many: an sshd takes six."""
    operator.knows(cluster.machines[0])
    for file in operator.ssh.glob("id_*"):
        file.unlink()
    for number in range(7):
        agent(make_key(tmp_path / str(number)))
    agent(cluster.key)
    reason = refusal(cluster)
    assert "after 6 keys: Too many authentication failures" in reason
    assert "IdentitiesOnly yes" in reason
    for suffix in ("", ".pub"):
        shutil.copy(f"{cluster.key}{suffix}", f"{operator.ssh / 'key'}{suffix}")
    lock = ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(operator.ssh / "key")]
    subprocess.run(lock, check=True, capture_output=True)
    operator.configures(f"IdentityFile {operator.ssh / name}\nIdentitiesOnly yes\n")
    with reach.sessions(named(cluster.host(0))) as opened:
        assert opened["h1"].sh("echo in").strip() == "in"


def refusal(cluster: Cluster) -> str:
    """Why the first host is not reached."""
    sessions = connect.open_sessions(named(cluster.host(0)))
    assert not sessions
    return sessions.reasons["h1"]


def test_an_agent_that_does_not_answer_is_named(
    operator: Operator, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keys, "AGENT_SECONDS", 0.2)
    operator.knows(cluster.machines[0])
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "agent"))
        silent.listen()
        monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
        reason = refusal(cluster)
    assert f"the ssh-agent at {tmp_path / 'agent'} does not answer" in reason
    assert "next: ssh-add -l" in reason
