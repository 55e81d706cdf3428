"""`make gpu-wheel` around the build: what it fetches, what it keeps, and what it refuses."""

from __future__ import annotations

import json
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bootstrap.errors import RailheadError, UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.gpu_tools import wheel as gpu_wheel
from bootstrap.inventory import local_state
from bootstrap.plan.runtimes import RUNTIMES, Environment
from bootstrap.provision.wheel_store import folder_of_built_here

from .test_fatbin import entry, fatbin

GPU = RUNTIMES["tf2.18-gpu"]
NAME = "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
ALL = fatbin(entry(2, 70), entry(2, 75), entry(2, 80), entry(1, 80))


def wheel(folder: Path, library: bytes = ALL) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / NAME, "w") as files:
        files.writestr("horovod/tensorflow/mpi_lib.cpython-311-x86_64-linux-gnu.so", library)
    return folder / NAME


class Made:
    """Stands for what takes minutes: which of it was done."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.library = ALL
        for name in ("install", "build", "attempt"):
            patch.setattr(gpu_wheel, name, getattr(self, name))

    def install(self, folder: Path, python: str, lock: Path) -> None:
        self.done.append("install")
        assert "nvidia-cublas" not in lock.read_text()

    def build(self, folder: Path, environment: Environment) -> Path:
        self.done.append("build")
        return wheel(folder / "out", self.library)

    def attempt(self, folder: Path, wheel: Path, environment: Environment) -> str:
        self.done.append("attempt")
        return "built with mpi, gloo, nccl; 2 ranks summed over MPI"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


def test_the_wheel_is_for_gpus_on_a_python_of_this_machine(debian: HostFacts) -> None:
    environment = gpu_wheel.environment_for(debian)
    assert (environment.runtime, environment.python) == (GPU, "3.11")
    with pytest.raises(UsageError, match="this machine is aarch64"):
        gpu_wheel.environment_for(replace(debian, arch="aarch64"))


def test_this_machines_facts_are_read_as_a_hosts_are() -> None:
    assert gpu_wheel.facts_here().cores > 0


def test_it_is_stored_where_bootstrap_looks_and_built_once(made: Made, debian: HostFacts) -> None:
    environment = gpu_wheel.environment_for(debian)
    kept = gpu_wheel.make(environment, debian)
    assert kept == folder_of_built_here(environment, debian) / NAME
    assert made.done == ["install", "build", "attempt"]
    output = json.loads((kept.parent / "tried.json").read_text())
    assert output["codes"] == ["compute_80", "sm_70", "sm_75", "sm_80"]
    assert gpu_wheel.make(environment, debian) == kept
    assert made.done == ["install", "build", "attempt"]
    assert not [path for path in local_state.cache("building").iterdir() if path.is_dir()]


def test_files_of_a_killed_build_are_removed(made: Made, debian: HostFacts) -> None:
    environment = gpu_wheel.environment_for(debian)
    left = (
        local_state.cache("building")
        / folder_of_built_here(environment, debian).name
        / "env/bin/python"
    )
    left.mkdir(parents=True)
    gpu_wheel.make(environment, debian)
    assert not left.exists()


def test_one_that_bootstrap_built_is_only_tried(made: Made, debian: HostFacts) -> None:
    environment = gpu_wheel.environment_for(debian)
    there = wheel(folder_of_built_here(environment, debian))
    assert gpu_wheel.make(environment, debian) == there
    assert made.done == ["install", "attempt"]


def test_without_code_for_a_gpu_it_is_not_kept(made: Made, debian: HostFacts) -> None:
    made.library = fatbin(entry(2, 75), entry(2, 80))
    environment = gpu_wheel.environment_for(debian)
    with pytest.raises(RailheadError, match="^the wheel has no code for sm_70$"):
        gpu_wheel.make(environment, debian)
    assert not folder_of_built_here(environment, debian).exists()


def test_what_is_missing_is_named_before_anything_is_fetched(made: Made, debian: HostFacts) -> None:
    bare = replace(debian, tools={}, mpi_headers=False)
    with pytest.raises(
        UsageError, match="missing here, to build Horovod: mpirun, g\\+\\+"
    ) as caught:
        gpu_wheel.make(gpu_wheel.environment_for(bare), bare)
    assert "cmake g++ libopenmpi-dev make openmpi-bin" in caught.value.hint
    assert made.done == []


def test_the_build_fetches_no_library_of_nvidias_but_nccl() -> None:
    lock = GPU.lock.read_text()
    less = gpu_wheel.for_building(lock)
    names = {line.split("==")[0] for line in less.splitlines() if "==" in line}
    assert {name for name in names if name.startswith("nvidia-")} == {"nvidia-nccl-cu12"}
    assert {"tensorflow", "cloudpickle", "pip", "wheel", "setuptools"} <= names
    entries = [line for line in lock.splitlines() if "==" in line]
    kept = [line for line in less.splitlines() if "==" in line]
    assert len(kept) == len([e for e in entries if not e.startswith("nvidia-")]) + 1


def test_a_command_that_fails_is_reported_with_its_last_lines() -> None:
    with pytest.raises(RailheadError, match=r"sh ended with 3\none\ntwo"):
        gpu_wheel.run(["sh", "-c", "echo one; echo two >&2; exit 3"])


@pytest.fixture
def no_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv, which is beside our Python, makes environments and reaches no index."""
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n[ $1 = venv ] || { echo 'no route' >&2; exit 2; }\n")
    uv.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))


def test_a_machine_without_a_network_is_reported_what_it_has_to_reach(
    tmp_path: Path, no_route: None
) -> None:
    with pytest.raises(RailheadError) as caught:
        gpu_wheel.install(tmp_path / "env", "python3", tmp_path / "lock.txt")
    assert caught.value.message == "the runtime was not installed: uv ended with 2\nno route"
    assert "package index: 891 MB" in caught.value.hint
    fetched = Environment(GPU, "3.11", "").megabytes
    assert f"{fetched} MB for make gpu-check" in caught.value.hint


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        ({"arch": "aarch64"}, 2, "this machine is aarch64: the runtimes are locked for x86_64"),
        ({}, 1, "the runtime was not installed: uv ended with 2"),
    ],
)
def test_an_error_is_a_sentence_and_a_code(
    change: dict[str, str], code: int, text: str, debian: HostFacts, no_route: None, capsys: Any
) -> None:
    assert gpu_wheel.main(replace(debian, **change)) == code  # type: ignore[arg-type]
    assert capsys.readouterr().err.startswith(f"gpu-wheel: {text}")
