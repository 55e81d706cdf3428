"""`fab train --launcher jax` on two local hosts: both ranks together train what one process does.

`make campaign-torch SEEDS=0:1` does the same with PyTorch, whose runtime has 3 GB.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
from conftest import python_of_row
from e2e import kept_environments, launcher_runs
from hosts import open_mpi
from standins.runs.run_documents import run_document

from bootstrap.host.rank import rank_launcher
from railhead.documents.runs.run import RunHost


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_ranks_of_jax_train_what_one_process_does(tmp_path: Path, shared_caches: Path) -> None:
    row = kept_environments.JAX
    launcher_runs.check_launcher(tmp_path, shared_caches, row, "jax", launcher_runs.JAX)


JOIN = """
import json, os, sys
os.environ.update(json.loads(sys.argv[1]))
import jax
jax.distributed.initialize()
line = f"joined {jax.process_index()} {jax.process_count()}\\n"  # one write: two ranks print
print(line, end="", flush=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mpi", ["4.1", *open_mpi.WHEELS])
def test_ranks_of_jax_join_each_other_under_each_open_mpi(
    request: pytest.FixtureRequest, mpi: str
) -> None:
    """Open MPI 5 does not set the variable by which JAX knows mpirun. No proxy is between them."""
    python = python_of_row(request, kept_environments.JAX)
    mpirun = "mpirun" if mpi == "4.1" else str(open_mpi.wheel(mpi) / "bin/mpirun")
    with socket.create_server(("127.0.0.1", 0)) as server:
        coordinator = f"127.0.0.1:{server.getsockname()[1]}"
    hosts = (RunHost("h1", "127.0.0.1", None, 2),)
    run = run_document(launcher="jax", hosts=hosts, size=2, coordinator=coordinator)
    variables = rank_launcher.variables(run, 0)
    variables |= {"http_proxy": "http://127.0.0.1:9"}
    variables["no_grpc_proxy"] = rank_launcher.without_proxy(run, variables)
    if mpi == "4.1":
        variables.pop(rank_launcher.OF_MPIRUN)
    argv = [mpirun, "-np", "2", "--oversubscribe", "--bind-to", "none", python, "-c", JOIN]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(
        [*argv, json.dumps(variables)],
        env={**os.environ, **root},
        text=True,
        capture_output=True,
        timeout=300,
    )
    assert sorted(done.stdout.splitlines()) == ["joined 0 2", "joined 1 2"], done.stderr
