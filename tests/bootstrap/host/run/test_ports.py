"""The ports of a run, which have no authentication, on a host with other users."""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from standins.runs.run_documents import run_document

from bootstrap.host.run import end_processes, ports
from railhead.documents.runs.run import RunDocument

NOBODY = 65534
CLONE_NEWNET = 0x40000000
CONNECT = """import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20):
    pass
"""
LISTEN = """import socket, sys
with socket.create_server(("", 0)) as server:
    print(server.getsockname()[1])
    sys.stdin.read()
"""


def test_the_rules_name_each_port() -> None:
    text = ports.rules("railhead_r1", {4002, 4001})
    assert "tcp dport { 4001, 4002 } meta skuid != 0 reject" in text
    assert text.startswith("table inet railhead_r1 {}\ndelete table inet railhead_r1\n")


def connects(address: tuple[str, int], user: int) -> bool:
    """Whether a process of this user reaches the port."""
    argv = ["/usr/bin/python3", "-I", "-c", CONNECT, address[0], str(address[1])]
    return subprocess.run(argv, user=user, cwd="/", capture_output=True).returncode == 0


@pytest.fixture
def own_network() -> Iterator[None]:
    """This thread and its children in a network of their own: other tests end "all" runs."""
    libc = ctypes.CDLL(None, use_errno=True)
    with Path("/proc/thread-self/ns/net").open() as shared:
        assert libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            yield
        finally:
            assert libc.setns(shared.fileno(), CLONE_NEWNET) == 0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("", 0)) as server:
        yield server


@pytest.fixture
def daemon() -> Iterator[tuple[int, int]]:
    """A process that listens, as one of Open MPI does: its pid and its port."""
    argv = ["/usr/bin/python3", "-I", "-u", "-c", LISTEN]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        yield process.pid, int(process.stdout.readline())


@pytest.fixture
def run(listener: socket.socket) -> Iterator[RunDocument]:
    port = listener.getsockname()[1]
    document = run_document(
        run_id="ports-of-tensorflow", tf_cluster={"worker": (f"127.0.0.3:{port}",)}
    )
    yield document
    ports.open_again(document.run_id)


def test_the_ports_of_a_process_are_those_on_which_it_listens(
    listener: socket.socket, daemon: tuple[int, int]
) -> None:
    assert ports.listening(daemon[0]) == {daemon[1]}
    assert listener.getsockname()[1] in ports.listening(os.getpid())


@pytest.mark.root
@pytest.mark.usefixtures("own_network")
def test_other_users_of_the_host_do_not_reach_a_rank_until_the_run_has_ended(
    listener: socket.socket, daemon: tuple[int, int], run: RunDocument
) -> None:
    if not shutil.which("nft", path=ports.PLACES):
        pytest.skip("no nft here")
    port = listener.getsockname()[1]
    assert connects(("127.0.0.1", port), NOBODY), "without rules"
    for pid in (daemon[0], daemon[0], 1):  # each rank of a host, and one of another local host
        ports.close(run, pid)
    for place in (("127.0.0.1", port), ("127.0.0.3", port), ("127.0.0.1", daemon[1])):
        assert not connects(place, NOBODY) and connects(place, 0)
    end_processes.end_run("ports-of")  # another run, with whose id this one begins
    assert not connects(("127.0.0.1", port), NOBODY)
    end_processes.end_run(run.run_id)
    assert connects(("127.0.0.1", port), NOBODY)
