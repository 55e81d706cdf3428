"""`fab wheel` around the build: what it fetches, what it stores, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bootstrap.cli.wheel import make as fab_wheel
from bootstrap.errors import RailheadError, UsageError
from bootstrap.facts.host import HostFacts
from bootstrap.inventory import caches
from bootstrap.plan.runtimes import RUNTIMES, Environment
from bootstrap.provision import local_wheel
from bootstrap.provision.wheel_store import folder_of_built_here
from railhead.documents.options.hosts import WheelOptions

from ..facts.test_fatbin import entry, fatbin

GPU, CPU = RUNTIMES["tf2.18-gpu"], RUNTIMES["tf2.18-cpu"]
NAME = "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
ALL = fatbin(entry(2, 70), entry(2, 75), entry(2, 80), entry(1, 80))


def wheel(folder: Path, library: bytes = ALL) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / NAME, "w") as files:
        files.writestr("horovod/tensorflow/mpi_lib.cpython-311-x86_64-linux-gnu.so", library)
    return folder / NAME


class Made:
    """Stands for what takes minutes: which of it was done."""

    TESTED = "built with mpi; 2 ranks summed over MPI"

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done: list[str] = []
        self.library = ALL
        for name in ("install", "build", "attempt"):
            patch.setattr(local_wheel, name, getattr(self, name))

    def install(self, folder: Path, python: str, lock: Path) -> None:
        self.done.append("install")
        assert "nvidia-cublas" not in lock.read_text()

    def build(self, folder: Path, environment: Environment) -> Path:
        self.done.append("build")
        return wheel(folder / "out", self.library)

    def attempt(self, folder: Path, wheel: Path, environment: Environment) -> str:
        self.done.append("attempt")
        return self.TESTED


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Made:
    return Made(monkeypatch)


@pytest.mark.parametrize(
    ("pythons", "options", "expected"),
    [
        (("3.11", "3.12"), {}, ("tf2.18-cpu", "3.11")),
        (("3.11", "3.12"), {"gpu": True}, ("tf2.18-gpu", "3.11")),
        (("3.11", "3.12"), {"python": "3.12"}, ("tf2.18-cpu", "3.12")),
        (("3.11", "3.12"), {"name": "tf2.21", "gpu": True}, ("tf2.21-gpu", "3.11")),
        (("3.13",), {}, ("tf2.21-cpu", "3.13")),
        (("3.12", "3.13"), {"python": "3.13"}, ("tf2.21-cpu", "3.13")),
    ],
)
def test_a_wheel_is_for_a_runtime_and_a_python_of_this_computer(
    debian: HostFacts, pythons: tuple[str, ...], options: Any, expected: tuple[str, str]
) -> None:
    here = replace(debian, pythons={python: "/usr/bin/python" for python in pythons})
    environment = local_wheel.environment_here(here, **options)
    assert (environment.runtime.name, environment.python) == expected


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"arch": "aarch64"}, {}, "^this computer is aarch64"),
        (
            {"pythons": {"3.14": "/p"}},
            {},
            "^no runtime for the Pythons of .*; this computer has 3.14$",
        ),
        (
            {},
            {"python": "3.9"},
            "^no runtime for Python 3.9: .*tf2.21 is for Python 3.11, 3.12, 3.10, 3.13;",
        ),
        ({}, {"python": "3.13", "name": "tf2.18"}, "^no runtime for Python 3.13: tf2.18 is for"),
        ({}, {"name": "tf2.19"}, "^runtime 'tf2.19': one of tf2.18, tf2.21"),
    ],
)
def test_a_computer_without_a_runtime_is_refused_with_the_choices(
    debian: HostFacts, change: Any, options: Any, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        local_wheel.environment_here(replace(debian, **change), **options)


def test_this_computers_facts_are_read_as_a_hosts_are() -> None:
    assert local_wheel.facts_here().memory > 0


def test_it_is_stored_where_bootstrap_looks_and_built_once(made: Made, debian: HostFacts) -> None:
    environment = local_wheel.environment_here(debian, gpu=True)
    kept = local_wheel.make(environment, debian)
    assert kept == folder_of_built_here(environment, debian) / NAME
    assert made.done == ["install", "build", "attempt"]
    output = json.loads((kept.parent / "tried.json").read_text())
    assert output["codes"] == ["compute_80", "sm_70", "sm_75", "sm_80"]
    assert local_wheel.make(environment, debian) == kept
    assert made.done == ["install", "build", "attempt"]
    assert not [path for path in caches.cache("building").iterdir() if path.is_dir()]


def test_files_of_a_killed_build_are_removed(made: Made, debian: HostFacts) -> None:
    environment = local_wheel.environment_here(debian, gpu=True)
    leftover = (
        caches.cache("building") / folder_of_built_here(environment, debian).name / "env/bin/python"
    )
    leftover.mkdir(parents=True)
    local_wheel.make(environment, debian)
    assert not leftover.exists()


def test_one_that_bootstrap_built_is_only_tried(made: Made, debian: HostFacts) -> None:
    environment = local_wheel.environment_here(debian, gpu=True)
    there = wheel(folder_of_built_here(environment, debian))
    assert local_wheel.make(environment, debian) == there
    assert made.done == ["install", "attempt"]


def test_without_code_for_a_gpu_it_is_not_kept(made: Made, debian: HostFacts) -> None:
    made.library = fatbin(entry(2, 75), entry(2, 80))
    environment = local_wheel.environment_here(debian, gpu=True)
    with pytest.raises(RailheadError, match="^the wheel has no code for sm_70$"):
        local_wheel.make(environment, debian)
    assert not folder_of_built_here(environment, debian).exists()


def test_what_is_missing_is_named_before_anything_is_fetched(made: Made, debian: HostFacts) -> None:
    bare = replace(debian, tools={}, mpi_headers=False)
    with pytest.raises(
        UsageError, match="missing here, to build Horovod: mpirun, g\\+\\+"
    ) as caught:
        local_wheel.make(local_wheel.environment_here(bare), bare)
    assert "g++ libopenmpi-dev openmpi-bin" in caught.value.hint
    assert made.done == []


def test_the_build_fetches_no_library_of_nvidias_but_nccl() -> None:
    lock = GPU.lock.read_text()
    less = local_wheel.for_building(lock)
    names = {line.split("==")[0] for line in less.splitlines() if "==" in line}
    assert {name for name in names if name.startswith("nvidia-")} == {"nvidia-nccl-cu12"}
    assert {"tensorflow", "cloudpickle", "pip", "wheel", "setuptools"} <= names
    entries = [line for line in lock.splitlines() if "==" in line]
    kept = [line for line in less.splitlines() if "==" in line]
    assert len(kept) == len([e for e in entries if not e.startswith("nvidia-")]) + 1


def test_a_command_that_fails_is_reported_with_its_last_lines() -> None:
    with pytest.raises(RailheadError, match=r"sh ended with 3\none\ntwo"):
        local_wheel.run(["sh", "-c", "echo one; echo two >&2; exit 3"])


@pytest.fixture
def no_route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv makes environments and reaches no index."""
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n[ $1 = venv ] || { echo 'no route' >&2; exit 2; }\n")
    uv.chmod(0o755)
    monkeypatch.setattr("bootstrap.provision.uv.find_uv_bin", lambda: str(uv))


