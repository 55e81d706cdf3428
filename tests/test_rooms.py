"""The rooms: who may import whom. Only documents cross between them."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("stacks", "bootstrap", "training")

# Each module imports only what stands before it: above, or to its left on its line.
LINES = (
    "errors voice",
    "inventory system gpus outside facts drivers plan",
    "document runtimes choice hostfile tf_config ignore folder package launch asked",
    "record uv wheels pins show unpack manifest traffic hops session connect trust",
    "processes loopback local",
    "board picture delivery ports destination fetched apt_proxy",
    "xids health chart",
    "stack cloud door bucket shelf receipt identity rotation",
    "survey changes supply ready overhaul reboot groundwork worksite building install",
    "run machines power results whereabouts follow ending teardown demolition",
    "checkup examine",
    "access watch status journey",
    "program options tasks",
    "fatbin tested gpu_wheel gpu_check",
)
ORDER = [name for line in LINES for name in line.split()]

# What a room may use besides the standard library and itself. `bootstrap` runs where a person
# types, `training` where the hosts' runtime is; neither has what the other is made of.
ALIEN = {
    "bootstrap": {"boto3", "botocore", "google", "horovod", "keras", "numpy", "pulumi"}
    | {"pulumi_aws", "pulumi_gcp", "tensorflow", "tf_keras", "training", "stacks"},
    "training": {"boto3", "fabric", "google", "invoke", "matplotlib", "paramiko", "pulumi"}
    | {"pulumi_aws", "pulumi_gcp", "bootstrap", "stacks"},
    "stacks": {"bootstrap", "fabric", "horovod", "invoke", "keras", "paramiko"}
    | {"tensorflow", "training"},
}
# The clouds' own SDKs, each only where its cloud is asked.
SDKS = {"bootstrap/cloud/boto.py": {"boto3", "botocore"}, "bootstrap/cloud/rest.py": {"google"}}
# On a host, in an environment of its own: the one shipped file that is not run by any Python.
SDKS["bootstrap/remote/ship.py"] = {"boto3", "botocore", "google"}
# As ranks, in a runtime.
SDKS["bootstrap/remote/try_wheel.py"] = {"horovod", "tensorflow"}
SDKS["bootstrap/remote/gpu_probe.py"] = {"horovod", "keras", "tensorflow"}
SDKS["bootstrap/remote/health_host.py"] = {"tensorflow"}
SDKS["bootstrap/remote/health_links.py"] = {"horovod", "tensorflow"}
FILES = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
MODULES = sorted((ROOT / "bootstrap").glob("[!_]*.py"))
CLOUDS = sorted((ROOT / "bootstrap/cloud").glob("*.py"))
SHIPPED = sorted((ROOT / "bootstrap/remote").glob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, anywhere in it, with dots; of `from a import b` both
    a and a.b, because b may be a module."""
    for found in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(found, ast.Import):
            yield from (alias.name for alias in found.names)
        elif isinstance(found, ast.ImportFrom):
            assert found.level == 0, f"{name_of(path)}: a relative import"
            assert found.module
            yield found.module
            yield from (f"{found.module}.{alias.name}" for alias in found.names)


def tops(path: Path) -> set[str]:
    """The first words of what a file imports."""
    return {name.partition(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_a_room_imports_no_other_room_and_nothing_foreign(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    assert not tops(path) & ALIEN[room] - SDKS.get(name_of(path), set())
    assert not tops(path) & {"tests", "benchmarks", "fabfile"}


def test_the_order_names_every_module_once() -> None:
    assert len(ORDER) == len(set(ORDER))
    there = {path.stem for path in MODULES} | {"cloud"}
    assert there == set(ORDER), "a module was added or taken away: say in ORDER where it stands"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_what_stands_before_it(path: Path) -> None:
    names = {name.split(".")[1] for name in imported(path) if name.startswith("bootstrap.")}
    before = set(ORDER[: ORDER.index(path.stem)])
    assert names <= before, f"{path.stem} reaches forward to {', '.join(names - before)}"


@pytest.mark.parametrize("path", CLOUDS, ids=name_of)
def test_a_cloud_imports_only_what_stands_before_clouds(path: Path) -> None:
    names = {name.split(".")[1] for name in imported(path) if name.startswith("bootstrap.")}
    assert names <= set(ORDER[: ORDER.index("cloud") + 1])


@pytest.mark.parametrize("path", SHIPPED, ids=name_of)
def test_what_is_shipped_to_hosts_needs_the_standard_library_alone(path: Path) -> None:
    ours = {other.stem for other in SHIPPED}
    for name in imported(path):
        top, *rest = name.split(".")
        beside = top in ours or (top == "bootstrap" and rest[:1] in ([], ["remote"]))
        beside |= top in SDKS.get(name_of(path), ())
        assert beside or top in sys.stdlib_module_names, f"{name_of(path)} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_is_shipped_to_hosts_is_never_imported_here(path: Path) -> None:
    assert not [name for name in imported(path) if name.startswith("bootstrap.remote")]


def test_the_fabfile_loads_nothing_heavy() -> None:
    """`fab --list` is asked often; what a task needs is imported by the task."""
    heavy = ["pulumi", "boto3", "tensorflow", "matplotlib", "numpy", "keras", "training"]
    late = ["bootstrap.journey", "bootstrap.connect", "bootstrap.picture", "bootstrap.package"]
    late += ["bootstrap.watch", "google", "bootstrap.cloud", "bootstrap.stack"]
    code = f"import sys, fabfile; print(*(set({heavy + late}) & set(sys.modules)))"
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
