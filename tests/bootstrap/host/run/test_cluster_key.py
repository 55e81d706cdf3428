"""The cluster's private key during a run: no file has it, and the run's ssh still does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bootstrap.clouds.local import host as local_host
from bootstrap.console.wait import wait_until
from bootstrap.facts.host import FACTS
from bootstrap.inventory.host_programs import archive

HOLDER = """import os, sys
sys.path.insert(0, sys.argv[1])
from host.run import cluster_key
cluster_key.hold()()
print(os.environ.get("RAILHEAD_KEY_AGENT", ""), flush=True)
sys.stdin.read()
if sys.argv[2]:
    os.execv(sys.executable, [sys.executable, "-c", sys.argv[2]])
"""


class Host:
    """A home with the cluster's key."""

    def __init__(self, home: Path) -> None:
        self.home, self.folder = home, home / ".railhead/cluster"
        self.key, self.held = self.folder / "key", self.folder / "held"
        self.program = home / "railhead.pyz"
        self.program.write_bytes(archive())
        self.folder.mkdir(parents=True)
        local_host.make_key(self.key, "railhead:c1")
        self.text, self.public = self.key.read_bytes(), (self.folder / "key.pub").read_text()
        self.variables = {**os.environ, "HOME": str(home)}

    def supervisor(self, *, becomes: str = "") -> subprocess.Popen[str]:
        """A process that holds the key, and prints where the agent is."""
        argv = [sys.executable, "-c", HOLDER, str(self.program), becomes]
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=self.variables)

    def fact(self) -> str | None:
        """The fact that decides whether a bootstrap creates a key."""
        command, parse = FACTS["cluster_key"]
        done = subprocess.run(
            ["sh", "-c", command], env=self.variables, capture_output=True, text=True
        )
        return str(parse(done.stdout)) if parse(done.stdout) else None

    def keys_of(self, socket: str) -> str:
        """The public keys of an agent."""
        argv = ["ssh-add", "-L"]
        variables = {**self.variables, "SSH_AUTH_SOCK": socket}
        return subprocess.run(argv, env=variables, capture_output=True, text=True).stdout

    def is_back(self) -> bool:
        """Whether the key has its file again, and nothing is left of the agent."""
        done = lambda: self.key.exists() and not self.held.exists()  # noqa: E731
        return bool(wait_until(done, seconds=20, every=0.02))


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def running(host: Host) -> Iterator[tuple[subprocess.Popen[str], str]]:
    with host.supervisor() as process:
        assert process.stdout
        yield process, process.stdout.readline().strip()
        process.kill()


def test_the_key_has_no_file_during_a_run_and_the_agent_has_it(
    host: Host, running: tuple[subprocess.Popen[str], str]
) -> None:
    process, socket = running
    assert not host.key.exists() and host.fact() == host.public.strip()
    assert host.keys_of(socket).split()[:2] == host.public.split()[:2]
    copies = [p for p in host.home.rglob("*") if p.is_file() and p.read_bytes() == host.text]
    assert not copies
    pid = int(host.held.read_text().split()[0])
    assert Path(f"/proc/{pid}/comm").read_text() == "railhead-key\n"
    assert Path(f"/proc/{pid}/environ").stat().st_uid == 0, "only root can look into it"
    process.kill()
    assert host.is_back() and host.key.read_bytes() == host.text
    assert host.key.stat().st_mode & 0o777 == 0o600 and not Path(socket).exists()


# Its socket is there for a moment before it listens.
LATE = """#!{python}
import os, socket, sys, time
one = socket.socket(socket.AF_UNIX)
one.bind(sys.argv[3])
time.sleep(0.3)
os.unlink(sys.argv[3])
os.execv({agent!r}, sys.argv)
"""


def test_an_agent_that_listens_late_has_the_key(host: Host) -> None:
    (host.home / "bin").mkdir()
    late = host.home / "bin/ssh-agent"
    late.write_text(LATE.format(python=sys.executable, agent=shutil.which("ssh-agent")))
    late.chmod(0o755)
    host.variables["PATH"] = f"{late.parent}:{os.environ['PATH']}"
    with host.supervisor() as process:
        assert process.stdout
        agent = process.stdout.readline().strip()
        assert host.keys_of(agent).split()[:2] == host.public.split()[:2]
        process.kill()
    assert host.is_back()


