"""Strategy `auto`: what it chooses, and why."""

from __future__ import annotations

import json

import pytest

from training.strategies.auto import choose


def tf_config(**roles: int) -> dict[str, str]:
    cluster = {name: [f"h{index}:1" for index in range(count)] for name, count in roles.items()}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}})}


MPI = {"OMPI_COMM_WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "gpus", "name", "reason"),
    [
        ({}, 0, "one-device", "one process has no GPU"),
        ({}, 1, "one-device", "one process has one GPU"),
        ({}, 4, "mirrored", "one process has 4 GPUs"),
        (MPI, 4, "horovod", "mpirun started 4 processes"),
        ({"OMPI_COMM_WORLD_SIZE": "1"}, 2, "mirrored", "one process has 2 GPUs"),
        (tf_config(worker=2), 4, "multiworker", "TF_CONFIG names 2 workers"),
        ({**MPI, **tf_config(worker=2)}, 0, "multiworker", "TF_CONFIG names 2 workers"),
        (tf_config(worker=1), 0, "one-device", "one process has no GPU"),
        (
            tf_config(chief=1, worker=1),
            4,
            "multiworker",
            "names 2 workers, the chief is one of them",
        ),
        (tf_config(chief=1, worker=0), 2, "mirrored", "one process has 2 GPUs"),
        (tf_config(chief=1, worker=1, ps=1), 0, "parameter-server", "names parameter servers"),
        ({"TF_CONFIG": "no json"}, 0, "one-device", "one process has no GPU"),
    ],
)
def test_auto_takes_what_fits(environ: dict[str, str], gpus: int, name: str, reason: str) -> None:
    strategy, why = choose(environ, gpus)
    assert strategy == name and reason in why
