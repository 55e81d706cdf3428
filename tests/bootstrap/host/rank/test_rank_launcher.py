"""What the ranks of JAX and PyTorch find in their environment to find each other."""

from __future__ import annotations

import importlib
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from standins.runs.run_documents import run_document

from bootstrap.host.rank import rank_launcher
from railhead.documents.runs.run import RunHost

HOSTS = (RunHost("h1", "10.0.1.1", "ens5", 2), RunHost("h2", "10.0.1.2", None, 2))
IPV6 = (RunHost("h1", "fd00::5", None, 1), RunHost("h2", "fd00::6", None, 1))
JAX = {
    "JAX_COORDINATOR_ADDRESS": "10.0.1.1:23001",
    "KERAS_BACKEND": "jax",
    "KERAS_DISTRIBUTION_JOB_ADDRESSES": "10.0.1.1:23001",
    "KERAS_DISTRIBUTION_NUM_PROCESSES": "4",
    "KERAS_DISTRIBUTION_PROCESS_ID": "3",
    "OMPI_MCA_orte_hnp_uri": "0.0;tcp://10.0.1.1:23001",
}
TORCH = {"MASTER_ADDR": "10.0.1.1", "MASTER_PORT": "23001", "KERAS_BACKEND": "torch"}
# What torchrun of torch 2.10.0 sets beside it; tests/e2e/torch_launcher.py runs it.
TORCH |= {"ROLE_NAME": "default", "TORCHELASTIC_RUN_ID": "r", "GROUP_WORLD_SIZE": "2"}
TORCH |= {"TORCHELASTIC_USE_AGENT_STORE": "False"}  # torch.distributed.rendezvous: rank 0 serves it
SHARED = {"OMP_NUM_THREADS": "4"}  # of two ranks on a host of eight cores
PRESENT = (HOSTS[0], RunHost("h2", "10.0.1.2", None, 0), RunHost("h3", "10.0.1.3", None, 1))
CASES: dict[str, tuple[str, tuple[RunHost, ...], str, int, dict[str, str]]] = {
    "jax": ("jax", HOSTS, "10.0.1.1:23001", 3, JAX),
    "torch on the first host": (
        *("torch", HOSTS, "10.0.1.1:23001", 1),
        TORCH
        | {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        | {"ROLE_RANK": "1", "ROLE_WORLD_SIZE": "4", "GROUP_RANK": "0"}
        | {"GLOO_SOCKET_IFNAME": "ens5"}
        | SHARED,
    ),
    "torch on the second host": (
        *("torch", HOSTS, "10.0.1.1:23001", 2),
        TORCH
        | {"RANK": "2", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
        | {"ROLE_RANK": "2", "ROLE_WORLD_SIZE": "4", "GROUP_RANK": "1"}
        | SHARED,
    ),
    "torch on the third host, an elastic run is without the second": (
        *("torch", PRESENT, "10.0.1.1:23001", 2),
        TORCH
        | {"RANK": "2", "WORLD_SIZE": "3", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        | {"ROLE_RANK": "2", "ROLE_WORLD_SIZE": "3", "GROUP_RANK": "1"},
    ),
    "torch over IPv6": (
        *("torch", IPV6, "[fd00::5]:23001", 1),
        TORCH
        | {"MASTER_ADDR": "fd00::5"}
        | {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
        | {"ROLE_RANK": "1", "ROLE_WORLD_SIZE": "2", "GROUP_RANK": "1"},
    ),
}


def run_of(launcher: str, hosts: tuple[RunHost, ...], coordinator: str | None) -> Any:
    size = sum(host.slots for host in hosts)
    rest: dict[str, Any] = {"hosts": hosts, "size": size, "coordinator": coordinator}
    return run_document(launcher=launcher, run_id="r", elastic=1, **rest)


@pytest.mark.parametrize(
    ("launcher", "hosts", "coordinator", "rank", "variables"), CASES.values(), ids=CASES
)
def test_a_rank_gets_the_variables_of_its_launcher(
    monkeypatch: pytest.MonkeyPatch,
    launcher: str,
    hosts: tuple[RunHost, ...],
    coordinator: str,
    rank: int,
    variables: dict[str, str],
) -> None:
    eight_cores(monkeypatch)
    assert rank_launcher.variables(run_of(launcher, hosts, coordinator), rank) == variables


def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(8))
    monkeypatch.delenv(rank_launcher.THREADS, raising=False)


def test_the_threads_that_the_host_or_the_user_sets_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    eight_cores(monkeypatch)
    run = run_of("torch", HOSTS, "10.0.1.1:23001")
    with_env = replace(run, env={rank_launcher.THREADS: "1"})
    assert rank_launcher.THREADS not in rank_launcher.variables(with_env, 1)
    monkeypatch.setenv(rank_launcher.THREADS, "3")
    assert rank_launcher.THREADS not in rank_launcher.variables(run, 1)


def test_ranks_of_more_slots_than_cores_have_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    eight_cores(monkeypatch)
    run = run_of("torch", (RunHost("h1", "10.0.1.1", None, 9),), "10.0.1.1:23001")
    assert rank_launcher.variables(run, 8)[rank_launcher.THREADS] == "1"


def test_what_mpirun_has_set_for_jax_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Open MPI 4.1 MPI itself reads it."""
    monkeypatch.setenv("OMPI_MCA_orte_hnp_uri", "7.0;tcp://10.0.1.1:9")
    variables = rank_launcher.variables(run_of("jax", HOSTS, "10.0.1.1:23001"), 3)
    assert variables == JAX | {"OMPI_MCA_orte_hnp_uri": "7.0;tcp://10.0.1.1:9"}


@pytest.mark.parametrize(
    ("environment", "before"),
    [
        ({}, ""),
        ({"no_proxy": "a.example,b"}, "a.example,b,"),
        ({"no_proxy": "a", "no_grpc_proxy": "b"}, "b,"),
    ],
)
def test_ranks_reach_each_other_without_a_proxy(environment: dict[str, str], before: str) -> None:
    """gRPC would send what TensorFlow and JAX say to each other to the proxy for downloads."""
    run = run_of("jax", HOSTS, "10.0.1.1:23001")
    assert rank_launcher.without_proxy(run, environment) == f"{before}10.0.1.1,10.0.1.2"


@pytest.mark.parametrize("launcher", ["horovod", "tensorflow"])
def test_a_launcher_without_a_coordinator_sets_none(launcher: str) -> None:
    assert rank_launcher.variables(run_of(launcher, HOSTS, None), 0) == {}


@pytest.mark.parametrize(
    ("launcher", "rank", "address"),
    [("jax", 0, "10.0.1.1"), ("jax", 2, None), ("horovod", 0, None), ("torch", 0, None)],
)
def test_sums_of_jax_on_cpus_use_the_address_for_the_other_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str, rank: int, address: str | None
) -> None:
    """Not the one of the host's name; behind a NAT, without an interface of that address, yes."""
    (tmp_path / "jax/_src").mkdir(parents=True)
    for folder in ("jax", "jax/_src"):
        (tmp_path / folder / "__init__.py").write_text("")
    (tmp_path / "jax/_src/xla_bridge.py").write_text(
        "from types import SimpleNamespace as N\n"
        "xla_client = N(_xla=N(make_gloo_tcp_collectives=lambda hostname=None: hostname))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    for name in ("jax", "jax._src", "jax._src.xla_bridge"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    rank_launcher.use_peer_address(run_of(launcher, HOSTS, None), rank)
    bridge = importlib.import_module("jax._src.xla_bridge")
    assert bridge.xla_client._xla.make_gloo_tcp_collectives() == address
    for name in ("jax", "jax._src", "jax._src.xla_bridge"):
        del sys.modules[name]


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("launcher", ["jax", "torch"])
def test_a_rank_of_jax_leaves_when_the_scripts_of_all_ranks_have_ended(
    monkeypatch: pytest.MonkeyPatch, launcher: str, joined: bool
) -> None:
    """Without that JAX ends the rank that still evaluates: with 134, after five minutes."""
    waits: list[int] = []

    def wait_at_barrier(name: str, timeout_in_ms: int) -> None:
        waits.append(timeout_in_ms)

    state = SimpleNamespace(client=SimpleNamespace(wait_at_barrier=wait_at_barrier))
    jax = SimpleNamespace(distributed=SimpleNamespace(is_initialized=lambda: joined))
    monkeypatch.setitem(sys.modules, "jax", jax)
    internal = SimpleNamespace(global_state=state)
    monkeypatch.setitem(sys.modules, "jax._src.distributed", internal)
    run = run_document(launcher=launcher, coordinator="127.0.0.1:1")
    rank_launcher.leave_together(run)
    assert len(waits) == (launcher == "jax" and joined)
    assert all(ms > 365 * 86_400_000 for ms in waits)


# A process that keeps its connection to the store until its standard input ends.
PEER = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))):
    sys.stdin.read()
"""


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_rank_0_of_pytorch_keeps_its_store_until_all_others_have_ended(
    monkeypatch: pytest.MonkeyPatch, family: socket.AddressFamily
) -> None:
    """torch 2.10: without its store the others could form no groups. Its own connections, and those
    of others among themselves, are none of theirs."""
    address = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::"}[family]
    with socket.create_server((address, 0), family=family, dualstack_ipv6=address == "::") as store:
        port = store.getsockname()[1]
        self_connection = socket.create_connection(("127.0.0.1", port))
        server_side = [store.accept()[0]]
        assert rank_launcher.peers_at(port) == 0
        argv = [sys.executable, "-c", PEER, str(port)]
        peers = []
        for _ in range(2):
            peers.append(subprocess.Popen(argv, stdin=subprocess.PIPE))
            server_side.append(store.accept()[0])
        assert rank_launcher.peers_at(port) == 2
        assert rank_launcher.peers_at(port - 1) == 0
        seen: list[int] = []

        def end_one(seconds: float) -> None:
            seen.append(rank_launcher.peers_at(port))
            peer = peers.pop()
            peer.kill() if peers else peer.communicate()
            peer.wait()
            assert server_side[len(peers) + 1].recv(1) == b""

        monkeypatch.setattr("time.sleep", end_one)
        rank_launcher.leave_together(run_of("torch", HOSTS, f"127.0.0.1:{port}"))
        assert seen == [2, 1]
        for connection in (self_connection, *server_side):
            connection.close()
