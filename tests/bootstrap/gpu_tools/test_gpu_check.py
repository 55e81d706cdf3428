"""`make gpu-check`: what it makes of what ranks and NCCL say. The ranks are not GPUs' here."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draws import drawn
from places import ROOT
from standins.waiting import wait_until

from bootstrap.facts.gpu import Card, Driver
from bootstrap.facts.host import HostFacts
from bootstrap.gpu_tools import check, tested_on, trainings
from bootstrap.gpu_tools.tested_on import Check
from bootstrap.inventory import caches
from bootstrap.plan.runtimes import Environment
from bootstrap.provision import local_wheel

PROBE = ROOT / "bootstrap/host/probes/gpu_probe.py"
V100 = "Tesla V100-SXM2-16GB"
# The shape of NCCL's own lines as its source has it; no NCCL of ours ever wrote one.
JOINED = "h1:{n}:{n} [{n}] NCCL INFO ncclCommInitRank comm 0x7f rank {n} nranks 2 cudaDev {n} "
JOINED += "nvmlDev {n} busId 1e0 commId 0x1 - Init COMPLETE"
SUM = "h1:0:9 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 64 datatype 7"
NCCL = [JOINED.format(n=0), JOINED.format(n=1), SUM]


def line(name: str, passed: bool = True, figure: str = "fine") -> str:
    output = json.dumps({"name": name, "passed": passed, "figure": figure})
    return f"@check {output}"


EVERY = [line(name) for name in check.PROBED]


@pytest.fixture
def v100s(debian: HostFacts) -> HostFacts:
    """A host with two V100 and the driver that serves them."""
    cards = tuple(Card(f"0000:00:1{n}.0", "10de:1db1", V100, "volta") for n in range(2))
    driver = Driver("580.95.05", 580, "proprietary")
    gpu = replace(debian.gpu, cards=cards, driver=driver)
    return replace(debian, gpus=(V100, V100), gpu=gpu)


def says(folder: Path, patch: pytest.MonkeyPatch, *lines: str, code: int = 0) -> None:
    """An mpirun that prints these lines for the probe, and runs a training once."""
    text = "\n".join(lines)
    training = 'case "$*" in *"-m training"*) shift 5; exec "$@" ;; esac'
    script = f"#!/bin/sh\n{training}\ncat <<'END'\n{text}\nEND\nexit {code}\n"
    (folder / "mpirun").write_text(script)
    (folder / "mpirun").chmod(0o755)
    patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_all_that_ranks_and_nccl_report_is_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(tmp_path, monkeypatch, *NCCL, *EVERY)
    result = check.probe(Path(sys.executable), 2, "gpu")
    assert [done.name for done in result] == [*check.PROBED, "NCCL"]
    assert all(done.passed for done in result)
    assert result[-1].figure == "2 of 2 ranks joined, 1 sums by NCCL"


@pytest.mark.parametrize(
    ("lines", "figure"),
    [
        ([JOINED.format(n=0), SUM], "1 of 2 ranks joined, 1 sums by NCCL"),
        (NCCL[:2], "2 of 2 ranks joined, 0 sums by NCCL"),
        ([], "0 of 2 ranks joined, 0 sums by NCCL"),
    ],
)
def test_sums_that_nccl_did_not_do_are_a_failure(lines: list[str], figure: str) -> None:
    assert check.nccl("\n".join(lines), 2) == Check("NCCL", False, figure)


def test_one_gpu_claims_no_link_between_gpus() -> None:
    joined = JOINED.format(n=0).replace("nranks 2", "nranks 1")
    done = check.nccl(f"{joined}\n{SUM}", 1)
    assert done.passed
    assert "no link between GPUs was tried" in done.figure


@pytest.mark.parametrize("first", [True, False])
def test_one_rank_that_fails_is_a_failure(
    first: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = [line("matmul", True), line("matmul", False, "the product is wrong")]
    lines = [EVERY[0], *(both if first else both[::-1]), "mpirun: process rank 1 ended"]
    says(tmp_path, monkeypatch, *lines, code=1)
    result = {done.name: done for done in check.probe(Path(sys.executable), 2, "gpu")}
    assert result["TensorFlow"].passed
    assert result["matmul"] == Check("matmul", False, "the product is wrong")
    assert result["all-reduce"].figure.startswith("not reached: ")
    assert "process rank 1 ended" in result["all-reduce"].figure
    assert result["training step"] == Check("training step", False, "not reached")


def test_ranks_that_never_end_are_terminated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(tmp_path, monkeypatch)
    (tmp_path / "mpirun").write_text(f"#!/bin/sh\necho '{EVERY[0]}'\nexec sleep 60\n")
    monkeypatch.setattr(check, "MINUTES", 0.02)
    result = check.probe(Path(sys.executable), 2, "gpu")
    assert [done.passed for done in result] == [True, *[False] * len(check.PROBED)]


def test_ctrl_c_leaves_no_program(tmp_path: Path) -> None:
    """The terminal sends it to the group of the command."""
    pid = tmp_path / "pid"
    program = ["sh", "-c", f"echo $$ >{pid}.part; mv {pid}.part {pid}; exec sleep 4013"]
    code = f"from bootstrap.gpu_tools import check; check.listen({program}, {{}})"
    command = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, start_new_session=True)
    wait_until(pid.exists)
    os.killpg(command.pid, signal.SIGINT)
    command.wait(60)
    wait_until(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), 30)


def test_the_driver_is_held_against_its_row(v100s: HostFacts) -> None:
    good = check.driver(v100s)
    assert good == Check("driver", True, "580.95.05 (proprietary) works; row 580 proprietary")
    newer = replace(v100s.gpu, driver=Driver("595.10", 595, "open"))
    bad = check.driver(replace(v100s, gpu=newer))
    assert not bad.passed
    assert bad.figure.startswith("driver 595.10 (open) does not support V100; row 580")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose files may be written."""
    root = tmp_path / "clone"
    root.mkdir()
    shutil.copy(tested_on.REPO / "README.md", root)
    for name in ("save", "write_row"):
        where = tested_on.Machine if name == "save" else tested_on
        monkeypatch.setattr(getattr(where, name), "__defaults__", (root,))
    monkeypatch.setattr(tested_on, "REPO", root)
    return root