def test_a_machine_without_a_network_is_reported_what_it_has_to_reach(
    tmp_path: Path, no_route: None
) -> None:
    with pytest.raises(RailheadError) as caught:
        local_wheel.install(tmp_path / "env", "python3", tmp_path / "lock.txt")
    assert caught.value.message == "the runtime was not installed: uv ended with 2\nno route"
    assert "package index" in caught.value.hint


@pytest.mark.parametrize(("gpu", "tested"), [(True, "; code for compute_80, sm_70"), (False, "")])
def test_a_wheel_is_copied_with_its_sha256_and_the_command_that_installs_it(
    made: Made, debian: HostFacts, tmp_path: Path, capsys: Any, gpu: bool, tested: str
) -> None:
    out = tmp_path / "new/folder"
    fab_wheel(WheelOptions(gpu=gpu, out=str(out)), "tf2.21", debian)
    copy = out / NAME
    digest = hashlib.sha256(copy.read_bytes()).hexdigest()
    assert (out / f"{NAME}.sha256").read_text() == f"{digest}  {NAME}\n"
    printed = capsys.readouterr().out.splitlines()
    assert printed[-5:-3] == [str(copy), f"sha256 {digest}"]
    assert printed[-3:] == (out / f"{NAME}.txt").read_text().splitlines()
    assert "debian-12 on x86_64, Python 3.11, TensorFlow 2.21.0, Open MPI 4" in printed[-3]
    assert printed[-2].startswith(f"{Made.TESTED}{tested}")
    tensorflow = "'tensorflow[and-cuda]==2.21.0'" if gpu else "tensorflow-cpu==2.21.0"
    assert printed[-1] == f"python3.11 -m pip install {tensorflow} setuptools {copy}"
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o644}


def test_a_wheel_for_another_tensorflow_is_not_overwritten(
    made: Made, debian: HostFacts, tmp_path: Path
) -> None:
    (tmp_path / NAME).write_bytes(b"for TensorFlow 2.18")
    with pytest.raises(UsageError, match="^--out: .* is another wheel of the same name"):
        fab_wheel(WheelOptions(out=str(tmp_path)), "tf2.21", debian)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [NAME]


def test_a_file_in_place_of_the_folder_is_refused_before_the_build(
    made: Made, debian: HostFacts, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="^--out: .*/file is not a folder$"):
        fab_wheel(WheelOptions(out=str(tmp_path / "file")), None, debian)
    assert made.done == []
