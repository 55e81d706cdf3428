"""What `ssh HOST` can, a session can; what it cannot, a session cannot either, and says why.

Each situation is typed with ssh and opened by us, with the same files and on the same hosts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from draws import drawn
from hosts.kerberos import realm
from hosts.operator import Cluster, Operator, line, named
from hosts.situation import World
from hosts.ssh_servers import NEWER, OWN, SERVERS, Servers
from standins import newer_debian
from standins.forks import forked_fab
from standins.sshd import sshd

from bootstrap.inventory.hosts import Host
from bootstrap.ssh import trust

ALL_SERVERS = (OWN, *SERVERS)
# What other servers refuse, and ssh says so too.
CERTIFICATES = {"a certificate beside the key", "a CertificateFile"}
ONLY_ED25519 = {"a key of ecdsa", "a key of rsa", "a key of rsa in PEM"}
DEVICES = {
    *("the key of a device", "the key of a device after another"),
    *("the key of a device in the agent", "the key of a device that is away"),
}
REFUSED = {
    "dropbear": CERTIFICATES,
    "tinyssh": {*CERTIFICATES, *DEVICES, *ONLY_ED25519, "only certain ciphers"},
}
RELAY = """import os, select, socket, sys
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
while True:
    for one in select.select([0, s], [], [])[0]:
        data = os.read(0, 65536) if one == 0 else s.recv(65536)
        if not data: sys.exit()
        s.sendall(data) if one == 0 else os.write(1, data)
"""


@pytest.fixture(scope="module")
def servers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers of the first host."""
    with ExitStack() as ending:
        yield Servers(cluster.machines[0], tmp_path_factory.mktemp("servers"), ending)


@pytest.fixture
def world(
    operator: Operator,
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared_caches: Path,
) -> Iterator[World]:
    """A user who knows all hosts, whose key they accept."""
    monkeypatch.setenv("RAILHEAD_SSH", "")
    operator.knows(*cluster.machines)
    (tmp_path / "w").mkdir()
    made = World(operator, cluster, tmp_path / "w", monkeypatch, cluster.machines[0])
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


@pytest.mark.parametrize("situation", [*LEADS, *ENDS])
def test_a_configuration_leads_where_ssh_goes(
    world: World, servers: Servers, situation: str
) -> None:
    """Whichever server is there: each row takes another one, and each run too."""
    at = [*LEADS, *ENDS].index(situation) % len(ALL_SERVERS)
    server = drawn([*ALL_SERVERS[at:], *ALL_SERVERS[:at]])
    world.on(server, servers[server])
    text, expected = ENDS.get(situation) or (LEADS[situation], "in")
    known = line(world.first)
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
    world.ends("" if situation in REFUSED.get(server, ()) else expected)


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
    key = encrypted(world)
    alone(world, key)
    return f"next: ssh-add {key}"


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
    public = shutil.copy(world.first.folder / "host_key.pub", world.tmp / "host.pub")
    sign = ["ssh-keygen", "-q", "-s", str(authority), "-I", "h", "-h", "-n"]
    subprocess.run([*sign, world.first.address, public], check=True)
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
    world.operator.write_known([line(world.first, world.key(known=False))])
    world.configures(A + ALL)
    return "its host key changed"


def revoked(world: World) -> str:
    known = line(world.first)
    world.operator.write_known([known, f"@revoked {known}"])
    world.configures(A + ALL)
    return "is revoked"


def given_on_the_line(world: World) -> str:
    machine = world.first
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


def two_keys(world: World) -> str:
    keys = [world.key(), world.key()]
    world.sshd("AuthenticationMethods publickey,publickey")
    world.configures("".join(f"IdentityFile {key}\n" for key in keys) + ALL)
    return "in"


def of_device(world: World) -> tuple[Path, str]:
    """The key of a device, and the setting for the software that stands for one in OpenSSH's own
    tests."""
    (provider,) = world.has_newer_client().glob("usr/lib/openssh/*/misc/sk-dummy/sk-dummy.so")
    world.patch.setenv("SSH_SK_PROVIDER", str(provider))  # for ssh-keygen and ssh-add
    return world.key("ed25519-sk"), f"SecurityKeyProvider {provider}"


def a_device(world: World) -> str:
    alone(world, *of_device(world))
    return "in"


def a_device_after_a_key(world: World) -> str:
    key, provider = of_device(world)
    alone(world, world.key(known=False), f"IdentityFile {key}", provider)
    return "in"


