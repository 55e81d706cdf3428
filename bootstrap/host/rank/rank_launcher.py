"""How the processes of a script find each other, for launchers without TF_CONFIG and MPI."""

from __future__ import annotations

import functools
import os
import sys
import time
import types
from collections.abc import Mapping

from railhead.documents.runs.run import RunDocument
from railhead.keras_patches.patch import after_import

from ..base import sockets  # imported here: after a script has run, our modules cannot be imported

# JAX detects mpirun by this variable, and then reads the others. Open MPI 5 does not set it.
OF_MPIRUN = "OMPI_MCA_orte_hnp_uri"
THREADS = "OMP_NUM_THREADS"
PAUSE = 0.2  # seconds
FOR_EVER = 10 * 365 * 86_400_000  # ms: mpirun ends the ranks if one fails


def variables(run: RunDocument, rank: int) -> dict[str, str]:
    """The variables by which the ranks of a launcher find each other; none if the launcher has
    other means."""
    if run.coordinator is None:
        return {}
    return {"jax": of_jax, "torch": of_torch}[run.launcher](run, rank, run.coordinator)


def of_jax(run: RunDocument, rank: int, coordinator: str) -> dict[str, str]:
    """The variables of JAX, which reads the rank and the number of processes from mpirun and gives
    each process of a host one GPU; and of Keras, which reads nothing from mpirun."""
    return {
        "JAX_COORDINATOR_ADDRESS": coordinator,
        "KERAS_BACKEND": "jax",
        OF_MPIRUN: os.environ.get(OF_MPIRUN, f"0.0;tcp://{coordinator}"),
        "KERAS_DISTRIBUTION_JOB_ADDRESSES": coordinator,
        "KERAS_DISTRIBUTION_NUM_PROCESSES": str(run.size),
        "KERAS_DISTRIBUTION_PROCESS_ID": str(rank),
    }


def of_torch(run: RunDocument, rank: int, coordinator: str) -> dict[str, str]:
    """The variables that torchrun sets, except its files. From the last ones PyTorch Lightning
    knows that its ranks are already started, and the number of its host. The store is in rank 0."""
    address, _, port = coordinator.rpartition(":")
    number = run.host_of(rank)
    host = run.hosts[number]
    interface = {"GLOO_SOCKET_IFNAME": host.interface} if host.interface else {}
    return {
        "MASTER_ADDR": address.strip("[]"),
        "MASTER_PORT": port,
        "RANK": str(rank),
        "WORLD_SIZE": str(run.size),
        "LOCAL_RANK": str(rank - run.first_ranks[number]),
        "LOCAL_WORLD_SIZE": str(host.slots),
        "GROUP_RANK": str(list(run.present).index(number)),
        "GROUP_WORLD_SIZE": str(len(run.present)),
        "ROLE_NAME": "default",
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(run.size),
        "TORCHELASTIC_RUN_ID": run.run_id,
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "KERAS_BACKEND": "torch",
        **interface,
        **threads_of(run, host.slots),
    }


def threads_of(run: RunDocument, slots: int) -> dict[str, str]:
    """With several ranks on a host, each one's share of the cores: otherwise each starts a thread
    for every core. torchrun sets one thread. A value of the host or of --env stays."""
    if slots < 2 or THREADS in os.environ or THREADS in run.env:
        return {}
    return {THREADS: str(max(1, len(os.sched_getaffinity(0)) // slots))}


def without_proxy(run: RunDocument, environment: Mapping[str, str]) -> str:
    """The addresses that gRPC reaches without a proxy, with the hosts of the run added. TensorFlow
    and JAX use gRPC, and it uses grpc_proxy, https_proxy or http_proxy for all other addresses."""
    excepted = environment.get("no_grpc_proxy") or environment.get("no_proxy")
    return ",".join([*([excepted] if excepted else []), *(host.peer_address for host in run.hosts)])


def use_peer_address(run: RunDocument, rank: int) -> None:
    """Make JAX's CPU collectives use the network between the hosts. By default JAX takes the
    address to which this host's name resolves, often 127.0.1.1 on Debian."""
    host = run.hosts[run.host_of(rank)]
    if run.launcher != "jax" or not host.interface:
        return

    def apply(module: types.ModuleType) -> None:
        make = module.xla_client._xla.make_gloo_tcp_collectives
        bound = functools.partial(make, hostname=host.peer_address)
        module.xla_client._xla.make_gloo_tcp_collectives = bound

    if module := sys.modules.get("jax._src.xla_bridge"):  # this process is a fork of the spare
        apply(module)
    else:
        after_import({"jax._src.xla_bridge": apply})


def leave_together(run: RunDocument) -> None:
    """Wait until the scripts of all ranks have ended. By itself, a JAX process waits five minutes
    for the others at its end, and then fails; but rank 0 may evaluate or export for longer. With
    PyTorch, only rank 0 waits: it has the store of the others."""
    jax = sys.modules.get("jax")
    if run.launcher == "jax" and jax is not None and jax.distributed.is_initialized():
        client = sys.modules["jax._src.distributed"].global_state.client
        client.wait_at_barrier("the end of all scripts", timeout_in_ms=FOR_EVER)
    if run.launcher == "torch" and run.coordinator:
        port = int(run.coordinator.rpartition(":")[2])
        while peers_at(port):
            time.sleep(PAUSE)


def peers_at(port: int) -> int:
    """How many connections other processes have to this port, if this process serves it: PyTorch's
    store, which is in rank 0. (torchrun has the store in a separate process, so the others can form
    groups after rank 0 has ended.) A process that has ended, in any way, has no connection."""
    # An IPv4 address is the end of an IPv4-mapped IPv6 address.
    ends = [
        (row[1][-13:], row[2][-13:])
        for row in sockets.rows_of("self")
        if row[3] == sockets.ESTABLISHED
    ]
    local_ends = {local for local, _ in ends}
    served = [remote for local, remote in ends if local.endswith(f":{port:04X}")]
    return len([remote for remote in served if remote not in local_ends])