def test_an_agent_that_is_killed_is_replaced_at_the_same_place(
    host: Host, running: tuple[subprocess.Popen[str], str]
) -> None:
    """Twice, as by a kernel without memory; the file has the key again only at the end."""
    process, socket = running
    for _ in range(2):
        subprocess.run(["pkill", "-KILL", "-f", f"^ssh-agent -D -a {socket}"], check=True)
        has_key = lambda: host.keys_of(socket).split()[:2] == host.public.split()[:2]  # noqa: E731
        assert wait_until(has_key, seconds=60, every=0.1)
        assert not host.key.exists() and host.fact() == host.public.strip()
    process.kill()
    assert host.is_back() and host.key.read_bytes() == host.text and not Path(socket).exists()


def test_the_key_stays_with_the_program_that_the_supervisor_becomes(host: Host) -> None:
    test = "import os; assert os.path.exists(os.environ['RAILHEAD_KEY_AGENT']); print('became')"
    with host.supervisor(becomes=test) as process:
        assert process.stdout and process.stdin
        socket = process.stdout.readline().strip()
        process.stdin.write("x\n")
        process.stdin.close()
        assert process.wait(30) == 0 and process.stdout.read() == "became\n"
        assert host.is_back() and not Path(socket).exists()


# It has prepared, and takes the key after a line on its input.
PREPARED = """import os, sys
sys.path.insert(0, sys.argv[1])
from host.run import cluster_key
keeper = cluster_key.prepare()
print(keeper.process.pid, flush=True)
sys.stdin.readline()
cluster_key.hold(keeper)()
print(os.environ.get("RAILHEAD_KEY_AGENT", ""), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def prepared(host: Host) -> Iterator[subprocess.Popen[str]]:
    """A supervisor that waits, and its agent has the key."""
    argv, pipe = [sys.executable, "-c", PREPARED, str(host.program)], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True, env=host.variables) as process:
        assert process.stdout
        keeper = int(process.stdout.readline())

        def has_key() -> bool:
            agents = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
            lines = [Path(f"/proc/{pid}/cmdline").read_text().split("\0") for pid in agents]
            return any(host.keys_of(words[3]) for words in lines if words[0] == "ssh-agent")

        assert wait_until(has_key, seconds=20, every=0.02)
        yield process
        process.kill()


def test_a_supervisor_that_waits_leaves_the_file_of_the_key(
    host: Host, prepared: subprocess.Popen[str]
) -> None:
    assert host.key.read_bytes() == host.text and not host.held.exists()
    assert prepared.stdin and prepared.stdout
    prepared.stdin.write("go\n")
    prepared.stdin.flush()
    socket = prepared.stdout.readline().strip()
    assert (
        host.keys_of(socket)
        and not host.key.exists()
        and host.held.read_text().endswith(f"{socket}\n")
    )
    prepared.kill()
    assert host.is_back()


def test_what_another_run_has_taken_meanwhile_is_its_own(
    host: Host, prepared: subprocess.Popen[str]
) -> None:
    with host.supervisor() as other:
        assert other.stdout and prepared.stdin and prepared.stdout
        socket = other.stdout.readline().strip()
        prepared.stdin.write("go\n")
        prepared.stdin.flush()
        assert prepared.stdout.readline().strip() == socket
        prepared.kill()
        prepared.wait()
        assert host.held.read_text().endswith(f"{socket}\n") and host.keys_of(socket)
        other.kill()
    assert host.is_back()


def test_a_second_supervisor_uses_the_agent_of_the_first(
    host: Host, running: tuple[subprocess.Popen[str], str]
) -> None:
    with host.supervisor() as second:
        assert second.stdout and second.stdout.readline().strip() == running[1]
        second.kill()
    assert not host.key.exists() and host.keys_of(running[1])


def test_a_key_that_was_lost_with_its_machine_is_made_again(host: Host) -> None:
    """The fact is empty, so the plan creates a key."""
    host.held.write_text("999999999 /nowhere\n")
    assert host.fact() == host.public.strip()
    host.key.unlink()
    assert host.fact() is None
    host.held.write_text(f"{os.getpid()} /nowhere\n")
    assert host.fact() is None, "another process has that number now"


def test_without_an_ssh_agent_the_key_stays(host: Host, tmp_path: Path) -> None:
    host.variables["PATH"] = str(tmp_path / "nothing")
    with host.supervisor() as process:
        assert process.stdout and process.stdout.readline() == "\n"
        assert host.key.read_bytes() == host.text and not host.held.exists()
        process.kill()
