"""horovod.sh around the build: what it refuses, shows, leaves and hands back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from places import ROOT
from standins.bare_host import BareHost

SCRIPT = ROOT / "bootstrap/host/scripts/horovod.sh"
TOOLS = ["sh", "awk", "basename", "cat", "env", "ls", "mkdir", "mktemp", "mv", "nproc"]
TOOLS += ["rm", "sed", "tail", "tee", "grep", "touch", "chmod"]
WHEEL = "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"

# Stands for the environment's Python: pip builds, zipfile lists, -c imports.
PYTHON = """#!{sh}
case "$*" in
*zipfile*) echo {listing} ;;
*" wheel "*)
    env >{folder}/seen
    cat "${{CPLUS_INCLUDE_PATH%%:*}}/{header}" >{folder}/header 2>/dev/null
    for last; do :; done
    echo "  [0%] compiling a b"; echo "  [50%] compiled a"; echo "compiler printed this"
    [ {code} = 0 ] || exit {code}
    mkdir -p "$last"; touch "$last/{wheel}" ;;
esac
"""
HEADER = "tensorflow/compiler/xla/client/xla_builder.h"
WHOLE = "horovod/tensorflow/mpi_lib.cpython-311-x86_64-linux-gnu.so"


class Host(BareHost):
    """A host with the tools of the build, and an environment whose pip is a fake."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TOOLS, ("env/bin", "include"))
        for tool in ("g++", "mpicxx"):
            self.place(f"bin/{tool}", "#!{sh}\necho {folder}/include\n")
        (folder / "include/mpi.h").touch()
        (folder / "horovod.txt").touch()
        self.pip()

    def pip(self, code: int = 0, listing: str = WHOLE) -> None:
        texts = {"listing": listing, "wheel": WHEEL, "header": HEADER}
        self.place("env/bin/python", PYTHON, code=code, **texts)

    def build(self, script: Path = SCRIPT, **variables: str) -> subprocess.CompletedProcess[str]:
        here = self.folder
        return self.run(script, here / "env", here / "out", here / "horovod.txt", **variables)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_the_last_line_is_the_wheel(host: Host) -> None:
    process = host.build()
    assert process.returncode == 0, process.stderr
    wheel = host.folder / "out" / WHEEL
    assert process.stdout.splitlines()[-1] == str(wheel)
    assert wheel.exists()
    assert host.left == []


def test_progress_is_a_line_for_each_part(host: Host) -> None:
    shown = [line for line in host.build().stdout.splitlines() if "%" in line]
    assert shown == ["horovod: [0%] compiling a b", "horovod: [50%] compiled a"]


def test_a_failed_build_ends_with_its_log_and_leaves_nothing(host: Host) -> None:
    host.pip(code=3)
    process = host.build()
    assert process.returncode == 1
    assert "compiler printed this" in process.stderr
    assert "pip ended with 3" in process.stderr
    assert host.left == []
    assert not (host.folder / "out").exists()


def test_the_first_errors_of_the_compilers_are_shown_last(host: Host) -> None:
    """Pip's own lines are long, and other compilers go on."""
    noise = 'for n in 1 2 3 4 5 6 7 8 9 10; do printf "note: %s\\n\\n\\n\\n" $n; done'
    errors = "; ".join(f'echo "mpi_ops.cc:{n}:1: error: no member {n}"' for n in range(1, 9))
    shown = f'echo "compiler printed this"; {errors}; {noise}; {noise}'
    before = 'echo "compiler printed this"'
    assert before in PYTHON
    host.place("env/bin/python", PYTHON.replace(before, shown), code=3, listing=WHOLE, wheel=WHEEL,
               header=HEADER)  # fmt: skip
    lines = [line for line in host.build().stderr.splitlines() if line]
    assert [line.rpartition(" ")[2] for line in lines[-6:-1]] == ["1", "2", "3", "4", "5"]
    assert "the build failed" in lines[-1]


def test_a_wheel_without_a_library_is_a_failure(host: Host) -> None:
    host.pip(listing="horovod/tensorflow/__init__.py")
    process = host.build()
    assert process.returncode == 1
    assert "no TensorFlow library" in process.stderr
    assert not (host.folder / "out").exists()


