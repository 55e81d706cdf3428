"""What `ssh HOST` can, a session can; what it cannot, a session cannot either, and says why.

Each situation is typed with ssh and opened by us, with the same files and on the same hosts.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hosts.operator import Cluster, Operator, line, make_key, named
from standins.sshd import sshd

from bootstrap.clouds.local.host import LocalHost
from bootstrap.console.wait import wait_until
from bootstrap.inventory.hosts import Host
from bootstrap.ssh import connect

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") or "sshd"
DROPBEAR = shutil.which("dropbear", path=f"{os.environ.get('PATH')}:/usr/sbin")
RELAY = """import os, select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while True:
    for one in select.select([0, s], [], [])[0]:
        data = os.read(0, 65536) if one == 0 else s.recv(65536)
        if not data: sys.exit()
        s.sendall(data) if one == 0 else os.write(1, data)
"""


@dataclass
class World:
    """The user's home, three hosts, and what a situation has started."""

    operator: Operator
    cluster: Cluster
    tmp: Path
    patch: pytest.MonkeyPatch
    ending: ExitStack = field(default_factory=ExitStack)
    typed: Host = field(default_factory=lambda: Host("a", "a"))

    @property
    def values(self) -> dict[str, str]:
        """What {...} stands for in a configuration."""
        found = {"home": str(self.operator.home), "key": str(self.operator.ssh / "id_ed25519")}
        found |= {"user": self.cluster.user, "tmp": str(self.tmp)}
        for number, machine in enumerate(self.cluster.machines):
            found |= {f"h{number}": machine.address, f"p{number}": str(machine.port)}
        return found

    def key(self, kind: str = "ed25519", *, known: bool = True) -> Path:
        """A new key in a file, which the first host accepts."""
        path = make_key(self.tmp / f"key-{len([*self.tmp.iterdir()])}", kind)
        if known:
            self.accepts(path.with_suffix(".pub").read_text())
        return path

    def accepts(self, text: str) -> None:
        """A line more in authorized_keys of the first host, for this situation."""
        file = self.cluster.machines[0].home / ".ssh/authorized_keys"
        before = file.read_text()
        self.ending.callback(file.write_text, before)
        file.write_text(before + text)

    def agent(self, *keys: Path) -> None:
        """An ssh-agent with these keys."""
        path = self.tmp / "agent"
        self.patch.setenv("SSH_AUTH_SOCK", str(path))
        process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=-3)
        self.ending.callback(process.wait)
        self.ending.callback(process.terminate)
        assert wait_until(path.exists, seconds=30, every=0.01)
        for key in keys:
            subprocess.run(["ssh-add", "-q", str(key)], check=True)

    def sshd(self, *settings: str) -> LocalHost:
        """Another sshd of the first host, with other settings."""
        machine, folder = self.cluster.machines[0], self.tmp / "sshd"
        folder.mkdir()
        port = free_port(machine.address)
        words = tuple(setting.split()[0] for setting in settings) + ("ListenAddress", "PidFile")
        text = (machine.folder / "sshd_config").read_text().splitlines()
        lines = [one for one in text if not one.startswith(words)]
        own = [f"ListenAddress {machine.address}:{port}", f"PidFile {folder}/pid", *settings]
        (folder / "config").write_text("\n".join([*lines, *own]) + "\n")
        argv = [SSHD, "-D", "-f", str(folder / "config"), "-E", str(folder / "log")]
        self.run(argv, lambda: (folder / "pid").exists())
        other = LocalHost(machine.name, machine.folder, machine.address, port)
        self.operator.knows(*self.cluster.machines, other)
        self.typed = Host("a", other.address, user=self.cluster.user, port=port)
        return other

    def run(self, argv: list[str], ready: Callable[[], bool]) -> None:
        """A server until the end of the situation."""
        process = subprocess.Popen(argv, stdout=-3, stderr=-3)
        self.ending.callback(process.wait)
        self.ending.callback(process.terminate)
        assert wait_until(ready, seconds=30, every=0.02)

    def configures(self, text: str) -> None:
        """The user's ssh_config."""
        self.operator.configures(text.format(**self.values))

    def by_ssh(self) -> bool:
        """Whether the user's ssh runs a command there."""
        options = ["-F", str(self.operator.ssh / "config"), "-o", "BatchMode=yes"]
        options += ["-o", "StrictHostKeyChecking=yes", "-o", "ConnectTimeout=10", "-T"]
        options += ["-p", str(self.typed.port)] if self.typed.port else []
        options += ["-l", self.typed.user] if self.typed.user else []
        argv = ["ssh", *options, self.typed.address, "echo", "in"]
        process = subprocess.run(argv, capture_output=True, text=True, stdin=-3, timeout=60)
        return process.stdout.endswith("in\n")

    def by_us(self) -> str:
        """The same in a session; the reason where there is none."""
        with connect.open_sessions(named(self.typed)) as opened:
            if not opened:
                return opened.reasons["a"]
            return "\n".join(opened["a"].shell("echo in")[0])


