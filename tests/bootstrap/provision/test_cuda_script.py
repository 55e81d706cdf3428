"""cuda.sh: which toolkit it takes, what it fetches, and what it refuses."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from places import ROOT
from standins.bare_host import BareHost

from bootstrap.plan import downloads

SCRIPT = ROOT / "bootstrap/host/scripts/cuda.sh"
TOOLS = ["cat", "cp", "ln", "mkdir", "mktemp", "mv", "readlink", "rm", "sed", "tail"]
DEBIAN = "http://mirror.example/debian"
PUBLIC = downloads.DEBIAN

# Compiles nothing: it ends as configured, and knows the configured GPUs.
NVCC = """#!{sh}
case "$*" in *sm_70*sm_75*sm_80*) exit {code} ;; esac
exit 9
"""
# Writes down its arguments, and makes an empty package, unless its address contains one of `fails`.
HELPER = """#!{sh}
echo "$*" >>{folder}/arguments
case "$*" in {fails}) exit 4 ;; esac
while [ "$1" != download-file ]; do shift; done
echo >"$3"
"""
UNPACK = """#!{sh}
from=$3/usr/lib/nvidia-cuda-toolkit
mkdir -p "$from/bin/crt" "$from/libdevice" "$3/usr/bin"
cp {folder}/good "$from/bin/nvcc"
for file in "$from/bin/cicc" "$from/libdevice/libdevice.10.bc"; do echo >"$file"; done
for tool in cudafe++ fatbinary ptxas nvlink bin2c cuobjdump; do echo >"$3/usr/bin/$tool"; done
"""
PIP = """#!{sh}
echo "$*" >>{folder}/arguments
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/nvidia/cuda_runtime/include" "$2/nvidia/cuda_runtime/lib" \\
    "$2/nvidia/cuda_cccl/include/nv"
echo >"$2/nvidia/cuda_runtime/lib/libcudart.so.12"
echo >"$2/nvidia/cuda_runtime/lib/libcudart_static.a"
exit {code}
"""


class Host(BareHost):
    """A host that has what every Debian has, and apt's sources in a folder."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TOOLS, ("env/bin", "apt/sources.list.d", "own/bin"))
        self.place("bin/ar", "#!{sh}\necho >$2\n")
        self.place("good", NVCC, code=0)
        self.place("bin/dpkg", UNPACK)
        self.place("helper", HELPER, fails="nothing")
        self.place("env/bin/python", PIP, code=0)
        (folder / "apt/sources.list").write_text(f"# no {DEBIAN}x\ndeb {DEBIAN}/ bookworm main\n")

    @property
    def requests(self) -> str:
        """What was fetched."""
        return self.recorded("arguments")

    def make(self, **variables: str) -> subprocess.CompletedProcess[str]:
        here = self.folder
        apt = {"RAILHEAD_APT_SOURCES": str(here / "apt")}
        apt |= {"RAILHEAD_APT_HELPER": str(here / "helper")}
        return self.run(SCRIPT, here / "env", here / "home", here / "locks", **apt, **variables)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_a_toolkit_of_the_hosts_own_is_taken_where_it_compiles(host: Host) -> None:
    own_toolkit(host, code=0)
    (host.folder / "own/include").mkdir()
    (host.folder / "own/include/cuda_runtime.h").touch()
    process = host.make()
    assert process.returncode == 0, process.stderr
    assert (host.folder / "home").resolve() == host.folder / "own"
    assert host.requests == ""
    assert host.left == []


def own_toolkit(host: Host, code: int) -> None:
    """An nvcc on the PATH, without headers."""
    host.place("own/bin/nvcc", NVCC, code=code)
    (host.folder / "bin/nvcc").symlink_to(host.folder / "own/bin/nvcc")


@pytest.mark.parametrize(("there", "code", "whole"), [(0, 0, 0), (1, 1, 1), (1, 0, 0)])
def test_otherwise_one_is_created_from_pinned_parts(
    host: Host, there: int, code: int, whole: int
) -> None:
    if there:  # CUDA 13, say, or one that does not know this g++, or a system's package
        own_toolkit(host, code)
    if whole:
        (host.folder / "own/include").mkdir()
        (host.folder / "own/include/cuda_runtime.h").touch()
    process = host.make()
    assert process.returncode == 0, process.stderr
    home = host.folder / "home"
    parts = ["bin/nvcc", "bin/ptxas", "nvvm/bin/cicc", "include/nv", "lib64/libcudart_static.a"]
    parts += ["bin/nvcc.profile", "lib64/libcudadevrt.a", "lib64/libcudart.so"]
    assert [path for path in parts if not (home / path).exists()] == []
    deb, headers, parts_ = host.requests.splitlines()
    assert f"download-file {DEBIAN}/pool/non-free/n/nvidia-cuda-toolkit/" in deb
    assert "SHA256:" in deb
    for line, lock in ((headers, "cuda-headers.txt"), (parts_, "cuda-parts.txt")):
        assert "--require-hashes" in line
        assert line.endswith(lock)
    assert host.left == []


def tried(host: Host) -> list[str]:
    """The archives from which nvcc was requested, in order."""
    return re.findall(r"download-file (\S+)/pool/", host.requests)


def test_an_archive_that_is_named_is_the_only_one(host: Host) -> None:
    near = "http://near.example/debian"
    assert host.make(DEBIAN_MIRROR=f"{near}/").returncode == 0
    host.place("helper", HELPER, fails="*near*")
    assert host.make(DEBIAN_MIRROR=near).returncode == 1
    assert tried(host) == [near, near]


@pytest.mark.parametrize(
    ("fails", "archives"), [("nothing", [DEBIAN]), ("*mirror.example*", [DEBIAN, PUBLIC])]
)
def test_debians_own_archive_comes_after_those_of_apt(
    host: Host, fails: str, archives: list[str]
) -> None:
    host.place("helper", HELPER, fails=fails)
    process = host.make()
    assert process.returncode == 0, process.stderr
    assert tried(host) == archives and host.left == []


def test_a_system_without_debians_archive_gets_nvcc_from_it(host: Host) -> None:
    (host.folder / "apt/sources.list").write_text("deb http://mirror.example/ubuntu noble main\n")
    process = host.make()
    assert process.returncode == 0, process.stderr
    assert tried(host) == [PUBLIC] and (host.folder / "home/bin/nvcc").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sources.list.d/debian.sources", f"Types: deb\nURIs: {DEBIAN}\nSuites: bookworm\n"),
        ("sources.list.d/x.list", f"deb [arch=amd64] {DEBIAN} bookworm main\n"),
        ("mirrors/debian.list", f"{DEBIAN}\n"),  # Google's images name a list of mirrors
    ],
)
def test_apts_sources_are_read_in_all_their_shapes(host: Host, name: str, text: str) -> None:
    (host.folder / "apt/sources.list").unlink()
    path = host.folder / "apt" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    assert host.make().returncode == 0
    assert f"download-file {DEBIAN}/pool/" in host.requests


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("helper", HELPER, f"nvcc could not be fetched from {DEBIAN} {PUBLIC}; apt's"),
        ("env/bin/python", PIP, "the wheels of cuda-headers.txt could not be fetched"),
        ("good", NVCC, "the toolkit that was made does not compile"),
    ],
)
def test_what_fails_is_named_and_nothing_is_left(
    host: Host, name: str, text: str, says: str
) -> None:
    host.place(name, text, code=4, fails="*")
    process = host.make()
    assert process.returncode == 1
    assert says in process.stderr
    assert host.left == []