def a_device_of_the_agent(world: World) -> str:
    key, _ = of_device(world)
    world.agent(key)
    key.unlink()
    alone(world, Path(f"{key}.pub"), "IdentitiesOnly yes")
    return "in"


def a_device_that_is_away(world: World) -> str:
    key, _ = of_device(world)
    alone(world, key, f"SecurityKeyProvider {world.tmp}/none")
    return "signing failed for ED25519-SK"


def kerberos(expected: str, on: str, *, ticket: bool = True) -> Callable[[World], str]:
    def made(world: World) -> str:
        machine, user = world.cluster.machines[0], world.cluster.user
        there = realm(world.tmp / "realm", world.ending, user, f"host/{machine.address}")
        for name, value in there.environment.items():
            world.patch.setenv(name, value)
        programs = world.tmp / "programs"
        programs.mkdir()
        (programs / "klist").symlink_to(newer_debian.here() / "bin/klist")
        world.patch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        if ticket:
            there.ticket(user)
        ways = ("GSSAPIAuthentication yes", "GSSAPIStrictAcceptorCheck no")
        world.sshd(*ways, "AuthenticationMethods gssapi-with-mic")
        world.configures(f"GSSAPIAuthentication {on}\n{ALL}")
        return expected

    return made


SITUATIONS: dict[str, Callable[[World], str]] = {
    "a key of the agent, by its encrypted file": in_agent_by_file,
    "a key of the agent, by its public part": in_agent_by_public_part,
    "a key after too many others": in_agent_after_many,
    "a key before many others": in_agent_first,
    "the key of a device": a_device,
    "the key of a device after another": a_device_after_a_key,
    "the key of a device in the agent": a_device_of_the_agent,
    "the key of a device that is away": a_device_that_is_away,
    "Kerberos": kerberos("in", "yes"),
    "Kerberos without a ticket": kerberos("accepts Kerberos alone", "yes", ticket=False),
    "Kerberos that is off": kerberos("GSSAPIAuthentication is off", "no"),
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


# What is about a sshd of OpenSSH with settings of its own, or about another server.
OF_SETTINGS = {
    *("a certificate of the host", "an algorithm that paramiko has not", "a banner"),
    *("a banner before a refusal", "a forced command that says why", "nologin", "two keys"),
    *("one session, no forwards", "no key is needed", "paramiko as a server"),
    *("a code after the key", "a password", "Kerberos", "Kerberos without a ticket"),
    "Kerberos that is off",
}
MANY = "a key after too many others"
ROWS = [
    pytest.param(server, situation, id=f"{server}: {situation}")
    for server in ALL_SERVERS
    for situation in SITUATIONS
    if server in (OWN, NEWER) or situation not in OF_SETTINGS
]


@pytest.mark.parametrize(("server", "situation"), ROWS)
def test_a_situation_ends_as_with_ssh(
    world: World, servers: Servers, server: str, situation: str
) -> None:
    world.on(server, servers[server])
    expected = SITUATIONS[situation](world)
    if situation in REFUSED.get(server, ()):
        expected = ""
    if server != OWN and situation == MANY:
        expected = "in"  # they take more keys, or do not count those that do not sign
    world.ends(expected)


def test_the_key_of_a_host_that_paramiko_cannot_read_is_pinned(world: World) -> None:
    other = world.sshd("Ciphers chacha20-poly1305@openssh.com")
    world.operator.write_known([])
    world.configures(ALL)
    assert "unknown host key" in world.by_us()
    unknown = trust.unknown_keys(named(world.typed))
    assert f"ssh-ed25519 {unknown['a'].key.get_base64()}" == other.public_key
    trust.pin_keys(unknown, lambda _: True)
    assert world.by_us() == "in"


@pytest.mark.parametrize(
    ("situation", "why"),
    [("the key of a device", "is the key of a device"), ("Kerberos", "it accepts Kerberos")],
)
def test_fab_exec_says_why_it_goes_by_ssh(world: World, situation: str, why: str) -> None:
    SITUATIONS[situation](world)
    done = forked_fab(world.tmp, "exec", "--hosts", str(world.typed), "--cmd", "echo in")
    assert done.returncode == 0, done.stdout + done.stderr
    reason = done.stdout.partition(": by your ssh: ")[2].splitlines()[0]
    assert reason.endswith(why) and "] in" in done.stdout