def free_port(address: str) -> int:
    with socket.socket() as probe:
        probe.bind((address, 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def world(
    operator: Operator, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A user who knows all hosts, whose key they accept."""
    monkeypatch.setenv("RAILHEAD_SSH", "")
    operator.knows(*cluster.machines)
    (tmp_path / "w").mkdir()
    made = World(operator, cluster, tmp_path / "w", monkeypatch)
    made.configures("")
    with made.ending:
        yield made


# The end of a configuration: host a is the first one.
A = """Host a
  HostName {h0}
  Port {p0}
  User {user}
"""
ALL = "Host *\n  IdentityFile {key}\n  UserKnownHostsFile {home}/.ssh/known_hosts\n"
REST = A.partition("\n")[2]
B = "Host b\n  HostName {h1}\n  Port {p1}\n  User {user}\n"
LEADS = {
    "plain": A,
    "comments behind values": "Host a # one\n  HostName {h0} # two\n  Port {p0}   # three\n" + A,
    "keywords with =": "Host=a\n  HostName={h0}\n  Port = {p0}\n  User={user}\n",
    "the first value counts": A + "Host a\n  Port 9\n  HostName 192.0.2.1\n",
    "patterns": "Host ? !b\n" + REST,
    "negated patterns": "Host * !a\n  Port 9\n" + A,
    "tokens of the name": A + "  IdentityFile {tmp}/%n\n",
    "Match exec": 'Match exec "test %n = a"\n' + REST,
    "Match exec that fails": 'Match exec "test %n = b"\n  Port 9\n' + A,
    "Match originalhost": "Match originalhost a\n" + REST,
    "Match host after HostName": "Host a\n  HostName {h0}\nMatch host {h0}\n" + REST,
    "Match final": A.replace("  Port {p0}\n", "") + "Match final host {h0}\n  Port {p0}\n",
    "Match with a user": "Match user nobody-else\n  Port 9\n" + A,
    "a variable": A + "  IdentityFile ${{OURS}}/.ssh/id_ed25519\n",
    "a path in quotes": A + '  IdentityFile "{tmp}/my key"\n',
    "Include": "Include {tmp}/more\n",
    "Include in a block": "Host a\n  Include {tmp}/settings\n",
    "Include of many": "Include {tmp}/no* {tmp}/m*e\n",
    "an ignored keyword": "IgnoreUnknown NoSuchThing\n" + A + "  NoSuchThing yes\n",
    "ProxyJump": A + "  ProxyJump b\n" + B,
    "ProxyJump in full": A + "  ProxyJump {user}@{h1}:{p1}\n",
    "two jump hosts": A + "  ProxyJump {user}@{h1}:{p1},{user}@{h2}:{p2}\n",
    "a jump host behind another": A + "  ProxyJump b\n" + B + "  ProxyJump {user}@{h2}:{p2}\n",
    "ProxyJump none": A + "  ProxyJump none\nHost a\n  ProxyJump nowhere.invalid\n",
    "ProxyCommand by ssh -W": A + "  ProxyCommand ssh -F {home}/.ssh/config -W %h:%p b\n" + B,
    "ProxyCommand for a shell": A
    + "  ProxyCommand sh -c 'test %n = a && python3 $RELAY %h %p | cat'\n",
    "ProxyCommand with a variable": A + "  ProxyCommand $PYTHON $RELAY %h %p\n",
    "HostKeyAlias": A + "  HostKeyAlias ours\n  UserKnownHostsFile {tmp}/alias\n",
    "another UserKnownHostsFile": A + "  UserKnownHostsFile {tmp}/known\n",
    "GlobalKnownHostsFile": A + "  UserKnownHostsFile none\n  GlobalKnownHostsFile {tmp}/known\n",
    "PreferredAuthentications": A + "  PreferredAuthentications publickey\n",
    "AddressFamily": A + "  AddressFamily inet\n",
    "BindAddress": A + "  BindAddress 127.0.0.1\n",
    "forwards and variables of the user": A + "  LocalForward {tmp}/s 127.0.0.1:9\n  SetEnv LAB=1\n"
    "  ForwardAgent yes\n  RequestTTY force\n  Compression yes\n  ServerAliveInterval 5\n",
    "a stale control socket": A + "  ControlMaster auto\n  ControlPath {tmp}/stale\n",
    "only certain ciphers": A + "  Ciphers aes256-ctr\n  KexAlgorithms curve25519-sha256\n",
}
ENDS = {
    "a line that is not valid": (A + "  Port abc\n", "config line 5: Bad port"),
    "a keyword that is not known": (A + "  NoSuchThing yes\n", "Bad configuration option"),
    "ProxyCommand that fails": (
        A + "  ProxyCommand sh -c 'echo no way to %h >&2; exit 3'\n",
        "no way to",
    ),
    "PubkeyAuthentication no": (A + "  PubkeyAuthentication no\n", "Permission denied"),
    "a name that does not resolve": ("Host a\n  HostName no.invalid\n", "does not resolve"),
    "a port where nobody listens": (A.replace("{p0}", "9"), "refused"),
    "an account that is not there": (A.replace("{user}", "railhead-nobody"), "none of your keys"),
}


def same(world: World, expected: str) -> None:
    """The same outcome, and ours is as expected."""
    ours = world.by_us()
    assert (ours == "in") is world.by_ssh(), ours
    assert ours == expected if expected == "in" else expected in ours


@pytest.mark.parametrize("situation", [*LEADS, *ENDS])
def test_a_configuration_leads_where_ssh_goes(world: World, situation: str) -> None:
    text, expected = ENDS.get(situation) or (LEADS[situation], "in")
    known = line(world.cluster.machines[0])
    files = {
        "known": known,
        "alias": "ours " + known.partition(" ")[2],
        "more": A.format(**world.values),
        "settings": A.format(**world.values).partition("\n")[2],
        "relay": RELAY,
        "stale": "",
    }
    for name, content in files.items():
        (world.tmp / name).write_text(content)
    for name in ("my key", "a"):
        shutil.copy(world.operator.ssh / "id_ed25519", world.tmp / name)
    world.patch.setenv("OURS", str(world.operator.home))
    world.patch.setenv("RELAY", str(world.tmp / "relay"))
    world.patch.setenv("PYTHON", shutil.which("python3") or "")
    world.configures(text + ALL)
    same(world, expected)


def encrypted(world: World) -> Path:
    """A key with a passphrase, which the first host accepts."""
    key = world.key()
    lock = ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(key)]
    subprocess.run(lock, check=True, capture_output=True)
    return key


def alone(world: World, identity: Path, *more: str) -> None:
    """Host a, with one identity and nothing of the user's own."""
    world.configures(
        A + f"  IdentityFile {identity}\n" + "".join(f"  {one}\n" for one in more)
        + "  UserKnownHostsFile {home}/.ssh/known_hosts\n"
    )  # fmt: skip


def many(world: World) -> list[Path]:
    return [world.key(known=False) for _ in range(7)]


def in_agent_by_file(world: World) -> str:
    key = world.key()
    world.agent(*many(world), key)
    encrypted_copy = world.tmp / "copy"
    for suffix in ("", ".pub"):
        shutil.copy(f"{key}{suffix}", f"{encrypted_copy}{suffix}")
    lock = ["ssh-keygen", "-q", "-p", "-N", "secret", "-f", str(encrypted_copy)]
    subprocess.run(lock, check=True, capture_output=True)
    alone(world, encrypted_copy, "IdentitiesOnly yes")
    return "in"


def in_agent_by_public_part(world: World) -> str:
    key = world.key()
    world.agent(*many(world), key)
    key.unlink()
    alone(world, Path(f"{key}.pub"), "IdentitiesOnly yes")
    return "in"


def in_agent_after_many(world: World) -> str:
    world.agent(*many(world), world.key())
    alone(world, world.tmp / "none")
    return "too many keys in your ssh-agent"


def in_agent_first(world: World) -> str:
    world.agent(world.key(), *many(world))
    alone(world, world.tmp / "none")
    return "in"


def not_of_this_agent(world: World) -> str:
    world.agent(world.key())
    alone(world, world.tmp / "none", "IdentityAgent none")
    return "none of your keys"


def another_agent(world: World) -> str:
    world.agent(world.key())
    world.patch.delenv("SSH_AUTH_SOCK")
    alone(world, world.tmp / "none", f"IdentityAgent {world.tmp}/agent")
    return "in"


def a_passphrase(world: World) -> str:
    alone(world, encrypted(world))
    return "has a passphrase"


def of_kind(kind: str) -> Callable[[World], str]:
    def made(world: World) -> str:
        alone(world, world.key(kind))
        return "in"

    return made


def in_pem(world: World) -> str:
    key = world.key("rsa")
    convert = ["ssh-keygen", "-q", "-p", "-N", "", "-m", "PEM", "-f", str(key)]
    subprocess.run(convert, check=True, capture_output=True)
    alone(world, key)
    return "in"


def certified(world: World, name: str) -> Path:
    """A key whose certificate the first host accepts, in a file of this name."""
    authority, key = world.key(known=False), world.key(known=False)
    world.accepts(f"cert-authority {authority.with_suffix('.pub').read_text()}")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "us", "-n", world.cluster.user]
    subprocess.run([*sign, f"{key}.pub"], check=True, capture_output=True)
    Path(f"{key}-cert.pub").rename(world.tmp / (name.format(key=key.name)))
    return key


def a_certificate(world: World) -> str:
    alone(world, certified(world, "{key}-cert.pub"))
    return "in"


def a_certificate_file(world: World) -> str:
    key = certified(world, "elsewhere")
    alone(world, key, f"CertificateFile {world.tmp}/elsewhere")
    return "in"


def a_certificate_of_the_host(world: World) -> str:
    authority = world.key(known=False)
    public = shutil.copy(world.cluster.machines[0].folder / "host_key.pub", world.tmp / "host.pub")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "h", "-h", "-n"]
    subprocess.run([*sign, world.cluster.machines[0].address, public], check=True)
    other = world.sshd(f"HostCertificate {world.tmp}/host-cert.pub")
    text = authority.with_suffix(".pub").read_text()
    world.operator.write_known([f"@cert-authority {other.address},[{other.address}]:* {text}"])
    world.configures(ALL)
    return "in"


def known_by_hash(world: World) -> str:
    known = world.operator.ssh / "known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(known)], check=True, capture_output=True)
    world.configures(A + ALL)
    return "in"


def unknown(world: World) -> str:
    world.operator.write_known([])
    world.configures(A + ALL)
    return "unknown host key"


def changed(world: World) -> str:
    world.operator.write_known([line(world.cluster.machines[0], world.key(known=False))])
    world.configures(A + ALL)
    return "its host key changed"


def revoked(world: World) -> str:
    known = line(world.cluster.machines[0])
    world.operator.write_known([known, f"@revoked {known}"])
    world.configures(A + ALL)
    return "is revoked"


def given_on_the_line(world: World) -> str:
    machine = world.cluster.machines[0]
    world.typed = Host("a", machine.address, user=world.cluster.user, port=machine.port)
    world.configures("Host *\n  User nobody-here\n  Port 9\n" + ALL)
    return "in"


def an_algorithm_of_its_own(world: World) -> str:
    world.sshd("Ciphers chacha20-poly1305@openssh.com")
    world.configures(ALL)
    return "in"


def a_banner(world: World) -> str:
    (world.tmp / "banner").write_text("For members of the lab.\n")
    world.sshd(f"Banner {world.tmp}/banner")
    world.configures(ALL)
    return "in"


def a_banner_before_a_refusal(world: World) -> str:
    (world.tmp / "banner").write_text("For members of the lab.\n")
    world.sshd(f"Banner {world.tmp}/banner", "AllowUsers nobody-else")
    world.configures(ALL)
    return "For members of the lab."


def a_command_of_its_own(world: World) -> str:
    world.sshd("ForceCommand echo 'Please login as the user ubuntu'; exit 142")
    world.configures(ALL)
    return "Please login as the user ubuntu"


def no_shell(world: World) -> str:
    world.sshd("ForceCommand /usr/sbin/nologin")
    world.configures(ALL)
    return "not available"


def few_sessions(world: World) -> str:
    world.sshd("MaxSessions 1", "AllowTcpForwarding no")
    world.configures(ALL)
    return "in"


def of_a_stand_in(expected: str, *wants: str, banner: str = "") -> Callable[[World], str]:
    def made(world: World) -> str:
        server = world.ending.enter_context(sshd(world.tmp, *wants, banner=banner))
        world.operator.write_known([server.known])
        world.typed = Host("a", "127.0.0.1", user="me", port=server.port)
        world.configures(ALL)
        return expected

    return made


def of_dropbear(world: World) -> str:
    """It reads the keys of the account alone, and refuses ours."""
    host, key = world.cluster.machines[0].address, str(world.tmp / "dropbear")
    port = free_port(host)
    make = [str(Path(DROPBEAR or "").parents[1] / "bin/dropbearkey"), "-t", "ed25519", "-f", key]
    shown = subprocess.run(make, check=True, capture_output=True, text=True).stdout
    public = next(one for one in shown.splitlines() if one.startswith("ssh-ed25519"))
    argv = [DROPBEAR or "", "-F", "-r", key, "-p", f"{host}:{port}"]

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((host, port)) == 0

    world.run(argv, listens)
    world.operator.write_known([f"[{host}]:{port} {' '.join(public.split()[:2])}\n"])
    world.typed = Host("a", host, user=world.cluster.user, port=port)
    world.configures(ALL)
    return "none of your keys"


def two_keys(world: World) -> str:
    keys = [world.key(), world.key()]
    world.sshd("AuthenticationMethods publickey,publickey")
    world.configures("".join(f"IdentityFile {key}\n" for key in keys) + ALL)
    return "in"


SITUATIONS: dict[str, Callable[[World], str]] = {
    "a key of the agent, by its encrypted file": in_agent_by_file,
    "a key of the agent, by its public part": in_agent_by_public_part,
    "a key after too many others": in_agent_after_many,
    "a key before many others": in_agent_first,
    "IdentityAgent none": not_of_this_agent,
    "another IdentityAgent": another_agent,
    "a key with a passphrase": a_passphrase,
    "a key of ecdsa": of_kind("ecdsa"),
    "a key of rsa": of_kind("rsa"),
    "a key of rsa in PEM": in_pem,
    "a certificate beside the key": a_certificate,
    "a CertificateFile": a_certificate_file,
    "a certificate of the host": a_certificate_of_the_host,
    "a hashed name": known_by_hash,
    "an unknown host key": unknown,
    "a changed host key": changed,
    "a revoked host key": revoked,
    "user and port on the line": given_on_the_line,
    "an algorithm that paramiko has not": an_algorithm_of_its_own,
    "a banner": a_banner,
    "a banner before a refusal": a_banner_before_a_refusal,
    "a forced command that says why": a_command_of_its_own,
    "nologin": no_shell,
    "two keys": two_keys,
    "one session, no forwards": few_sessions,
    "no key is needed": of_a_stand_in("in", "none"),
    "paramiko as a server": of_a_stand_in("in", "key", banner="Hello\n"),
    "a code after the key": of_a_stand_in("needs a terminal", "key", "code"),
    "a password": of_a_stand_in("none of your keys", "password"),
}
if DROPBEAR:
    SITUATIONS["dropbear"] = of_dropbear


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_situation_ends_as_with_ssh(world: World, situation: str) -> None:
    same(world, SITUATIONS[situation](world))
