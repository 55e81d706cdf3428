"""The addresses on which TensorFlow's servers in a rank listen."""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys

import pytest
from standins.runs.run_documents import run_document

from bootstrap.host.rank import listen_address
from bootstrap.host.rank.listen_address import changed
from bootstrap.plan.runtimes import REPO
from railhead.documents.runs.run import Role

OURS = socket.inet_aton("10.0.0.2")
ALL_4 = struct.pack("H", socket.AF_INET) + struct.pack("!H", 4000) + bytes(12)
ALL_6 = struct.pack("H", socket.AF_INET6) + struct.pack("!H", 4000) + bytes(24)
MAPPED = bytes(10) + b"\xff\xff"
# A server of a cluster, in a rank at 127.0.0.2; another one that the program itself starts. Prints
# the addresses of this process's listeners, by port.
PROGRAM = """
import json, os, sys
ports = [int(port) for port in sys.argv[2:]]
from bootstrap.host.rank import listen_address
from railhead.documents.runs.run import Role
class Run:
    tf_cluster, roles = {"worker": (f"{sys.argv[1]}:{ports[0]}",)}, (Role("worker", 0),)
listen_address.install(Run, 0)
import tensorflow as tf
servers = [tf.distribute.Server({"worker": [f"127.0.0.2:{port}"]}) for port in ports]
with tf.compat.v1.Session(servers[0].target):
    pass  # it answers
found = {}
for name in ("tcp", "tcp6"):
    for line in open(f"/proc/self/net/{name}").readlines()[1:]:
        address, port = line.split()[1].split(":")
        if line.split()[3] == "0A" and int(port, 16) in ports:
            found[int(port, 16)] = address
print("found", json.dumps([found[port] for port in ports]))
"""


@pytest.mark.parametrize(
    "sockaddr, becomes",
    [
        (ALL_4, ALL_4[:4] + OURS + ALL_4[8:]),
        (ALL_6, ALL_6[:8] + MAPPED + OURS + ALL_6[24:]),
        (ALL_6[:8] + MAPPED + bytes(4) + ALL_6[24:], ALL_6[:8] + MAPPED + OURS + ALL_6[24:]),
        (ALL_4[:4] + b"\x7f\0\0\1" + ALL_4[8:],) * 2,
        (ALL_4[:2] + b"\0\1" + ALL_4[4:],) * 2,
        (struct.pack("H", socket.AF_UNIX) + b"/tmp/x\0",) * 2,
        (b"\1",) * 2,
    ],
)
def test_only_all_addresses_of_the_port_are_changed(sockaddr: bytes, becomes: bytes) -> None:
    assert changed(sockaddr, OURS, 4000) == becomes


def test_an_address_of_ipv6_is_for_sockets_of_ipv6_only() -> None:
    ours = socket.inet_pton(socket.AF_INET6, "fd00::2")
    assert changed(ALL_6, ours, 4000) == ALL_6[:8] + ours + ALL_6[24:]
    assert changed(ALL_4, ours, 4000) == ALL_4


def listeners(python: str, address: str) -> list[str]:
    with (
        socket.create_server(("127.0.0.2", 0)) as ours,
        socket.create_server(("127.0.0.2", 0)) as other,
    ):
        ports = [str(server.getsockname()[1]) for server in (ours, other)]
    variables = {**os.environ, "PYTHONPATH": str(REPO), "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(
        [python, "-c", PROGRAM, address, *ports],
        env=variables, cwd="/", capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("found ")]
    assert lines, done.stderr[-2000:]
    addresses: list[str] = json.loads(lines[0].removeprefix("found "))
    return addresses


@pytest.mark.slow
@pytest.mark.parametrize("fixture", ["runtime_python", "newest_python"])
def test_a_server_listens_on_the_address_of_its_rank_only(
    request: pytest.FixtureRequest, fixture: str
) -> None:
    python = request.getfixturevalue(fixture)
    all_addresses, ours = "0" * 32, "0000000000000000FFFF0000" + "0200007F"
    assert listeners(python, "127.0.0.2") == [ours, all_addresses]


@pytest.mark.parametrize(("address", "changes"), [("127.0.0.2", 1), ("192.0.2.77", 0), ("h2", 0)])
def test_a_host_without_the_address_listens_as_before(
    monkeypatch: pytest.MonkeyPatch, address: str, changes: int
) -> None:
    """As behind a NAT."""
    monkeypatch.setattr(sys, "meta_path", [])
    cluster = {"worker": (f"{address}:4000",)}
    listen_address.install(run_document(tf_cluster=cluster, roles=(Role("worker", 0),)), 0)
    assert len(sys.meta_path) == changes
