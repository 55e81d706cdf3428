"""The ports of TensorFlow's servers, which have no authentication, on a host with other users."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest
from standins.runs.run_documents import run_document

from bootstrap.remote.protect import tensorflow_ports
from bootstrap.remote.run import end_processes
from railhead.documents.runs.run import RunDocument

NOBODY = 65534
CONNECT = """import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=20):
    pass
"""


def test_the_rules_name_the_ports_of_all_ranks() -> None:
    text = tensorflow_ports.rules("railhead_r1", ["10.0.0.1:4001", "[fd00::2]:4002"])
    assert "tcp dport { 4001, 4002 } meta skuid != 0 reject" in text
    assert text.startswith("table inet railhead_r1 {}\ndelete table inet railhead_r1\n")


def connects(address: tuple[str, int], user: int) -> bool:
    """Whether a process of this user reaches the port."""
    argv = ["/usr/bin/python3", "-I", "-c", CONNECT, address[0], str(address[1])]
    return subprocess.run(argv, user=user, cwd="/", capture_output=True).returncode == 0


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("", 0)) as server:
        yield server


@pytest.fixture
def run(listener: socket.socket) -> Iterator[RunDocument]:
    port = listener.getsockname()[1]
    document = run_document(
        run_id="ports-of-tensorflow", tf_cluster={"worker": (f"127.0.0.3:{port}",)}
    )
    yield document
    tensorflow_ports.open_again(document.run_id)


@pytest.mark.root
def test_other_users_of_the_host_do_not_reach_a_rank_until_the_run_has_ended(
    listener: socket.socket, run: RunDocument
) -> None:
    if not shutil.which("nft", path=tensorflow_ports.PLACES):
        pytest.skip("no nft here")
    port = listener.getsockname()[1]
    assert connects(("127.0.0.1", port), NOBODY), "without rules"
    for _ in range(2):  # each rank of a host
        tensorflow_ports.close(run)
    for address in ("127.0.0.1", "127.0.0.3"):
        assert not connects((address, port), NOBODY) and connects((address, port), 0)
    end_processes.end_run(run.run_id)
    assert connects(("127.0.0.1", port), NOBODY)
