"""Keeps the cluster's private key in memory during a run, because ranks, and anyone who reaches
their ports, can read every file of the run's user.

run.cluster_key FOLDER   beside the supervisor or the standby: gives the key to an ssh-agent, after
a byte on its stdin removes its file, and writes it again when its stdin ends, or at SIGTERM. `held`
has its pid and the socket of the agent meanwhile; without such a process, and without the key's
file, `fab bootstrap` makes another key.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

from ..base import programs
from ..base.children import LIBC, end_with_parent, set_name, unmarked

FOLDER = os.path.expanduser("~/.railhead/cluster")
SOCKET = "RAILHEAD_KEY_AGENT"  # IdentityAgent of the run's ssh_config
PROCESS_NAME = b"railhead-key"
START_SECONDS = 10.0
LOOK = 1.0  # seconds between two looks whether the agent still runs
PR_SET_DUMPABLE = 4


class Keeper:
    """The process that holds this host's key, seen from its parent. It ends with the parent, also
    after an exec."""

    def __init__(self) -> None:
        theirs, self.ours = os.pipe()
        os.set_inheritable(self.ours, True)  # for an exec; subprocess closes it in other programs
        argv, pipe = programs.command(programs.CLUSTER_KEY, FOLDER), subprocess.PIPE
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=pipe, env=unmarked(), cwd="/", start_new_session=True
        )
        os.close(theirs)

    def take(self) -> None:
        """Let the process remove the key's file."""
        with contextlib.suppress(BrokenPipeError):  # the process has ended: no ssh-agent
            os.write(self.ours, b"\n")

    def wait(self) -> None:
        """Wait until the agent has the key, for ssh commands that this process starts."""
        assert self.process.stdout
        with self.process.stdout as answer:
            if path := answer.readline().decode().strip():
                os.environ[SOCKET] = path
            else:
                use_agent_of_others()


def prepare() -> Keeper | None:
    """Start the process for the key, if this host has the key's file, which stays until `hold`."""
    is_here = SOCKET not in os.environ and os.path.exists(os.path.join(FOLDER, "key"))
    return Keeper() if is_here else None


def hold(prepared: Keeper | None = None) -> Callable[[], None]:
    """Move the key from its file into memory, if this host has it. Without ssh-agent, the file
    stays. The returned function waits until the agent has the key."""
    keeper = prepared or prepare()
    if keeper is None:
        return use_agent_of_others
    keeper.take()
    return keeper.wait


def use_agent_of_others() -> None:
    """Use an existing agent: of a run that is ending and stops machines, or of this standby
    before."""
    with contextlib.suppress(OSError, IndexError), open(os.path.join(FOLDER, "held")) as file:
        os.environ.setdefault(SOCKET, file.read().split()[1])


def main(folder: str) -> None:
    """Hold the key of this folder."""
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # only root can read this process's memory
    set_name(PROCESS_NAME)
    path, held = os.path.join(folder, "key"), os.path.join(folder, "held")
    with open(path, "rb") as file:
        key = file.read()
    place = f"/tmp/railhead-key-{os.urandom(8).hex()}"  # a socket needs a short path
    os.mkdir(place, 0o700)
    door = os.path.join(place, "agent")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        with contextlib.ExitStack() as agents:
            agent = agents.enter_context(agent_with(key, door))
            if os.read(0, 1) and is_still(path, key):  # its run starts
                with noted(held, door), removed(path, key):
                    os.remove(path)
                    print(door, flush=True)
                    while not select.select([0], [], [], LOOK)[0]:
                        if agent.poll() is not None:  # somebody, or the kernel, has killed it
                            agent = agents.enter_context(agent_with(key, door))
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.remove(door)
        with contextlib.suppress(OSError):
            os.rmdir(place)


@contextlib.contextmanager
def agent_with(key: bytes, path: str) -> Iterator[subprocess.Popen[bytes]]:
    """Within the block, an ssh-agent at this socket has the key. OSError,
    subprocess.SubprocessError: there is none, or it does not take the key."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path)  # of an agent that was killed
    agent = subprocess.Popen(
        ["ssh-agent", "-D", "-a", path],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        preexec_fn=end_with_parent,
    )
    try:
        until = time.monotonic() + START_SECONDS
        while not listens(path) and time.monotonic() < until:
            time.sleep(0.001)
        variables = {**os.environ, "SSH_AUTH_SOCK": path}
        add = ["ssh-add", "-q", "-"]
        subprocess.run(add, input=key, env=variables, timeout=START_SECONDS, check=True)
        yield agent
    finally:
        agent.terminate()


def listens(path: str) -> bool:
    """Whether an agent accepts connections: its socket exists a moment earlier."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        return True
    return False


def is_still(path: str, key: bytes) -> bool:
    """Whether this file still has the key: another run may have taken the key meanwhile."""
    try:
        with open(path, "rb") as file:
            return file.read() == key
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def noted(held: str, door: str) -> Iterator[None]:
    """Within the block, `held` says which process has the key."""
    try:
        with open(held, "w") as note:
            note.write(f"{os.getpid()} {door}\n")
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(held)


@contextlib.contextmanager
def removed(path: str, key: bytes) -> Iterator[None]:
    """Write the key's file again at the end, before the agent ends; unless a file exists, perhaps
    with another key."""
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        partial = f"{path}.part"
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(key)
        with contextlib.suppress(FileExistsError):
            os.link(partial, path)
        os.remove(partial)
