"""The agent: its start, its answers, its ports."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from standins.agent_process import Agent, Failed, unpacked

from bootstrap.host.agent import network
from railhead.documents.agent.network import SMALL_ONLY


def test_it_reports_hello_and_ends_with_its_channel(home: Path) -> None:
    agent = Agent(home)
    assert agent.hello["agent"] == 1
    assert agent.process.communicate()[0] == b""
    assert agent.process.returncode == 0


def test_it_ends_with_0_also_while_it_sends(home: Path) -> None:
    codes = set()
    for number in range(12):
        agent = Agent(home / str(number), alive=0.0)
        assert agent.process.stdout
        assert {agent.process.stdout.readline() for _ in range(50)} == {b"\n"}
        agent.process.communicate()
        codes.add(agent.process.returncode)
    assert codes == {0}


def test_while_it_waits_it_sends_empty_lines_and_no_others(home: Path) -> None:
    """So sshd notices that the network broke. An operation's silence stays silence."""
    agent = Agent(home, alive=0.01)
    assert agent.process.stdout
    three = [b"\n"] * 3
    assert [agent.process.stdout.readline() for _ in three] == three, "for a request"
    agent.send(b'{"op": "tree", "manifest": [], "blobs": "~/blobs", "dest": "~/tree"}\n')
    assert agent.line() == {"event": {"need": []}}
    assert [agent.process.stdout.readline() for _ in three] == three, "for the contents"
    agent.send(b"0\n")
    assert agent.line() == {"ok": {"sent": 0, "changed": []}}
    agent.send(b'{"op": "run", "argv": ["sh", "-c", "echo begun; sleep 0.5"]}\n')
    assert agent.line() == {"event": {"line": "begun"}}
    silent = iter(agent.process.stdout.readline, b'{"ok": {"rc": 0, "tail": ["begun"]}}\n')
    assert len(list(silent)) <= 1
    agent.process.communicate()
    assert agent.process.returncode == 0


def test_a_failure_is_an_answer_and_the_next_request_works(agent: Agent) -> None:
    with pytest.raises(Failed, match="ENOENT"):
        agent.call("run", argv=["~/not-there"])
    with pytest.raises(Failed, match="KeyError"):
        agent.call("not-an-op")
    assert agent.call("read", path="~/none")[0] == {"text": None}


def test_a_host_that_was_prepared_keeps_the_programs(home: Path) -> None:
    """Of two controllers. A damaged archive is sent again; all but the newest are removed."""
    assert Agent(home).was_sent and not (home / ".railhead").exists()
    kept = home / ".railhead/programs"
    kept.mkdir(parents=True)
    for number in range(3):
        (kept / f"{number}.pyz").write_text("")
        os.utime(kept / f"{number}.pyz", (number, number))
    assert [Agent(home).was_sent for _ in range(2)] == [True, False]
    newest = max(kept.iterdir(), key=lambda path: path.stat().st_mtime)
    assert {path.name for path in kept.iterdir()} == {"1.pyz", "2.pyz", newest.name}
    whole = newest.read_bytes()
    newest.write_bytes(whole[:-1] + b"x")
    assert [Agent(home).was_sent for _ in range(2)] == [True, False]
    assert newest.read_bytes() == whole
    assert Agent(home, alive=9.0).was_sent, "another version"
    assert not Agent(home).was_sent


@pytest.mark.parametrize("version", ["3.10", "3.12", "3.13"])
def test_any_python_of_a_host_will_do(home: Path, version: str) -> None:
    name = f"python{version}"
    if not shutil.which(name):
        pytest.skip(f"no {name} here")
    done = subprocess.run([name, "-c", "import sys; print(sys.executable)"], capture_output=True)
    if done.returncode:  # a version manager's stand-in for one that is not chosen
        pytest.skip(f"{name} does not start here")
    agent = Agent(home, done.stdout.decode().strip())
    assert agent.hello["python"].startswith(version)
    agent.call("write", files=[{"path": "~/run/.a", "mode": 0o600, "text": "x"}])
    assert unpacked(agent.call("get", root="~", patterns=["run/*"], limit=9)[1]) == {"run/.a": "x"}
    assert agent.call("run", argv=["echo", "a"])[0] == {"rc": 0, "tail": ["a"]}
    agent.process.communicate()


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_peers_are_called_and_report_who_answers(agent: Agent, address: str) -> None:
    try:
        port = agent.call("listen", address=address)[0]["port"]
    except Failed:
        pytest.skip(f"{address} is not an address of this machine")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with contextlib.closing(socket.socket(family)) as stranger, socket.socket(family) as closed:
        stranger.bind((address, 0))
        stranger.listen()
        closed.bind((address, 0))
        numbers = [port, stranger.getsockname()[1], closed.getsockname()[1]]
        peers = [[address, number] for number in numbers]
        wrong = agent.call("dial", peers=peers, timeout=0.5)[0]["wrong"]
    assert wrong[0] is None
    assert "timed out" in wrong[1]
    assert "refused" in wrong[2]


def test_a_peer_whose_large_packets_are_lost_is_reported(agent: Agent) -> None:
    """Its host has a larger MTU than the network: the login works, and a run would hang."""
    with socket.create_server(("127.0.0.1", 0)) as lossy:

        def answer() -> None:
            connection, _ = lossy.accept()
            with connection:
                connection.sendall(network.HELLO)
                connection.recv(1)  # until the caller gives up

        thread = threading.Thread(target=answer)
        thread.start()
        whole = agent.call("listen", address="127.0.0.1")[0]["port"]
        peers = [["127.0.0.1", lossy.getsockname()[1]], ["127.0.0.1", whole]]
        assert agent.call("dial", peers=peers, timeout=0.5)[0]["wrong"] == [SMALL_ONLY, None]
        thread.join()


def test_ports_are_free_and_different(agent: Agent) -> None:
    numbers = agent.call("ports", count=50)[0]["ports"]
    assert len(set(numbers)) == 50
    outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert outgoing < 30_000 or max(numbers) < outgoing, "an outgoing connection could take one"


@pytest.mark.parametrize("lowest", [1024, network.LOWEST, network.LOWEST + 1, 32768])
def test_ports_are_below_those_of_outgoing_connections_where_there_are_any(
    lowest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some hosts give almost all ports to outgoing connections."""
    (tmp_path / "range").write_text(f"{lowest}\t60999\n")
    monkeypatch.setattr(network, "OUTGOING", str(tmp_path / "range"))
    numbers = network._random_ports()
    assert bool(numbers) == (lowest > network.LOWEST)
    assert all(network.LOWEST <= number < lowest for number in numbers)


def test_the_first_free_port_of_a_range_is_found_also_of_a_single_one(agent: Agent) -> None:
    with socket.create_server(("127.0.0.1", 0)) as used, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        in_use, port = used.getsockname()[1], free.getsockname()[1]
        free.close()
        ranges = {(in_use, in_use): None, (port, port): port}
        for (first, last), expected in ranges.items():
            assert agent.call("free_port", first=first, last=last)[0] == {"port": expected}
        higher = agent.call("free_port", first=in_use, last=in_use + 20)[0]["port"]
        assert in_use < higher <= in_use + 20