@pytest.mark.parametrize("gone", ["g++", "mpicxx"])
def test_a_missing_tool_is_named_before_anything_is_fetched(host: Host, gone: str) -> None:
    (host.folder / "bin" / gone).unlink()
    process = host.build()
    assert process.returncode == 2
    assert f"not found: {gone}" in process.stderr
    assert "apt-get install -y" in process.stderr
    assert not (host.folder / "seen").exists()


def test_mpi_without_its_header_is_missing_too(host: Host) -> None:
    (host.folder / "include/mpi.h").unlink()
    process = host.build()
    assert (process.returncode, "not found: mpi.h;" in process.stderr) == (2, True)


def test_settings_of_the_callers_own_do_not_reach_the_build(host: Host) -> None:
    host.build(HOROVOD_GPU_OPERATIONS="NCCL", HOROVOD_WITH_PYTORCH="1", CUDA_HOME="/usr", NCCL="/")
    seen = dict(line.partition("=")[::2] for line in host.recorded("seen").splitlines())
    compile = str(SCRIPT.with_name("horovod_compile.sh"))
    assert {k: v for k, v in seen.items() if k.startswith("HOROVOD_")} == {"HOROVOD_CMAKE": compile}
    assert not {"CUDA_HOME", "NCCL"} & set(seen)
    assert int(seen["JOBS"]) > 0 and seen["PYTHON"] == f"{host.folder}/env/bin/python"


CUDA = """#!{sh}
echo "$*" >{folder}/arguments
mkdir -p {folder}/toolkit
ln -s {folder}/toolkit "$2"
exit {code}
"""


def with_nccl(host: Host, code: int = 0) -> Path:
    """An environment that has NCCL, and a copy of the script beside a fake cuda.sh."""
    nccl = host.folder / "env/lib/python3.11/site-packages/nvidia/nccl"
    nccl.mkdir(parents=True)
    host.link("ln", "readlink")
    (host.folder / "recipe").mkdir()
    for script in (SCRIPT, SCRIPT.with_name("horovod_compile.sh")):
        shutil.copyfile(script, host.folder / "recipe" / script.name)  # as it is sent
    host.place("recipe/cuda.sh", CUDA, code=code)
    return nccl


@pytest.mark.parametrize("has_it", [False, True])
def test_a_header_that_tensorflow_moved_is_in_its_former_place(host: Host, has_it: bool) -> None:
    with_nccl(host)
    include = host.folder / "env/lib/python3.13/site-packages/tensorflow/include"
    (include / HEADER).parent.mkdir(parents=True)
    if has_it:
        (include / HEADER).touch()
    process = host.build(script=host.folder / "recipe/horovod.sh")
    assert process.returncode == 0, process.stderr
    moved = '#include "tensorflow/compiler/xla/hlo/builder/xla_builder.h"'
    assert (moved in host.recorded("header")) is not has_it
    external = f":{include}/external/highwayhash:{include}/external/farmhash_archive/src\n"
    assert (external in host.recorded("seen")) is not has_it
    assert host.left == []


def test_an_environment_with_nccl_gets_operations_on_gpus(host: Host) -> None:
    nccl = with_nccl(host)
    process = host.build(script=host.folder / "recipe/horovod.sh")
    assert process.returncode == 0, process.stderr
    seen = set(host.recorded("seen").splitlines())
    assert {f"CUDA_HOME={host.folder}/toolkit", f"NCCL={nccl}"} <= seen
    env, _, locks = (host.folder / "arguments").read_text().split()
    assert (env, locks) == (str(host.folder / "env"), str(host.folder))
    assert host.left == []


@pytest.mark.parametrize("code", [1, 2])
def test_without_a_toolkit_nothing_is_built(host: Host, code: int) -> None:
    with_nccl(host, code)
    process = host.build(script=host.folder / "recipe/horovod.sh")
    assert process.returncode == code
    assert not (host.folder / "seen").exists()
    assert host.left == []