# In place of the runtime's Python: the versions, or a training on two GPUs that learns.
RUNTIME = """#!/bin/sh
if [ "$1" = -c ]; then echo '{"tensorflow": "2.18.1"}'; exit; fi
[ "$2" = training ] && [ "$3 $4" = "--preset digits" ] || exit 9
case $6 in multiworker) processes=2 gpus=1 ;; *) processes=1 gpus=2 ;; esac
echo '{"accuracy": 0.95, "samples": 360, "threshold": 0.9, "passed": true}' > "$8/evaluation.json"
echo "digits: 2 replica(s) in $processes process(es), 4 CPU thread(s) and $gpus GPU(s) each; 1"
"""


def check_on(facts: HostFacts) -> int:
    """`make gpu-check` on a machine with these facts and a runtime that is there."""
    folder = caches.cache("gpu-check") / local_wheel.environment_here(facts, gpu=True).digest
    python = folder / "bin/python"
    python.parent.mkdir(parents=True)
    (folder / ".ok").touch()
    python.write_text(RUNTIME)
    python.chmod(0o755)
    return check.main(facts)


def test_a_machine_without_a_gpu_reports_so(
    debian: HostFacts, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    assert check_on(debian) == 2
    assert capsys.readouterr().err == (
        "gpu-check: there is no NVIDIA GPU in this machine: nothing was checked\n"
    )
    assert not (root / "tested-on").exists()


@pytest.mark.parametrize("output", [[*NCCL, *EVERY], EVERY])
def test_the_results_are_written_also_into_readme(
    output: list[str], v100s: HostFacts, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says(tmp_path, monkeypatch, *output)
    assert check_on(v100s) == (0 if output != EVERY else 1)
    result = tested_on.read(root / "tested-on/tesla-v100-sxm2-16gb.json")
    assert (result.gpu, result.count, result.driver) == (V100, 2, "580.95.05 (proprietary)")
    assert result.versions == {"tensorflow": "2.18.1"}
    assert result.failed == (() if output != EVERY else ("NCCL",))
    assert tested_on.row([result]) in (root / "README.md").read_text()
    figures = {done.name: done.figure for done in result.checks}
    assert figures["training with multiworker"].endswith("2 GPUs in 2 process(es)")


def test_a_card_whose_driver_does_not_work_is_written_as_failed(
    v100s: HostFacts, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = replace(v100s.gpu, driver=None, smi="NVIDIA-SMI has failed")
    assert check_on(replace(v100s, gpus=(), gpu=broken)) == 1
    result = tested_on.read(root / "tested-on/tesla-v100-sxm2-16gb.json")
    assert (result.driver, result.count, result.versions) == ("none", 2, {})
    assert len(result.failed) == len(result.checks) == len([*check.PROBED, *check.TRAINED]) + 2


def test_a_complete_runtime_is_not_installed_again(
    debian: HostFacts, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment = local_wheel.environment_here(debian, gpu=True)
    done: list[str] = []

    def make(*_: object) -> Path:
        done.append("wheel")
        return tmp_path / "wheel"

    def install(folder: Path, *_: object) -> None:
        done.append("runtime")
        folder.mkdir()

    monkeypatch.setattr(local_wheel, "make", make)
    monkeypatch.setattr(local_wheel, "install", install)
    monkeypatch.setattr(local_wheel, "install_wheel", lambda *_: done.append("horovod"))
    folder = check.ready(debian, environment)
    assert done == ["wheel", "runtime", "horovod"]
    assert check.ready(debian, environment) == folder
    assert len(done) == 3
    assert isinstance(environment, Environment)


@pytest.mark.slow
def test_the_ranks_program_does_every_check(runtime_python: str) -> None:
    """On two CPU ranks: all that GPUs do is in it, but the GPUs."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    args = ["mpirun", "-np", "2", "--oversubscribe", "--bind-to", "none", runtime_python]
    process = subprocess.run(
        [*args, str(PROBE), "cpu"], env={**os.environ, **root}, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stderr
    lines = [
        json.loads(x.removeprefix("@check ")) for x in process.stdout.splitlines() if "@check" in x
    ]
    assert [each["name"] for each in lines] == list(check.PROBED)
    assert all(each["passed"] for each in lines), lines


@pytest.mark.slow
def test_the_built_in_training_is_run_as_it_is(runtime_python: str, tmp_path: Path) -> None:
    """On the CPU: all that a machine with GPUs does, but the GPUs. With one of the strategies;
    tests/training and tests/e2e train with all of them."""
    result = trainings.train(Path(runtime_python), drawn(trainings.STRATEGIES), 0, tmp_path)
    assert result.passed, result.figure
    assert re.fullmatch(r"accuracy 0.9\d\d on 360 held-out samples; 0 GPUs in .*", result.figure)
    kinds = [json.loads(x)["kind"] for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert kinds.count("epoch") == 10


LINE = "digits with x: {} replica(s) in {} process(es), 4 CPU thread(s) and {} GPU(s) each; 1"
REACHED = {"accuracy": 0.95, "samples": 360, "threshold": 0.9, "passed": True}


@pytest.mark.parametrize(
    ("line", "gpus", "passed", "expected"),
    [
        (LINE.format(2, 2, 1), 2, True, "accuracy 0.950 on 360 held-out samples; 2 GPUs in 2 pro"),
        (LINE.format(8, 2, 4), 8, True, "8 GPUs in 2 process(es)"),
        (LINE.format(2, 2, 0), 2, True, "2 replicas on 0 GPUs, expected 2 GPUs"),
        (LINE.format(1, 1, 1), 2, True, "1 replicas on 1 GPUs, expected 2 GPUs"),
        ("nothing", 2, True, "no line says what was used: nothing"),
        (LINE.format(2, 1, 2), 2, False, "held-out samples, below 0.9"),
    ],
)
def test_a_training_must_use_all_gpus_and_learn(
    line: str, gpus: int, passed: bool, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "evaluation.json").write_text(json.dumps({**REACHED, "passed": passed}))
    try:
        result = trainings.figure(line, gpus, tmp_path)
    except RuntimeError as error:
        result = str(error)
    assert expected in result


def test_workers_share_the_gpus() -> None:
    result = trainings.processes(Path("python"), "multiworker", 3, Path("results"))
    devices = [process.variables["CUDA_VISIBLE_DEVICES"] for process in result]
    assert devices == ["0,2", "1"]
    cluster = json.loads(result[1].variables["TF_CONFIG"])
    assert cluster["task"]["index"] == 1 and len(set(cluster["cluster"]["worker"])) == 2
    (process,) = trainings.processes(Path("python"), "horovod", 4, Path("results"))
    assert process.argv[:3] == ["mpirun", "-np", "4"]


def test_a_training_that_fails_is_a_failed_check(tmp_path: Path) -> None:
    (tmp_path / "python").write_text("#!/bin/sh\necho out of memory; exit 9\n")
    (tmp_path / "python").chmod(0o755)
    result = trainings.train(tmp_path / "python", "mirrored", 1, tmp_path)
    assert result == Check("training with mirrored", False, "exit code 9: out of memory")
