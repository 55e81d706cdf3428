"""`fab train --launcher torch` on two local hosts; a campaign, because its runtime has 4 GB."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from conftest import python_of_row
from e2e import launcher_runs
from standins.runs.run_documents import run_document

from bootstrap.host.rank import rank_launcher
from railhead.documents.runs.run import RunHost

# Of torchrun alone: its files and signals, the restarts that it makes itself, and what is torch's
# own default.
OWN = {"ERROR_FILE", "MAX_RESTARTS", "RESTART_COUNT", "SIGNALS_TO_HANDLE"}
SHOW = """
import json, os
print("FOUND", json.dumps(dict(os.environ)), flush=True)
"""


@pytest.mark.timeout(1800)
def test_two_ranks_of_torch_train_what_one_process_does(
    tmp_path: Path, shared_caches: Path
) -> None:
    source = launcher_runs.TORCH
    launcher_runs.check_launcher(tmp_path, shared_caches, "torch2.10", "torch", source)


@pytest.mark.timeout(1800)
def test_keras_trains_on_torch_on_one_host(tmp_path: Path, shared_caches: Path) -> None:
    launcher_runs.check_keras(tmp_path, shared_caches, "torch2.10", "torch")


def test_a_rank_finds_what_torchrun_sets(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """torch 2.10.0, torch/distributed/elastic/agent/server/local_elastic_agent.py. Lightning 2.6.6
    reads TORCHELASTIC_RUN_ID and GROUP_RANK; without them each host is its first."""
    python = python_of_row(request, "torch2.10")
    (tmp_path / "show.py").write_text(SHOW)
    argv = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone"]
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run(
        [*argv, str(tmp_path / "show.py")], env=clean, capture_output=True, text=True, timeout=300
    )
    lines = [line.partition("FOUND ")[2] for line in done.stdout.splitlines() if "FOUND" in line]
    theirs = {found["RANK"]: found for found in map(json.loads, lines)}
    assert sorted(theirs) == ["0", "1"], done.stderr
    run = run_document(
        launcher="torch", hosts=(RunHost("a", "10.0.0.1", None, 2),), size=2, coordinator="a:1"
    )
    prefixes = ("RANK", "WORLD_", "LOCAL_", "GROUP_", "ROLE_", "MASTER_", "TORCHELASTIC_")
    differs = {"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_USE_AGENT_STORE"}
    for rank, found in theirs.items():
        names = {name for name in found if name.startswith(prefixes)}
        wanted = names - {f"TORCHELASTIC_{name}" for name in OWN}
        ours = rank_launcher.variables(run, int(rank))
        assert wanted <= ours.keys()
        assert {n: ours[n] for n in wanted - differs} == {n: found[n] for n in wanted - differs}
